"""Guaranteed against borrowed, and who pays for what nobody used, on real rows."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction

from accounts.services import approve_rate, propose_rate
from scheduler.models import Account, Claim, Device, GuaranteeSpan, Pool, PoolTerms, UsageLine
from scheduler.selectors.books.focus import focus_rows
from scheduler.services import books
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.limits import remove_quota, set_quota
from scheduler.services.timeline.segments import follow_devices
from tests import scenes
from tests.locks import both, elsewhere, wait_until_somebody_waits
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


def test_a_grant_does_not_reach_back(root, team):
    quota = set_quota(actor=root, owner=team, guaranteed=2, now=at(0))
    figures = {"guaranteed": 1, "valid_until": at(9000), "now": at(7200)}
    for begin in (-30 * 86_400, 7200 - 301):
        with pytest.raises(Invalid, match=r"moment has passed.*begin now or later") as refused:
            add_grant(actor=root, quota=quota, valid_from=at(begin), **figures)
        assert refused.value.field == "valid_from"
    # "Now" as a form had it some minutes ago: it counts from when it is there.
    add_grant(actor=root, quota=quota, valid_from=at(7200 - 300), **figures)
    assert spans(team) == [(2, 0, None), (1, 7200, 9000)]


def priced(clerk, root, kind, price, model=""):
    rate = propose_rate(
        actor=clerk,
        device_model=model,
        kind=kind,
        price_per_gpu_hour=Decimal(price),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="test",
    )
    approve_rate(actor=root, rate=rate)


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
    priced(clerk, root, "run-borrowed", "9")
    priced(clerk, root, "run-borrowed", "1", scenes.MODEL)
    closed = close(root)
    assert statements(closed) == {f"team:{team.pk}": 1540, f"team:{other_team.pk}": 100}
    Account.objects.all().delete()
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER)
    assert again == []


def test_idle_time_by_guarantee_goes_to_who_was_guaranteed(root, clerk, yard, team, other_team):
    """Three quarters by guarantee, one by use; seconds are split exactly."""
    for one in (team, other_team):
        set_quota(actor=root, owner=one, guaranteed=1, now=at(0))
    terms = books.propose_terms(
        actor=clerk, pool=yard.pool, idle="hybrid", guarantee_percent=75, reason="as agreed"
    )
    books.approve_terms(actor=root, terms=terms)
    priced(clerk, root, "idle-share", "0.36")
    closed = close(root)
    free = closed.seconds["free"]
    shares = seconds("idle-share")
    assert sum(shares.values()) == free
    # By guarantee 1 : 1, by use 2 : 1.
    assert abs(shares[f"team:{team.pk}"] - free * (0.75 / 2 + 0.25 * 2 / 3)) < 30
    (note,) = closed.shares
    span = 10 * 86_400 + 43_200
    assert note["guaranteed"] == {f"team:{team.pk}": span, f"team:{other_team.pk}": span}
    assert note["guarantee_percent"] == 75


def test_what_is_kept_and_not_used_is_paid_by_whom_it_is_kept_for(
    root, clerk, yard, alice, project, team, other_team
):
    """Reserved idle time needs a price of its own; without one the month stays open (F26)."""
    job = scenes.submit(alice, project)
    device = Device.objects.get(node=yard.node(2))
    claim = Claim.objects.create(
        job=job,
        node=yard.node(2),
        device=device,
        rank=0,
        cpus=1,
        memory_mib=1,
        expires_at=at(10**6),
    )
    follow_devices([device.pk], now=at(7_200), cause="kept")
    claim.delete()
    follow_devices([device.pk], now=at(10_800), cause="room_lost")
    with pytest.raises(books.CloseBlocked, match="reserved-idle has no price"):
        close(root)
    priced(clerk, root, "reserved-idle", "1.80")
    closed = close(root)
    assert closed.seconds["reserved_idle"] == 3_600
    assert statements(closed) == {f"team:{team.pk}": 720 + 180, f"team:{other_team.pk}": 360}
    (line,) = UsageLine.objects.filter(kind="reserved-idle")
    assert (line.holder, line.attempt) == (f"reserved:{project.pk}", None)
    rows = list(focus_rows(root, "2026-11"))
    (row,) = (dict(zip(rows[0], r, strict=True)) for r in rows[1:] if line.holder in r)
    assert (row["CapacityReservationStatus"], row["ResourceType"]) == ("Unused", "GPU Reservation")
    assert books.reconcile_books(now=DECEMBER).holds


class TestTerms:
    def propose(self, actor, pool, **changes):
        return books.propose_terms(actor=actor, pool=pool, **changes)

    def approve(self, actor, terms):
        return books.approve_terms(actor=actor, terms=terms)

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

    def test_what_was_proposed_before_others_were_approved_takes_none_of_them_back(
        self, root, yard, clerk
    ):
        first = self.propose(clerk, yard.pool, idle="even")
        beside = self.propose(clerk, yard.pool, refund_s=60)
        later = self.propose(clerk, yard.pool, idle="by_use", from_month="2027-01")
        books.approve_terms(actor=root, terms=first)
        for stale in (beside, later):
            with pytest.raises(Conflict, match="propose anew"):
                books.approve_terms(actor=root, terms=stale)
        books.decline_terms(actor=root, terms=beside)
        again = self.propose(clerk, yard.pool, refund_s=60)
        books.approve_terms(actor=root, terms=again)
        assert (again.idle, again.refund_s) == ("even", 60)

    @pytest.mark.postgres
    @pytest.mark.django_db(transaction=True)
    def test_who_proposes_while_others_are_approved_sees_those(self, root, yard, clerk):
        first = self.propose(clerk, yard.pool, idle="even")
        [second] = both(
            lambda: self.approve(root, first), lambda: self.propose(clerk, yard.pool, refund_s=60)
        )
        assert (second.idle, second.refund_s) == ("even", 60)
        held = self.approve(root, second)
        assert (held.idle, held.refund_s, held.decision) == ("even", 60, "approved")

    @pytest.mark.postgres
    @pytest.mark.django_db(transaction=True)
    def test_who_approves_after_others_were_proposed_makes_those_stale(self, root, yard, clerk):
        """However early it was asked for."""
        first = self.propose(clerk, yard.pool, idle="even")
        other = threading.Thread(target=elsewhere, args=(lambda: self.approve(root, first),))
        with transaction.atomic():
            Pool.objects.select_for_update().get(pk=yard.pool.pk)
            other.start()
            wait_until_somebody_waits()
            beside = self.propose(clerk, yard.pool, refund_s=60)
        other.join(30)
        first.refresh_from_db()
        assert (first.decision, beside.idle) == ("approved", "none")
        with pytest.raises(Conflict, match="propose anew"):
            self.approve(root, beside)

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
            ("unreachable", "nobody"),
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
