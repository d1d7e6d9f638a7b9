"""What a team is guaranteed is promised once, also where what was promised begins later."""

from __future__ import annotations

import pytest

from accounts.services import create_project, create_team
from scheduler.models import Grant, Quota
from scheduler.services.errors import Invalid
from scheduler.services.requesting.amounts import free_envelope
from scheduler.services.requesting.policies import set_request_policy
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.limits import set_quota
from scheduler.states import RequestKind
from tests import scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
LATER = {"valid_from": at(40 * DAY_S), "valid_until": at(60 * DAY_S)}


@pytest.fixture
def eight(root, team) -> Quota:
    scenes.build_cluster(root, nodes=1, gpus=8)
    # What it costs brings nobody in.
    set_request_policy(actor=root, kind="guaranteed", sla_hours=9, now=at(0))
    return set_quota(actor=root, owner=team, guaranteed=8, borrow_limit=4, now=at(0))


@pytest.fixture
def second(root, team):
    return create_project(actor=root, team=team, slug="second", name="Second")


def free(owner, begin, end, kind="guaranteed") -> int | None:
    times = {"start": at(begin * DAY_S), "until": at(end * DAY_S), "now": at(0)}
    return free_envelope(owner, RequestKind(kind), None, "", **times)


def test_a_lead_has_less_to_give_where_more_begins_later(eight, project, second, alice, lead):
    decide(lead, ask(alice, project, amount=8, **LATER))
    assert Grant.objects.get().valid_from == LATER["valid_from"]
    # Before it, beside it, right after it.
    spans = ((0, 40), (0, 41), (59, 90), (45, 50), (60, 90))
    assert [free(second, *span) for span in spans] == [8, 0, 0, 0, 8]
    assert ask(alice, second, amount=8, **LATER).route == ["lead", "admin"]
    assert ask(alice, project, amount=8).route == ["lead"]


def test_what_was_revoked_leaves_room(eight, root, project, second, alice, lead):
    decide(lead, ask(alice, project, amount=8, **LATER))
    revoke_grant(actor=root, grant_id=Grant.objects.get().pk, now=at(90))
    assert free(second, 40, 60) == 8


def test_the_team_has_more_to_give_only_while_its_own_grant_counts(eight, root, team, second):
    four = set_quota(actor=root, owner=team, guaranteed=4, now=at(0))
    add_grant(actor=root, quota=four, guaranteed=4, now=at(0), **LATER)
    assert [free(second, *span) for span in ((40, 60), (39, 50), (50, 61))] == [8, 4, 4]


def test_a_team_below_takes_from_the_same(eight, root, team, second):
    below = create_team(actor=root, slug="below", name="Below", parent=team)
    set_quota(actor=root, owner=below, guaranteed=3, now=at(0))
    assert free(second, 0, 30) == 5


def test_other_limits_too(eight, root, project):
    own = set_quota(actor=root, owner=project, borrow_limit=1, now=at(0))
    add_grant(actor=root, quota=own, borrow_limit=2, now=at(0), **LATER)
    assert [free(project, *span, "borrow") for span in ((0, 40), (0, 41), (60, 70))] == [3, 1, 3]


def test_a_lead_sets_no_guarantee_that_a_grant_was_given(eight, project, second, alice, lead):
    decide(lead, ask(alice, project, amount=6, **LATER))
    words = "With the 6 of the others from 30 Dec 2026, 12:00"
    with pytest.raises(Invalid, match=words) as refused:
        set_quota(actor=lead, owner=second, guaranteed=3, now=at(90))
    assert refused.value.field == "guaranteed"
    set_quota(actor=lead, owner=second, guaranteed=2, now=at(90))
    # Its own grant counts beside what is set.
    with pytest.raises(Invalid, match=r"With the 2 of the others and the 6 of its grants"):
        set_quota(actor=lead, owner=project, guaranteed=1, now=at(90))
    # Once it is over, the same is free.
    set_quota(actor=lead, owner=second, guaranteed=8, now=LATER["valid_until"])


def test_lowering_is_let_through_where_others_were_granted_too_much(
    eight, root, project, second, alice, lead
):
    set_quota(actor=lead, owner=second, guaranteed=4, now=at(0))
    agreed = decide(lead, ask(alice, project, amount=8, **LATER))
    decide(root, agreed)
    set_quota(actor=lead, owner=second, guaranteed=3, now=at(90))


def test_the_maximum_is_raised_with_what_begins_beside_it(eight, root, project, alice, lead):
    """What is granted at one time must not be cut off by the maximum, whatever holds today."""
    own = set_quota(actor=root, owner=project, guaranteed=2, maximum=5, now=at(0))
    for _ in range(2):
        decide(lead, ask(alice, project, amount=3, **LATER))
    assert [one.maximum for one in Grant.objects.order_by("pk")] == [0, 3]
    then = effective_of([own], now=LATER["valid_from"])[own.pk]
    assert (then.guaranteed, then.maximum) == (8, 8)
    with pytest.raises(Invalid, match="maximum is reached before") as refused:
        add_grant(actor=root, quota=own, guaranteed=1, now=at(90), **LATER)
    assert refused.value.field == "maximum"
    # Room that a grant of the maximum made is room.
    add_grant(actor=root, quota=own, maximum=1, reason="room", now=at(90), **LATER)
    add_grant(actor=root, quota=own, guaranteed=1, now=at(90), **LATER)


def test_a_team_keeps_what_was_granted_below_it(eight, root, team, project, alice, lead):
    decide(lead, ask(alice, project, amount=6, **LATER))
    with pytest.raises(Invalid, match=r"guaranteed 6 from 30 Dec 2026, 12:00 UTC; guarantee 6 or"):
        set_quota(actor=root, owner=team, guaranteed=5, now=at(90))
    set_quota(actor=root, owner=team, guaranteed=6, now=at(90))
    set_quota(actor=root, owner=team, guaranteed=7, now=at(90))
    # Once it is over, the team may have less.
    set_quota(actor=root, owner=team, guaranteed=1, now=LATER["valid_until"])
