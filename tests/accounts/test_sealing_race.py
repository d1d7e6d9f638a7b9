"""The sealer among writers that are under way: it never passes one, and never seals twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction

from accounts.models import AuditSeal
from accounts.services.audit import Subject, record
from accounts.services.sealing import seal_audit, verify_audit
from tests.accounts.settling import LONG_S, NO_MARGIN, sealed_in_the_end

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def _slow_writer(has_written: Event, may_end: Event) -> None:
    try:
        with transaction.atomic():
            record(None, "team.note", Subject("team", "slow"))
            has_written.set()
            assert may_end.wait(LONG_S)
    finally:
        connection.close()


def _many_seals(rounds: int) -> int:
    try:
        return sum(seal_audit(margin=NO_MARGIN) for _ in range(rounds))
    finally:
        connection.close()


def _many_events(count: int) -> int:
    try:
        for n in range(count):
            record(None, "team.note", Subject("team", str(n)))
        return count
    finally:
        connection.close()


def test_a_change_that_is_under_way_is_waited_for():
    has_written, may_end = Event(), Event()
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(_slow_writer, has_written, may_end)
        assert has_written.wait(LONG_S)
        record(None, "team.note", Subject("team", "fast"))
        assert seal_audit(margin=NO_MARGIN) == 0
        assert verify_audit().unsealed == 1
        may_end.set()
        slow.result()
    assert sealed_in_the_end(2) == 2
    report = verify_audit()
    assert (report.broken, report.unsealed) == ("", 0)


def test_sealers_and_writers_at_once_leave_one_chain():
    with ThreadPoolExecutor(5) as pool:
        writers = [pool.submit(_many_events, 40) for _ in range(3)]
        sealers = [pool.submit(_many_seals, 25) for _ in range(2)]
        made = sum(writer.result() for writer in writers)
        sealed = sum(sealer.result() for sealer in sealers)
    sealed += sealed_in_the_end(made - sealed)
    report = verify_audit()
    assert (report.broken, report.unsealed, report.events) == ("", 0, made)
    assert sealed == made
    assert AuditSeal.objects.count() == report.seals
