"""Who may submit at which tier."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from accounts.services import create_project, create_team
from scheduler.models import Job
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.submitting.ceilings import ceiling_of, set_ceiling
from scheduler.spec import SpecInvalid
from scheduler.states import Tier
from tests.scenes import build_cluster, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return build_cluster(root, nodes=1, gpus=2)


def refused(alice, project, tier: str) -> str:
    with pytest.raises(SpecInvalid) as caught:
        submit(alice, project, tier=tier)
    (problem,) = caught.value.problems
    assert problem.field == "tier"
    assert not Job.objects.filter(tier=int(Tier[tier.upper()])).exists()
    return problem.message


def test_production_is_open_only_to_whom_an_operator_names(cluster, alice, root, project):
    assert submit(alice, project, tier="urgent").tier == Tier.URGENT
    assert "may be urgent at most for all whom no operator allowed more" in refused(
        alice, project, "production"
    )
    set_ceiling(actor=root, owner=project, tier="production")
    assert submit(alice, project, tier="production").tier == Tier.PRODUCTION
    assert AuditEvent.objects.filter(action="quota.set_ceiling").count() == 1
    set_ceiling(actor=root, owner=project, tier=None)
    assert ceiling_of(project) is Tier.URGENT


def test_the_form_offers_only_what_some_project_may_use(
    client, cluster, alice, root, team, project
):
    def offered():
        page = client.get("/jobs/new/").content.decode()
        return [tier.name for tier in Tier if f'value="{tier.name.lower()}"' in page]

    client.force_login(alice)
    assert offered() == ["EXPLORATORY", "NORMAL", "URGENT"]
    set_ceiling(actor=root, owner=project, tier="normal")
    assert offered() == ["EXPLORATORY", "NORMAL"]
    create_project(actor=root, team=team, name="Second")
    assert offered() == ["EXPLORATORY", "NORMAL", "URGENT"]
    page = client.post("/jobs/new/", {"project": project.path, "tier": "production"})
    assert 'value="production"' in page.content.decode()


def test_the_lowest_on_the_way_up_holds(cluster, alice, root, team, project):
    set_ceiling(actor=root, owner=project, tier="urgent")
    set_ceiling(actor=root, owner=team, tier="normal")
    assert ceiling_of(project) is Tier.NORMAL
    assert "may be normal at most for your team" in refused(alice, project, "urgent")
    assert submit(alice, project, tier="normal").tier == Tier.NORMAL


def test_a_refusal_names_the_account_whose_ceiling_it_is(cluster, root, team, project):
    below = create_team(actor=root, name="Segmentation", parent=team)
    deep = create_project(actor=root, team=below, name="Cells")
    set_ceiling(actor=root, owner=team, tier="normal")
    assert f"at most for the team {team.slug};" in refused(root, deep, "urgent")
    set_ceiling(actor=root, owner=team, tier=None)
    set_ceiling(actor=root, owner=below, tier="normal")
    assert "at most for your team;" in refused(root, deep, "urgent")
    set_ceiling(actor=root, owner=below, tier=None)
    set_ceiling(actor=root, owner=None, tier="normal")
    assert "at most for the organisation;" in refused(root, deep, "urgent")


def test_the_setting_holds_for_all_others(cluster, alice, project, settings):
    settings.TRAINYARD = {**settings.TRAINYARD, "tier_ceiling": "exploratory"}
    refused(alice, project, "normal")
    assert submit(alice, project, tier="exploratory").tier == Tier.EXPLORATORY


def test_what_would_have_no_effect_is_refused(cluster, alice, root, team, project):
    set_ceiling(actor=root, owner=team, tier="normal")
    for tier in ("normal", "urgent"):
        with pytest.raises(Invalid, match="has no effect: normal is the most") as caught:
            set_ceiling(actor=root, owner=project, tier=tier)
        assert caught.value.field == "tier"
    with pytest.raises(Invalid, match="Choose one of exploratory"):
        set_ceiling(actor=root, owner=project, tier="best")
    with pytest.raises(Forbidden):
        set_ceiling(actor=alice, owner=project, tier="exploratory")
