"""The planted bug in groups still reaches what it breaks, and the nightly check finds it; it is
found by `manage.py torture`, too."""

from __future__ import annotations

import pytest

from portal.torture import plants
from scheduler.services.invariants import check_invariants
from scheduler.services.submitting import groups
from tests import scenes
from tests.scenes import at, submit

pytestmark = pytest.mark.django_db


def test_an_older_job_that_waits_on(monkeypatch, root, alice, project):
    scenes.build_cluster(root)
    monkeypatch.setattr(groups.Members, "leaving", groups.Members.leaving)
    plants.PLANTS["older-left"].on_server()
    first, second = (submit(alice, project, group="eval", now=at(n)) for n in range(2))
    words = f"I37: of group eval, job {first.pk} waits though job {second.pk} is newer"
    assert check_invariants(now=at(600)).breaks == [words]
