"""A month from its jobs to its statements: closed, corrected, reopened, never quietly changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.models import AuditEvent, Rate
from accounts.services import appoint_bookkeeper, approve_rate, propose_rate
from scheduler.ledger.findings import Trouble
from scheduler.models import (
    Adjustment,
    Attempt,
    LedgerEntry,
    Period,
    Statement,
    UsageLine,
)
from scheduler.services import books
from scheduler.services.books import closing
from scheduler.services.books.posting import stamp_of
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at
from tests.services.unlocking import spoil

pytestmark = pytest.mark.django_db
DECEMBER = datetime(2026, 12, 2, 9, tzinfo=UTC)
LATER = datetime(2027, 1, 2, 9, tzinfo=UTC)


@pytest.fixture
def clerk(root, finance, yard):
    appoint_bookkeeper(actor=root, user=finance)
    return finance


@pytest.fixture
def yard(root, alice, carol, project, other_project):
    """November from noon of the 20th: two cards; two hours of vision, one of speech, at 3.60."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=1)
    for person, place, hours in ((alice, project, 2), (carol, other_project, 1)):
        node = cluster.node(1 if person is alice else 2)
        attempt = scenes.start(scenes.submit(person, place), node, now=at(0))
        scenes.sync(node, scenes.running(attempt), now=at(0))
        scenes.sync(node, scenes.ended(attempt), now=at(3_600 * hours))
    return cluster


def close(root, month="2026-11", now=DECEMBER):
    return books.close_period(actor=root, period=month, now=now)


def statements(closed) -> dict[str, int]:
    return {s.account: s.units for s in closed.statements.all()}


def test_a_month_is_closed_to_statements_that_add_up(root, yard, team, other_team):
    closed = close(root)
    assert statements(closed) == {f"team:{team.pk}": 720, f"team:{other_team.pk}": 360}
    assert closed.control == 1080
    in_service = 2 * (10 * 86_400 + 43_200)
    assert sum(v for k, v in closed.seconds.items() if k != "out") == in_service
    assert closed.seconds["run"] == 3 * 3_600
    assert Period.objects.get().state == "closed"
    report = books.verify_ledger()
    assert (report.entries, report.lines, report.breaks) == (closed.head_number, closed.lines, ())


def test_closing_is_for_bookkeepers(yard, alice, finance, operator):
    for person in (alice, finance, operator):
        with pytest.raises(Forbidden):
            close(person)


def test_a_month_is_closed_once(root, yard):
    close(root)
    before = LedgerEntry.objects.count()
    with pytest.raises(books.CloseBlocked, match="reopen"):
        close(root)
    assert LedgerEntry.objects.count() == before


def test_a_month_that_is_not_over_stays_open(root, yard):
    with pytest.raises(books.CloseBlocked, match="1 Dec 2026"):
        close(root, now=at(60))
    assert Period.objects.get().state == "open"


def test_months_are_closed_in_order(root, yard):
    with pytest.raises(books.CloseBlocked, match="2026-11"):
        close(root, "2026-12", now=LATER)
    close(root)
    closed = close(root, "2026-12", now=LATER)
    # Nobody ran anything: a month of idle cards owes nothing.
    assert (closed.control, closed.statements.count()) == (0, 0)
    assert closed.seconds["free"] == 2 * 31 * 86_400


def test_a_month_that_owes_nothing_can_be_corrected(root):
    """The first month of idle cards posts no entry, so there is no head of the chain yet."""
    scenes.build_cluster(root, nodes=1, gpus=1)
    close(root)
    assert not LedgerEntry.objects.exists()
    again = books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER)
    assert again == []
    assert books.verify_ledger().breaks == ()


def test_without_a_price_a_month_stays_open(root, yard):
    """F26."""
    Rate.objects.all().delete()
    with pytest.raises(books.CloseBlocked) as blocked:
        close(root)
    assert {f.trouble for f in blocked.value.findings} == {Trouble.NO_RATE}
    assert blocked.value.facts["findings"][0]["subject"] == f"{scenes.MODEL}:run-guaranteed"
    assert not LedgerEntry.objects.exists()


