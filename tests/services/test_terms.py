"""Guaranteed against borrowed, and who pays for what nobody used, on real rows."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.services import approve_rate, propose_rate
from scheduler.models import Account, GuaranteeSpan, PoolTerms, UsageLine
from scheduler.services import books
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.limits import remove_quota, set_quota
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import DECEMBER, clerk, close, statements, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]
NOON_S = int(NOON.timestamp())


def spans(team) -> list[tuple[int, int, int | None]]:
    """(GPUs, from, until) in seconds after noon."""
    rows = GuaranteeSpan.objects.filter(team=team).order_by("from_s", "pk")
    return [
        (r.gpus, r.from_s - NOON_S, None if r.until_s is None else r.until_s - NOON_S) for r in rows
    ]


def test_what_was_guaranteed_when_outlives_quotas_and_grants(root, team, project):
    def quota(gpus, second):
        return set_quota(actor=root, owner=team, guaranteed=gpus, maximum=9, now=at(second))

    made = quota(2, 0.5)
    quota(2, 5)
    quota(4, 10)
    grant = add_grant(
        actor=root,
        quota=made,
        guaranteed=1,
        maximum=1,
        valid_from=at(20),
        valid_until=at(90),
        now=at(12),
    )
    revoke_grant(actor=root, grant_id=grant.pk, now=at(40))
    add_grant(
        actor=root,
        quota=made,
        guaranteed=3,
        maximum=3,
        valid_from=at(50),
        valid_until=at(90),
        now=at(12),
    )
    set_quota(actor=root, owner=project, guaranteed=1, now=at(15))
    remove_quota(actor=root, quota_id=made.pk, now=at(60))
    assert spans(team) == [(2, 1, 10), (4, 10, 60), (1, 20, 40), (3, 50, 60)]


@pytest.fixture
def borrowing(root, clerk, yard, alice, project, team):
    """Vision is guaranteed one card and runs on two: job 1 for 1 h, job 2 for 2 h, from 3 h on."""
    set_quota(actor=root, owner=team, guaranteed=1, now=at(0))
    for number, hours in ((1, 1), (2, 2)):
        node = yard.node(number)
        attempt = scenes.start(scenes.submit(alice, project), node, now=at(10_800))
        scenes.sync(node, scenes.running(attempt), now=at(10_800))
        scenes.sync(node, scenes.ended(attempt), now=at(10_800 + 3_600 * hours))
    return yard


def seconds(kind: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in UsageLine.objects.filter(kind=kind):
        team = line.account.partition("/")[0]
        found[team] = found.get(team, 0) + line.gpu_seconds
    return found


def test_what_lies_above_the_guarantee_is_borrowed(root, borrowing, team, other_team):
    """The older attempt keeps the guarantee; who has none borrows all, at the usual price."""
    closed = close(root)
    vision, speech = f"team:{team.pk}", f"team:{other_team.pk}"
    assert seconds("run-borrowed") == {vision: 3_600, speech: 3_600}
    assert seconds("run-guaranteed") == {vision: 7_200 + 3_600 + 3_600}
    assert statements(closed) == {vision: 1800, speech: 360}
    assert books.verify_ledger().breaks == ()


def test_borrowed_time_has_a_price_of_its_own_and_the_past_does_not_move(
    root, clerk, borrowing, team, other_team
):
    rate = propose_rate(
        actor=clerk,
        device_model="",
        kind="run-borrowed",
        price_per_gpu_hour=Decimal("9"),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="borrowing",
    )
    approve_rate(actor=root, rate=rate)
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        kind="run-borrowed",
        price_per_gpu_hour=Decimal("1"),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="borrowing",
    )
    approve_rate(actor=root, rate=rate)
    closed = close(root)
    assert statements(closed) == {f"team:{team.pk}": 1540, f"team:{other_team.pk}": 100}
    Account.objects.all().delete()
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER)
    assert again == []


def test_idle_time_by_guarantee_goes_to_who_was_guaranteed(root, clerk, yard, team, other_team):
    """Three quarters by guarantee, one by use; seconds are split exactly."""
    set_quota(actor=root, owner=team, guaranteed=2, now=at(0))
    set_quota(actor=root, owner=other_team, guaranteed=1, now=at(0))
    terms = books.propose_terms(
        actor=clerk, pool=yard.pool, idle="hybrid", guarantee_percent=75, reason="as agreed"
    )
    books.approve_terms(actor=root, terms=terms)
    rate = propose_rate(
        actor=clerk,
        device_model="",
        kind="idle-share",
        price_per_gpu_hour=Decimal("0.36"),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="shares begin",
    )
    approve_rate(actor=root, rate=rate)
    closed = close(root)
    free = closed.seconds["free"]
    shares = seconds("idle-share")
    assert sum(shares.values()) == free
    # By guarantee 2 : 1, by use 2 : 1 too.
    assert abs(shares[f"team:{team.pk}"] - free * 2 / 3) < 30
    (note,) = closed.shares
    span = 10 * 86_400 + 43_200
    assert note["guaranteed"] == {f"team:{team.pk}": 2 * span, f"team:{other_team.pk}": span}
    assert note["guarantee_percent"] == 75


class TestTerms:
    def propose(self, actor, pool, **changes):
        return books.propose_terms(actor=actor, pool=pool, **changes)

    def test_alone_they_hold_at_once_and_with_two_the_second_decides(self, root, yard, clerk):
        first = self.propose(clerk, yard.pool, idle="even")
        assert first.decision == "proposed"
        with pytest.raises(Forbidden, match="another person"):
            books.approve_terms(actor=clerk, terms=first)
        books.approve_terms(actor=root, terms=first)
        with pytest.raises(Conflict, match="approved already"):
            books.decline_terms(actor=root, terms=first)
        second = self.propose(clerk, yard.pool, platform="by_use")
        assert (second.idle, second.platform) == ("even", "by_use")
        books.decline_terms(actor=clerk, terms=second)
        assert PoolTerms.objects.filter(decision="approved").count() == 1

    def test_a_closed_month_keeps_its_terms(self, root, yard):
        close(root)
        with pytest.raises(Invalid, match="is closed"):
            self.propose(root, yard.pool, idle="even", from_month="2026-11")
        row = self.propose(root, yard.pool, idle="even")
        assert (row.decision, row.from_month) == ("approved", "2026-12")
        again = books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER)
        assert again == []

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("idle", "half"),
            ("platform", ""),
            ("guarantee_percent", 101),
            ("guarantee_percent", -1),
            ("refund_s", -1),
            ("refund_s", 10**6),
            ("recovery", "both"),
            ("from_month", "2026-13"),
            ("from_month", "11.2026"),
        ],
    )
    def test_what_makes_no_sense_is_refused_by_name(self, root, yard, field, value):
        with pytest.raises(Invalid) as refused:
            self.propose(root, yard.pool, **{field: value})
        assert refused.value.field == field
        assert not PoolTerms.objects.exists()

    def test_only_bookkeepers_propose_and_decide(self, root, yard, operator, alice):
        for person in (operator, alice):
            with pytest.raises(Forbidden):
                self.propose(person, yard.pool, idle="even")
