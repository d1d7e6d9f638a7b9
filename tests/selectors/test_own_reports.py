"""Reports of own jobs, narrowed to a team and a project."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.errors import NotFound
from tests.selectors.test_reports import closed, opened
from tests.services.test_books import clerk, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "closed", "yard"]


def test_own_costs_are_narrowed_to_a_team_and_a_project(closed, alice, project, other_project):
    """And what is foreign is missing, as it is for everybody else."""
    for narrowed in ({"team": "vision"}, {"project": project.path}, {"project": project.slug}):
        more = {"team": "vision"} if narrowed == {"project": project.slug} else {}
        (mine,) = opened(alice, "job-cost", **narrowed, **more)[0]
        assert mine["amount"] == Decimal("7.2")
    foreign = ({"team": "speech"}, {"project": other_project.path}, {"team": "nowhere"})
    for slug in ("job-cost", "idle-waste", "unit-cost", "usage-lines", "segments"):
        for narrowed in foreign:
            with pytest.raises(NotFound):
                opened(alice, slug, **narrowed)


def test_a_project_of_another_team_than_the_one_asked_for_is_said(root, closed, project):
    with pytest.raises(NotFound, match="not of this team"):
        opened(root, "job-cost", team="speech", project=project.path)
    assert opened(root, "job-cost", team="vision", project=project.path)[0]