def test_a_gap_in_the_segments_keeps_a_month_open(root, yard):
    spoil("DELETE FROM scheduler_devicesegment WHERE bucket = 'run'")
    with pytest.raises(books.CloseBlocked) as blocked:
        close(root)
    assert {f.trouble for f in blocked.value.findings} == {Trouble.GAP}


def test_a_close_that_broke_off_is_simply_done_again(root, yard, monkeypatch):
    """F10: what the first one wrote is dropped; entries and hashes are those of one close."""

    def crash(*_):
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(closing, "_state", crash)
        with pytest.raises(RuntimeError):
            close(root)
    assert UsageLine.objects.count() > 0
    assert not LedgerEntry.objects.exists()
    closed = close(root)
    assert UsageLine.objects.count() == closed.lines
    assert books.verify_ledger().breaks == ()


def test_what_the_platform_broke_the_platform_pays(root, yard, team):
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    assert statements(close(root))["platform"] == 720


def test_idle_time_is_shared_where_the_pool_says_so(root, clerk, yard, team, other_team):
    terms = books.propose_terms(actor=clerk, pool=yard.pool, idle="by_use")
    with pytest.raises(Forbidden, match="another person"):
        books.approve_terms(actor=clerk, terms=terms)
    books.approve_terms(actor=root, terms=terms)
    with pytest.raises(books.CloseBlocked, match="idle-share"):
        close(root)
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        kind="idle-share",
        price_per_gpu_hour=Decimal("0.36"),
        valid_from=NOON - timedelta(days=1),
        restate=True,
        reason="shares begin",
    )
    approve_rate(actor=root, rate=rate)
    closed = close(root)
    shares = UsageLine.objects.filter(kind="idle-share", attempt=None)
    free = closed.seconds["free"]
    accounts = {line.account for line in shares}
    vision, speech = sorted(accounts, key=lambda name: int(name.rpartition(":")[2]))
    assert closed.shares == [
        {
            "pool": str(yard.pool.pk),
            "idle": "by_use",
            "platform": "none",
            "guarantee_percent": 50,
            "seconds": {"free": free},
            "used": {vision: 7200, speech: 3600},
            "guaranteed": {},
        }
    ]
    assert sum(line.gpu_seconds for line in shares) == free
    # 2 : 1, at a tenth of the price
    assert statements(closed)[f"team:{team.pk}"] == round(720 + free * 2 / 3 / 3600 * 36)


def test_a_fact_learnt_later_is_a_correction_in_the_month_of_now(root, yard, team):
    """F11."""
    close(root)
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.DEVICE_FAILED)
    posted = books.correct_period(actor=root, period="2026-11", reason="bad card", now=DECEMBER)
    assert {(e.kind, e.period.name, e.service_period.name) for e in posted} == {
        ("correction", "2026-12", "2026-11")
    }
    assert sum(e.amount for e in posted if e.debit == "platform") == Decimal("7.2")
    again = books.correct_period(actor=root, period="2026-11", reason="again", now=DECEMBER)
    assert again == []
    closed = close(root, "2026-12", now=LATER)
    assert statements(closed) == {"platform": 720, f"team:{team.pk}": -720}
    assert books.verify_ledger().breaks == ()


def test_a_restated_price_is_posted_as_the_difference(root, clerk, yard, team, other_team):
    """F12."""
    close(root)
    rate = propose_rate(
        actor=clerk,
        device_model=scenes.MODEL,
        price_per_gpu_hour=Decimal("3.00"),
        valid_from=NOON - timedelta(days=3),
        restate=True,
        reason="contract",
    )
    approve_rate(actor=root, rate=rate)
    books.correct_period(actor=root, period="2026-11", reason="contract", now=DECEMBER)
    closed = close(root, "2026-12", now=LATER)
    assert statements(closed) == {f"team:{team.pk}": -120, f"team:{other_team.pk}": -60}


