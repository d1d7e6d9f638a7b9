"""What was written in the books stays readable, complete, and shows every change."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from scheduler.models import Attempt, DeviceSegment, LedgerHead, UsageLine
from scheduler.services import books
from scheduler.services.books import closing, reading
from scheduler.states import AttemptState
from tests import scenes
from tests.scenes import at
from tests.services.test_books import DECEMBER, clerk, close, yard
from tests.services.unlocking import spoil

pytestmark = pytest.mark.django_db
__all__ = ["clerk", "yard"]


def test_the_commands_close_and_verify(root, yard, capsys):
    with pytest.raises(CommandError, match="nobody"):
        call_command("books", "close", "2026-11", by="nobody")
    with pytest.raises(CommandError, match="is no month"):
        call_command("books", "close", "2026-13", by="root")
    close(root, now=DECEMBER)
    call_command("books", "export", "2026-11", by="root")
    assert capsys.readouterr().out.startswith("AvailabilityZone,BilledCost,")
    call_command("books", "share", "default", by="root", idle="by_use")
    assert "idle by_use, platform none" in capsys.readouterr().out
    call_command("verify_ledger")
    assert "The chains hold" in capsys.readouterr().out
    spoil(SPOILS["amount"])
    with pytest.raises(CommandError, match="do not hold"):
        call_command("verify_ledger")
    assert "entry 1 was changed" in capsys.readouterr().err


SPOILS = {
    "amount": "UPDATE scheduler_ledgerentry SET amount = '7.200000000000001' WHERE number = 1",
    "reason": "UPDATE scheduler_ledgerentry SET reason = 'x' WHERE number = 1",
    "hash": "UPDATE scheduler_ledgerentry SET hash = previous WHERE number = 1",
    "account": "UPDATE scheduler_ledgerentry SET debit = 'platform' WHERE number = 1",
}


@pytest.mark.parametrize("what", SPOILS)
def test_a_changed_entry_is_found_and_named(root, yard, what):
    """F23."""
    close(root)
    spoil(SPOILS[what])
    report = books.verify_ledger()
    assert report.entries == 0
    assert report.breaks[0] == "entry 1 was changed after it was posted"


def test_a_line_that_was_changed_is_found(root, yard):
    close(root)
    spoil("UPDATE scheduler_usageline SET gpu_seconds = gpu_seconds + 1")
    assert "the lines of entry 1 are not those it was made of" in books.verify_ledger().breaks


def test_a_tail_that_was_cut_off_is_found(root, yard):
    close(root)
    LedgerHead.objects.update(hash="f" * 64)
    assert books.verify_ledger().breaks[0].endswith("are missing")


def test_amounts_keep_all_their_digits(root, yard, clerk, project):
    """On SQLite too, where a number of more than fifteen digits would become a float."""
    amount = Decimal("123456789012.123456789012345")
    made = books.propose_adjustment(actor=clerk, project=project, amount=amount, reason="x")
    made.refresh_from_db()
    assert made.amount == amount


def test_pages_end_between_attempts(root, yard, monkeypatch):
    whole = list(reading.held_in(closing.month_of("2026-11")))
    for size in (1, 2, 3):
        monkeypatch.setattr(reading, "PAGE", size)
        assert list(reading.held_in(closing.month_of("2026-11"))) == whole
    assert len({h.holder for h in whole}) == 2


def test_a_job_that_still_runs_is_charged_up_to_the_months_end(root, yard, alice, project, team):
    node = yard.node(1)
    attempt = scenes.start(scenes.submit(alice, project, now=at(9_000)), node, now=at(10_000))
    scenes.sync(node, scenes.running(attempt), now=at(10_000))
    assert Attempt.objects.get(pk=attempt.pk).state == AttemptState.RUNNING
    until_end = int(datetime(2026, 12, 1, tzinfo=UTC).timestamp() - at(10_000).timestamp())
    close(root)
    charged = sum(x.gpu_seconds for x in UsageLine.objects.filter(attempt=attempt))
    assert charged == until_end
    assert DeviceSegment.objects.get(attempt=attempt, bucket="run").end_s is None
