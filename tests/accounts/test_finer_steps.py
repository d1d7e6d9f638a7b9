"""Prices of six decimals come to a database that has a closed month and budgets of before."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from accounts.services import create_project, create_team
from scheduler.models import (
    Account,
    Attempt,
    Budget,
    BudgetAlert,
    BudgetHold,
    BudgetPledge,
    BudgetTrueUp,
    LedgerEntry,
    PeriodClose,
    UsageEntry,
)
from scheduler.money import from_steps, steps_of
from scheduler.selectors.books import focus
from scheduler.services import books
from scheduler.services.books.sealing import check_seals
from tests import scenes
from tests.scenes import NOON, at
from tests.services.test_books import close

FINER = import_module("scheduler.migrations.0073_money_in_finer_steps")
SIX = import_module("scheduler.migrations.0074_prices_of_six_decimals")
EUR, HOUR_S = 36_000_000, 3600
TRIGGERS = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal",
}


def count_finer() -> None:
    """The step of data, on whatever columns its tables have by now."""
    with connection.schema_editor() as editor:
        FINER.count_finer(apps, editor)


def widen() -> None:
    """The step of the column, from what it was."""
    (change,) = SIX.Migration.operations
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            words = "ALTER COLUMN unit_price TYPE numeric(12, 4)"
            cursor.execute(f"ALTER TABLE scheduler_usageentry {words}")
    loader = MigrationLoader(connection, replace_migrations=False)
    before = loader.project_state(SIX.Migration.dependencies)
    after = before.clone()
    change.state_forwards("scheduler", after)
    with connection.schema_editor() as editor:
        change.database_forwards("scheduler", editor, before, after)


def triggers() -> set[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS[connection.vendor])
        return set(cursor.fetchall())


def close_a_month(root):
    """Two hours at 3.60 in a closed November; returns its project."""
    team = create_team(actor=root, name="Vision")
    project = create_project(actor=root, team=team, name="Digits")
    node = scenes.build_cluster(root, gpus=1).node(1)
    attempt = scenes.start(scenes.submit(root, project), node, now=at(0))
    scenes.sync(node, scenes.running(attempt), now=at(0))
    scenes.sync(node, scenes.ended(attempt), now=at(2 * HOUR_S))
    close(root)
    return project


def book_of(root) -> dict[str, object]:
    """Everything of the books that must stay, as it is stored and as it leaves the house."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT number, hash, previous, unit_price, amount FROM scheduler_ledgerentry"
        )
        rows = cursor.fetchall()
    return {
        "entries": rows,
        "seals": list(PeriodClose.objects.values_list("sealed", flat=True)),
        "usage": list(UsageEntry.objects.values_list("gpu_seconds", "unit_price", "cost")),
        "focus": list(focus.focus_rows(root, "2026-11")),
    }


def keep(account: Account, **limit: int) -> Budget:
    """A budget that holds, has spent and was compared: in steps of before if it is in money."""
    size = EUR if "money" in limit else HOUR_S
    begins = NOON + timedelta(days=Budget.objects.count())
    budget = Budget.objects.create(
        account=account, currency="EUR" if "money" in limit else "", carried=2 * size,
        granted=3 * size, valid_from=begins, valid_until=begins + timedelta(days=1), **limit,
    )  # fmt: skip
    money = {"committed_money": 4 * size, "spent_money": 5 * size} if "money" in limit else {}
    Budget.objects.filter(pk=budget.pk).update(committed_s=4 * HOUR_S, spent_s=5 * HOUR_S, **money)
    attempt, job = Attempt.objects.get(), Attempt.objects.get().job
    held = {"gpu_seconds": HOUR_S, "money": size if money else 0}
    BudgetHold.objects.create(
        budget=budget, attempt=attempt, settled_at=NOON, spent_s=HOUR_S,
        spent_money=size if money else 0, **held,
    )  # fmt: skip
    BudgetPledge.objects.create(budget=budget, job=job, **held)
    BudgetAlert.objects.create(budget=budget, version=1, threshold="50", used=6 * size, at=NOON)
    BudgetTrueUp.objects.create(
        budget=budget, at=NOON, until_s=1, before=7 * size, ledger=8 * size, difference=-size,
        settled=9 * size, rated={"2026-11": [HOUR_S, "1.500000000000000"]},
    )  # fmt: skip
    return budget


def figures(budget: Budget) -> list[int | None]:
    """All of its own measure."""
    budget.refresh_from_db()
    hold, pledge = BudgetHold.objects.get(budget=budget), BudgetPledge.objects.get(budget=budget)
    moved = BudgetTrueUp.objects.get(budget=budget)
    own = [hold.gpu_seconds, hold.spent_s, pledge.gpu_seconds]
    if budget.is_money:
        own = [hold.money, hold.spent_money, pledge.money]
    return [
        budget.limit, budget.carried, budget.granted, budget.committed, budget.spent, *own,
        BudgetAlert.objects.get(budget=budget).used,
        moved.before, moved.ledger, moved.difference, moved.settled,
    ]  # fmt: skip


AS_KEPT = [20, 2, 3, 4, 5, 1, 1, 1, 6, 7, 8, -1, 9]


@pytest.mark.django_db(transaction=True)
def test_amounts_hashes_seals_and_triggers_are_what_they_were(root):
    project = close_a_month(root)
    account = Account.objects.create(key=f"project:{project.pk}", project=project, depth=2)
    hours, money = keep(account, gpu_seconds=20 * HOUR_S), keep(account, money=20 * EUR)
    before, held = book_of(root), triggers()
    big = Budget.objects.create(
        account=account, money=10**9 * EUR + 1, currency="EUR",
        valid_from=NOON + timedelta(days=9), valid_until=NOON + timedelta(days=10),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=f"budgets {big.pk} have more"):
        count_finer()
    assert figures(money) == [EUR * one for one in AS_KEPT]
    big.delete()
    count_finer()
    widen()
    assert figures(hours) == [HOUR_S * one for one in AS_KEPT]
    assert figures(money) == [steps_of(Decimal(one)) for one in AS_KEPT]
    assert from_steps(money.usual) == 15
    assert (triggers(), book_of(root)) == (held, before)
    assert len(held) > 5
    assert books.verify_ledger().breaks == ()
    assert check_seals(LedgerEntry.objects.earliest("number").period) == []
    UsageEntry.objects.filter(kind="accrual").update(unit_price=Decimal("1.234567"))
    assert {one.unit_price for one in UsageEntry.objects.all()} == {Decimal("1.234567")}