def test_who_proposes_to_reopen_takes_it_back_and_another_declines(root, clerk, yard):
    close(root)
    month = {"period": "2026-11"}
    with pytest.raises(Conflict, match="Nobody proposes"):
        books.reopen_period(actor=root, **month, decline=True)
    for who in (root, clerk):
        row = books.reopen_period(actor=root, **month, reason="wrong project")
        seen = stamp_of(row)
        row = books.reopen_period(actor=who, **month, seen=seen, decline=True)
        assert (row.state, row.reopen_proposed_by, row.reopen_reason) == ("closed", None, "")
        with pytest.raises(Conflict):
            books.reopen_period(actor=clerk, **month, seen=seen)
    told = AuditEvent.objects.filter(action="period.decline_reopening").order_by("pk")
    assert [one.actor_name for one in told] == [root.username, clerk.username]
    books.reopen_period(actor=clerk, **month, reason="after all")
    assert books.reopen_period(actor=root, **month).state == "reopened"


def test_a_month_is_reopened_by_two_and_closed_as_its_second_version(root, clerk, yard, team):
    close(root)
    with pytest.raises(Invalid, match="why"):
        books.reopen_period(actor=root, period="2026-11")
    books.reopen_period(actor=root, period="2026-11", reason="wrong project")
    with pytest.raises(Conflict, match="another person"):
        books.reopen_period(actor=root, period="2026-11")
    assert books.reopen_period(actor=clerk, period="2026-11").state == "reopened"
    Attempt.objects.filter(job__project__team=team).update(end_reason=EndReason.NODE_LOST)
    closed = close(root)
    assert closed.version == 2
    assert statements(closed)["platform"] == 720
    assert statements(closed)[f"team:{team.pk}"] == 0
    assert [s.number for s in Statement.objects.order_by("number")] == list(
        range(1, Statement.objects.count() + 1)
    )
    assert books.verify_ledger().breaks == ()


class TestAdjustments:
    def propose(self, actor, project, amount="-1.255"):
        return books.propose_adjustment(
            actor=actor, project=project, amount=Decimal(amount), reason="sorry", now=at(9)
        )

    def test_two_people_post_an_amount(self, root, clerk, yard, project, team):
        adjustment = self.propose(clerk, project)
        with pytest.raises(Forbidden, match="another person"):
            books.post_adjustment(actor=clerk, adjustment=adjustment, now=at(10))
        books.post_adjustment(actor=root, adjustment=adjustment, now=at(10))
        with pytest.raises(Conflict, match="already"):
            books.post_adjustment(actor=root, adjustment=adjustment, now=at(11))
        closed = close(root)
        # 7.20 - 1.255 = 5.945 and 3.60 are 9.545, so 9.54 are billed, 5.94 of them here.
        assert (closed.control, statements(closed)[f"team:{team.pk}"]) == (954, 594)
        rounding = LedgerEntry.objects.get(kind="rounding")
        assert (rounding.debit, rounding.amount) == ("rounding", Decimal("0.005"))
        assert books.verify_ledger().breaks == ()

    def test_a_soft_closed_month_takes_none(self, root, clerk, yard, project):
        adjustment = self.propose(clerk, project)
        with pytest.raises(books.CloseBlocked, match="not over before 1 Dec 2026"):
            books.soft_close_period(actor=root, period="2026-11", now=at(9))
        books.soft_close_period(actor=root, period="2026-11", now=DECEMBER)
        with pytest.raises(Conflict, match="soft closed"):
            books.post_adjustment(actor=root, adjustment=adjustment, now=at(10))
        assert not LedgerEntry.objects.exists()

    def test_a_declined_amount_counts_for_nothing(self, root, clerk, yard, project):
        adjustment = self.propose(clerk, project)
        books.decline_adjustment(actor=clerk, adjustment=adjustment)
        with pytest.raises(Conflict):
            books.post_adjustment(actor=root, adjustment=adjustment)

    @pytest.mark.parametrize("amount", ["0", "NaN", "1e-16", "1e13"])
    def test_amounts_that_make_no_sense(self, clerk, project, amount):
        with pytest.raises(Invalid) as refused:
            self.propose(clerk, project, amount)
        assert refused.value.field == "amount"
        assert not Adjustment.objects.exists()
