"""What pools cost: bought, written off at closes, held against charges, recovered."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from accounts.errors import Forbidden
from accounts.models import AuditEvent
from scheduler.ledger.focus.rules import check
from scheduler.models import Asset, LedgerEntry, Period, PoolCost
from scheduler.selectors.books.catalogue import REPORTS, open_report
from scheduler.selectors.books.focus import focus_rows
from scheduler.selectors.books.frame import Ask
from scheduler.services import books
from scheduler.services.errors import Conflict, Invalid
from tests.services.test_books import DECEMBER, LATER, clerk, close, statements, yard

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


def bought(actor, pool, **changes) -> Asset:
    """30 days of November and 31 of December at 100 a day."""
    figures = {
        "name": "eight cards",
        "paid": Decimal("6100"),
        "since": date(2026, 11, 1),
        "months": 2,
        **changes,
    }
    return books.propose_asset(actor=actor, pool=pool, **figures)


def reports_tie(viewer) -> None:
    for slug in REPORTS:
        if slug != "segments":
            _, sheet = open_report(viewer, slug, Ask("2026-11"))
            assert all(check.holds for check in sheet.checks), (slug, sheet.checks)


def booked(kind: str) -> list[tuple[str, str, str, Decimal]]:
    rows = LedgerEntry.objects.filter(kind=kind).order_by("number")
    return [(e.service_period.name, e.debit, e.credit, e.amount.normalize()) for e in rows]


def test_an_asset_is_written_off_month_by_month_on_nobodys_statement(root, yard, team):
    asset = bought(root, yard.pool, paid=Decimal("6100.01"))
    pool, own = f"cost:{yard.pool.pk}", f"asset:{asset.pk}"
    closed = close(root)
    assert closed.control == 1080
    close(root, "2026-12", now=LATER)
    # 6100.01 / 61 is 100.000163 a day, rounded down; the last day takes what is left.
    assert booked("amortisation") == [
        ("2026-11", pool, own, Decimal("3000.00489")),
        ("2026-12", pool, own, Decimal("3100.00511")),
    ]
    (note,) = closed.recovery
    assert (note["mode"], note["cost"][:12], note["charged"][:6]) == (
        "rates",
        "3000.0048900",
        "10.800",
    )
    assert note["effective_rate"] == "1000.001630"
    reports_tie(root)
    table = list(focus_rows(root, "2026-11"))
    rows = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    assert list(check(table[0], rows, "1.2")) == []
    assert books.reconcile_books(now=LATER).holds


def test_by_cost_teams_pay_what_the_pool_has_cost(root, yard, team, other_team):
    """Price times time is 10.80; the other 2 989.20 and the energy go by seconds run, 2 : 1."""
    bought(root, yard.pool)
    books.propose_cost(
        actor=root,
        pool=yard.pool,
        month="2026-11",
        kind="energy",
        amount=Decimal("300.30"),
        note="meter",
    )
    books.propose_terms(actor=root, pool=yard.pool, recovery="cost")
    closed = close(root)
    assert statements(closed) == {f"team:{team.pk}": 220020, f"team:{other_team.pk}": 110010}
    assert closed.control == 330030
    (note,) = closed.recovery
    assert (note["mode"], note["effective_rate"]) == ("cost", "1100.100000")
    assert {kind for kind, *_ in booked("cost_recovery")} == {"2026-11"}
    assert books.verify_ledger().breaks == ()
    assert books.correct_period(actor=root, period="2026-11", reason="look", now=DECEMBER) == []
    assert books.reconcile_books(now=DECEMBER).holds
    reports_tie(root)


def test_what_is_retired_early_is_given_up_and_what_was_missed_is_caught_up(root, yard):
    asset = bought(root, yard.pool, since=date(2026, 10, 1), months=3, paid=Decimal("9200"))
    with pytest.raises(Invalid, match="why"):
        books.retire_asset(actor=root, asset=asset, on=date(2026, 11, 11), reason=" ")
    books.retire_asset(actor=root, asset=asset, on=date(2026, 11, 11), reason="water")
    close(root)
    pool, own = f"cost:{yard.pool.pk}", f"asset:{asset.pk}"
    # 31 days of October and 10 of November at 100; 51 days are left.
    assert booked("amortisation") == [
        ("2026-11", pool, own, Decimal("4100").normalize()),
        ("2026-11", "cost:platform", own, Decimal("5100").normalize()),
    ]
    with pytest.raises(Conflict):
        books.retire_asset(actor=root, asset=asset, on=date(2026, 12, 1), reason="again")
    close(root, "2026-12", now=LATER)
    assert len(booked("amortisation")) == 2


def test_an_early_end_needs_a_second_person(root, clerk, yard):
    asset = bought(root, yard.pool)
    with pytest.raises(Conflict):
        books.retire_asset(actor=root, asset=asset, on=date(2026, 11, 11), reason="not bought yet")
    books.approve_spending(actor=clerk, row=asset)
    books.retire_asset(actor=clerk, asset=asset, on=date(2026, 11, 11), reason="water")
    with pytest.raises(Conflict, match="proposed already"):
        books.retire_asset(actor=root, asset=asset, on=date(2026, 11, 12), reason="fire")
    with pytest.raises(Forbidden, match="another person"):
        books.approve_retirement(actor=clerk, asset=asset)
    books.decline_retirement(actor=clerk, asset=asset)
    with pytest.raises(Conflict, match="No end"):
        books.approve_retirement(actor=root, asset=asset)
    books.retire_asset(actor=clerk, asset=asset, on=date(2026, 11, 21), reason="fire")
    asset.refresh_from_db()
    assert asset.retired_on is None, "proposed is not agreed"
    gone = books.approve_retirement(actor=root, asset=asset)
    assert (gone.retired_on, gone.retired_by) == (date(2026, 11, 21), root)
    with pytest.raises(Conflict):
        books.decline_retirement(actor=root, asset=asset)
    acts = AuditEvent.objects.filter(action__startswith="asset.").order_by("pk")
    assert [(one.action, one.actor_name) for one in acts][2:] == [
        ("asset.propose_end", clerk.username),
        ("asset.decline_end", clerk.username),
        ("asset.propose_end", clerk.username),
        ("asset.retire", root.username),
    ]


def test_an_end_in_a_month_that_was_closed_meanwhile_is_refused(root, clerk, yard):
    asset = bought(root, yard.pool)
    books.approve_spending(actor=clerk, row=asset)
    books.retire_asset(actor=clerk, asset=asset, on=date(2026, 11, 21), reason="fire")
    close(root)
    with pytest.raises(Conflict, match="closed meanwhile"):
        books.approve_retirement(actor=root, asset=asset)


def test_a_foreign_purchase_is_converted_once_with_its_rate_and_source(root, yard):
    with pytest.raises(Invalid, match="one USD"):
        bought(root, yard.pool, paid_currency="USD")
    with pytest.raises(Invalid, match="where the rate"):
        bought(root, yard.pool, paid_currency="USD", fx_rate=Decimal("0.9"))
    asset = bought(
        root,
        yard.pool,
        paid=Decimal("1000.01"),
        paid_currency="USD",
        fx_rate=Decimal("0.915"),
        fx_source="ECB 2026-10-30",
    )
    asset.refresh_from_db()
    assert (asset.cost, asset.currency) == (Decimal("915.01"), "EUR")
    assert (asset.paid, asset.fx_rate) == (Decimal("1000.01"), Decimal("0.915"))


def test_two_people_decide_where_two_keep_the_books(root, clerk, yard, alice):
    asset = bought(clerk, yard.pool)
    with pytest.raises(Forbidden, match="another person"):
        books.approve_spending(actor=clerk, row=asset)
    with pytest.raises(Forbidden):
        books.approve_spending(actor=alice, row=asset)
    assert close(root).recovery[0]["cost"].startswith("0.000")
    assert books.approve_spending(actor=root, row=asset).decision == "approved"
    with pytest.raises(Conflict, match="approved already"):
        books.decline_spending(actor=root, row=asset)
    cost = books.propose_cost(
        actor=clerk,
        pool=yard.pool,
        month="2026-12",
        kind="staff",
        amount=Decimal("10"),
        note="hands",
    )
    books.decline_spending(actor=root, row=cost)
    assert not LedgerEntry.objects.filter(kind="cost").exists()


def energy(actor, pool, **changes) -> PoolCost:
    figures = {"month": "2026-11", "kind": "energy", "amount": Decimal("10.50"), "note": "meter"}
    return books.propose_cost(actor=actor, pool=pool, **{**figures, **changes})


@pytest.mark.parametrize("propose", [bought, energy])
def test_the_same_sent_twice_waits_once(root, clerk, yard, propose):
    propose(clerk, yard.pool)
    with pytest.raises(Conflict, match="waits for a second person"):
        propose(clerk, yard.pool)
    # Somebody else's, and another of the same price, are others.
    propose(root, yard.pool)
    name = "name" if propose is bought else "note"
    second = propose(clerk, yard.pool, **{name: "the second one"})
    books.decline_spending(actor=clerk, row=second)
    assert propose(clerk, yard.pool, **{name: "the second one"}).decision == "proposed"


@pytest.mark.parametrize("propose", [bought, energy])
def test_the_same_sent_twice_counts_once_where_it_counts_at_once(root, yard, propose):
    assert propose(root, yard.pool, now=LATER).decision == "approved"
    with pytest.raises(Conflict, match="a moment ago"):
        propose(root, yard.pool, now=LATER + timedelta(minutes=9))
    assert propose(root, yard.pool, now=LATER + timedelta(minutes=11)).decision == "approved"


BAD_ASSETS: dict[str, list[object]] = {
    "name": ["", "a\nb", "x" * 129],
    "paid": [Decimal(0), Decimal(-1), Decimal("NaN"), Decimal("1e13"), Decimal("0.1234567")],
    "residual": [Decimal(-1), Decimal("6100.01")],
    "since": [date(1969, 12, 31), date(26, 11, 1), date(9979, 1, 1), date(9999, 12, 31)],
    "months": [0, 241, -3],
    "paid_currency": ["EURO", "eur", "€"],
    "fx_rate": [Decimal("0.9")],
}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in BAD_ASSETS.items() for v in values]
)
def test_a_purchase_that_makes_no_sense_is_refused_by_name(root, yard, field, value):
    with pytest.raises(Invalid) as refused:
        bought(root, yard.pool, **{field: value})
    assert refused.value.field == field
    assert not Asset.objects.exists()


def test_the_last_days_there_are_stop_no_close_and_no_page(root, yard, client):
    """Also of an asset that was stored with a longer life than the calendar has."""
    asset = bought(root, yard.pool, since=date(9978, 12, 31), months=240)
    Asset.objects.filter(pk=asset.pk).update(since=date(9990, 1, 1))
    books.retire_asset(actor=root, asset=asset, on=date(9999, 12, 31), reason="never")
    books.propose_cost(
        actor=root, pool=yard.pool, month="9998-12", kind="energy", amount=Decimal(1), note="late",
        now=datetime(9994, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    assert close(root).control == 1080
    client.force_login(root)
    for page in ("", "periods/", "costs/"):
        assert client.get(f"/finance/{page}").status_code == 200


BAD_COSTS: dict[str, list[object]] = {
    "month": ["2026-13", "November", "2026-10", "2126-01"],
    "kind": ["", "coffee"],
    "amount": [Decimal(0), Decimal("NaN"), Decimal("1e-16"), Decimal("1e13")],
    "note": ["", "  "],
}


@pytest.mark.parametrize(
    ("field", "value"), [(f, v) for f, values in BAD_COSTS.items() for v in values]
)
def test_a_cost_that_makes_no_sense_is_refused_by_name(root, yard, field, value):
    close(root)
    figures = {"month": "2026-12", "kind": "energy", "amount": Decimal(1), "note": "meter"}
    with pytest.raises(Invalid) as refused:
        books.propose_cost(actor=root, pool=yard.pool, **{**figures, field: value})
    assert refused.value.field == field
    assert not PoolCost.objects.exists()


def test_a_month_informs_or_charges_as_a_whole(root, yard, alice):
    with pytest.raises(Forbidden):
        books.set_charging(actor=alice, period="2026-11", charging="chargeback")
    with pytest.raises(Invalid, match="showback, chargeback"):
        books.set_charging(actor=root, period="2026-11", charging="free")
    books.set_charging(actor=root, period="2026-11", charging="chargeback")
    close(root)
    with pytest.raises(Conflict, match="closed as chargeback"):
        books.set_charging(actor=root, period="2026-11", charging="showback")
    rows = list(focus_rows(root, "2026-11"))
    place = rows[0].index("x_ChargebackMode")
    assert {row[place] for row in rows[1:]} == {"chargeback"}
    assert Period.objects.get(name="2026-11").charging == "chargeback"
