"""A team's quota as people see and set it: own, borrowed, lent, grants, caps, budgets."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from accounts.services import add_member, create_team
from scheduler.models import Quota
from scheduler.selectors.sharing.overview import team_quota
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_caps, set_quota
from tests import scenes
from tests.scenes import at, start, submit

pytestmark = pytest.mark.django_db
URL = "/teams/vision/quota/"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def as_(client):
    def sign_in(user):
        client.force_login(user)
        return client

    return sign_in


def said(reply) -> str:
    return reply.content.decode()


def test_own_borrowed_and_lent_add_up(
    cluster, root, team, other_team, alice, carol, project, other_project
):
    set_quota(actor=root, owner=team, guaranteed=2)
    set_quota(actor=root, owner=other_team, guaranteed=1)
    start(submit(carol, other_project, gpus_per_node=2), cluster.node(1))
    start(submit(carol, other_project), cluster.node(2))
    start(submit(alice, project), cluster.node(2))
    now = timezone.now()
    (ours,) = team_quota(root, "vision", now=now).rows
    (theirs,) = team_quota(root, "speech", now=now).rows
    # Of the two that speech borrows one is guaranteed to nobody.
    assert (ours.own, ours.borrowed, ours.free, ours.lent, ours.rest) == (1, 0, 1, 1, 0)
    assert ours.borrowers == (("speech", 2),)
    assert (theirs.own, theirs.borrowed, theirs.lent) == (1, 2, 0)
    assert ours.oversubscribed == theirs.oversubscribed == 0


def test_who_borrows_is_named_to_who_sees_that_team(
    cluster, root, operator, team, other_team, alice, lead, carol, other_project, as_
):
    """Others read that it is another team, or other teams, and how much together."""
    set_quota(actor=root, owner=team, guaranteed=4)
    set_quota(actor=root, owner=other_team, guaranteed=0, borrow_limit=4)
    start(submit(carol, other_project, gpus_per_node=2), cluster.node(1))
    for viewer in (alice, lead):
        page = said(as_(viewer).get(URL))
        assert "another team 2" in page and "speech" not in page
    for viewer in (root, operator):
        assert "speech 2" in said(as_(viewer).get(URL))
    third = create_team(actor=root, name="robots", slug="robots")
    set_quota(actor=root, owner=third, guaranteed=0, borrow_limit=4)
    Quota.objects.filter(account__team=third).update(held=1)
    (row,) = team_quota(alice, "vision", now=timezone.now()).rows
    assert row.borrowers == (("other teams", 3),)
    add_member(actor=root, team=third, user=alice, role="member")
    viewer = User.objects.get(pk=alice.pk)
    (row,) = team_quota(viewer, "vision", now=timezone.now()).rows
    assert row.borrowers == (("robots", 1), ("another team", 2))


def test_a_lost_node_shows_by_how_much_guarantees_are_oversubscribed(
    cluster, root, team, other_team, as_
):
    from scheduler.models import Device

    set_quota(actor=root, owner=team, guaranteed=2)
    set_quota(actor=root, owner=other_team, guaranteed=2)
    Device.objects.filter(node=cluster.node(2)).update(is_present=False)
    (row,) = team_quota(root, "vision", now=timezone.now()).rows
    assert (row.oversubscribed, row.guaranteed) == (2, 2)
    assert "oversubscribed by 2" in said(as_(root).get(URL))


def test_the_board_draws_a_quota_as_its_own_page_does(
    cluster, root, team, other_team, alice, carol, project, other_project, as_
):
    """To one scale: up to the most it may hold."""
    set_quota(actor=root, owner=team, guaranteed=1, maximum=4)
    for node in cluster.nodes:
        start(submit(alice, project), node)
    set_quota(actor=root, owner=other_team, guaranteed=2)
    client = as_(root)
    bars = []
    for name in ("quota", "board"):
        page = said(client.get(reverse(f"teams:{name}", args=[team.slug])))
        bars.append(re.search(r'<svg class="bar".*?</span>', page, re.S)[0])
        assert "free of what is guaranteed" in page
    assert bars[0] == bars[1]
    assert "1 own, 0 free, 1 borrowed" in bars[0]
    assert re.findall(r'class="b-(used|bor)" x="([\d.]+)%" width="([\d.]+)%"', bars[0]) == [
        ("used", "0.00", "25.00"),
        ("bor", "25.00", "25.00"),
    ]


def test_the_page_names_everything(cluster, root, team, project, lead, as_):
    now = timezone.now()
    quota = set_quota(actor=root, owner=team, guaranteed=1, maximum=2)
    add_grant(
        actor=root, quota=quota, valid_from=now, valid_until=now + timedelta(days=3), guaranteed=1,
        maximum=2,
    )  # fmt: skip
    set_caps(actor=root, owner=team, max_gpus_per_job=4)
    set_budget(
        actor=root, owner=team, amount=Decimal(500), valid_from=now - timedelta(days=1),
        valid_until=now + timedelta(days=9),
    )  # fmt: skip
    page = said(as_(lead).get(URL))
    for words in ("grant: +1 guaranteed", "4 GPUs for one job", "500.00 EUR", "lasts its period"):
        assert words in page


def test_a_lead_sets_projects_within_the_team(cluster, root, lead, team, project, as_):
    client = as_(lead)
    asked = {"owner": "vision/digits", "guaranteed": "1", "seen": ""}
    refused = client.post(URL, asked)
    assert refused.status_code == 422
    assert "guaranteed nothing of these" in said(refused)
    set_quota(actor=root, owner=team, guaranteed=2, maximum=3)
    assert client.post(URL, asked).status_code == 302
    # From the empty form once more: what is set already is not written over.
    again = client.post(URL, asked)
    assert again.status_code == 409 and "This quota is set already." in said(again)
    over = {**asked, "guaranteed": "3", "seen": "1...."}
    assert client.post(URL, over).status_code == 422
    assert client.post(URL, {**asked, "owner": "vision", "seen": "2...3."}).status_code == 422
    assert Quota.objects.get(account__project=project).guaranteed == 1


def test_lowering_below_use_is_said_and_counts_for_new_starts(
    cluster, root, team, alice, project, as_
):
    set_quota(actor=root, owner=team, maximum=2)
    start(submit(alice, project, gpus_per_node=2), cluster.node(1), now=at(0))
    asked = {"owner": "vision", "guaranteed": "0", "maximum": "1", "seen": "0...2."}
    page = said(as_(root).post(URL, asked, follow=True))
    assert "2 are held now" in page
    assert "more than it may hold now" in page


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"guaranteed": "-1"}, "from 0"),
        ({"guaranteed": "1.5"}, "whole number"),
        ({"guaranteed": "1,5"}, "whole number"),
        ({"guaranteed": str(2**63)}, "from 0"),
        ({"guaranteed": "0"}, "change nothing"),
        ({"guaranteed": "3", "maximum": "2"}, "below the guarantee"),
        ({"guaranteed": "2", "lend_limit": "2"}, "no effect"),
        ({"pool": "attic"}, "valid choice"),
        ({"owner": "speech"}, "valid choice"),
    ],
)
def test_bad_figures_are_refused_beside_the_field(cluster, root, team, as_, wrong, words):
    reply = as_(root).post(URL, {"owner": "vision", "guaranteed": "1", "seen": "", **wrong})
    assert reply.status_code == 422
    assert words in said(reply)
    assert not Quota.objects.exists()


def test_the_longest_job_is_set_and_shown_with_what_is_granted(cluster, root, team, as_):
    client = as_(root)
    asked = {"owner": "vision", "guaranteed": "0", "max_hours": "72", "seen": ""}
    assert client.post(URL, asked).status_code == 302
    assert client.post(URL, {**asked, "seen": "0....72", "max_hours": "0"}).status_code == 422
    quota = Quota.objects.get()
    begin, end = timezone.now(), timezone.now() + timedelta(days=3)
    body = {"max_hours": 24, "valid_from": begin.isoformat(), "valid_until": end.isoformat()}
    reply = client.post(
        f"/api/v1/rules/quotas/{quota.pk}/grants/", body, content_type="application/json"
    )
    assert (reply.status_code, reply.json()["max_hours"]) == (201, 24)
    page = said(client.get(URL))
    assert "96 h a job" in page and "+24 hours for a job" in page


def test_nothing_is_changed_that_the_form_cannot_name(cluster, root, lead, team, project, as_):
    """A lead sets limits of projects: what is the team's own would fill the form for another."""
    now = timezone.now()
    span = {"valid_from": now - timedelta(days=1), "valid_until": now + timedelta(days=9)}
    whole = set_quota(actor=root, owner=team, guaranteed=2)
    part = set_quota(actor=root, owner=project, guaranteed=1)
    ours = set_budget(actor=root, owner=team, amount=Decimal(500), **span)
    theirs = set_budget(actor=root, owner=project, amount=Decimal(50), **span)
    changes = (
        f"?edit={whole.pk}#",
        f"?budget={ours.pk}#",
        f"?edit={part.pk}#",
        f"?budget={theirs.pk}#",
    )
    for viewer, expected in ((lead, [False, False, True, True]), (root, [True] * 4)):
        page = said(as_(viewer).get(URL))
        assert [one in page for one in changes] == expected
    client = as_(lead)
    page = client.get(URL, {"edit": whole.pk, "budget": ours.pk})
    assert (page.context["edited"], page.context["changed"]) == (None, None)
    page = client.get(URL, {"budget": theirs.pk})
    assert page.context["changed"] == theirs
    assert '<option value="vision/digits" selected>' in said(page)
