"""The chain over the audit: what is settled is sealed, and whoever touches it is found by name."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from accounts.models import AuditEvent, AuditHead, AuditSeal
from accounts.services import sealing
from accounts.services.audit import Subject, record
from accounts.services.sealing import seal_audit, verify_audit
from accounts.trail import seal_state
from portal.torture.auditing import sealed_and_read
from scheduler.services.demo.guards import unguarded
from tests.accounts.settling import NO_MARGIN, sealed_in_the_end


@pytest.fixture
def unlocked(db):
    """A database in which somebody with every right changes rows: the triggers are off."""
    with unguarded(("accounts_auditevent", "accounts_auditseal")):
        yield


@pytest.fixture
def events(root, monkeypatch) -> list[AuditEvent]:
    """Twelve events in several seals."""
    monkeypatch.setattr(sealing, "BATCH", 5)
    made = [record(root, "team.note", Subject("team", str(n), f"Note {n}")) for n in range(12)]
    assert sealed_in_the_end(12) >= 12
    return made


def test_what_was_recorded_holds(events):
    report = verify_audit()
    assert report.broken == ""
    assert report.events == AuditEvent.objects.count()
    assert report.seals == AuditSeal.objects.count() >= 3
    assert report.unsealed == 0
    assert report.head == AuditHead.objects.get().hash


def test_new_events_wait_for_the_next_seal(events, root):
    record(root, "team.note", Subject("team"))
    assert verify_audit().unsealed == seal_state().waiting == 1
    assert sealed_in_the_end(1) == 1
    assert seal_audit(margin=NO_MARGIN) == 0
    assert verify_audit().unsealed == 0


@pytest.mark.parametrize(
    "change",
    [
        {"actor_name": "roos"},
        {"after": "{}"},
        {"reason": "x"},
        {"ip": "192.0.2.1"},
        {"user_agent": "curl/8"},
        {"user_agent": None},
        {"at": timezone.now()},
        {"team_id": 7},
        {"actor_id": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_changed_value_is_named(events, unlocked, change):
    AuditEvent.objects.filter(pk=events[6].pk).update(**change)
    assert verify_audit().broken == f"event {events[6].pk} was changed after it was recorded"


def test_events_of_before_programs_were_kept_are_sealed_and_checked_as_they_were(root, unlocked):
    row = record(root, "team.note", Subject("team", "1", "Note"))
    AuditEvent.objects.filter(pk=row.pk).update(user_agent=None)
    row.refresh_from_db()
    of_before, row.user_agent = sealing._digest(row), ""
    assert of_before != sealing._digest(row)
    assert sealed_in_the_end(1) >= 1 and verify_audit().broken == ""
    AuditEvent.objects.filter(pk=row.pk).update(user_agent="slipped in")
    assert f"event {row.pk} was changed" in verify_audit().broken


def test_who_breaks_things_on_purpose_seals_all_of_it_first(events, unlocked, root):
    record(root, "team.note", Subject("team"))
    whole = sealed_and_read()
    assert (whole["broken"], whole["unsealed"]) == ("", 0)
    assert whole["events"] == AuditEvent.objects.count()
    AuditEvent.objects.filter(pk=events[6].pk).update(reason="x")
    assert sealed_and_read()["broken"] == f"event {events[6].pk} was changed after it was recorded"


def test_a_removed_event_is_named(events, unlocked):
    AuditEvent.objects.filter(pk=events[6].pk).delete()
    assert verify_audit().broken == f"event {events[6].pk} is missing"


def test_the_last_event_that_is_removed_is_named(events, unlocked):
    AuditEvent.objects.filter(pk=events[-1].pk).delete()
    assert verify_audit().broken == f"event {events[-1].pk} is missing"


def test_an_event_that_was_slipped_in_is_named(root, events, unlocked):
    gone = record(root, "team.note", Subject("team", "rolled back"))
    gap = gone.pk
    AuditEvent.objects.filter(pk=gap).delete()
    record(root, "team.note", Subject("team", "after the gap"))
    assert sealed_in_the_end(1) == 1
    assert verify_audit().broken == ""
    gone.pk = gap
    gone.save(force_insert=True)
    number = AuditHead.objects.get().number
    assert verify_audit().broken == f"event {gap} was put in after seal {number}"


@pytest.mark.parametrize("field", ["digests", "hash", "previous", "until_id", "count"])
def test_a_changed_seal_is_named(events, unlocked, field):
    seal = AuditSeal.objects.get(number=2)
    other: object = getattr(seal, field)
    if isinstance(other, int):
        other = other - 1
    else:
        other = bytes(other)[:-1] + b"\x00" if field == "digests" else "f" * 64
    AuditSeal.objects.filter(pk=seal.pk).update(**{field: other})
    assert "seal 2" in verify_audit().broken


def test_a_cut_tail_is_found(events, unlocked):
    last = AuditSeal.objects.last()
    AuditEvent.objects.filter(pk__gte=last.from_id).delete()
    last.delete()
    assert verify_audit().broken == f"seals after number {last.number - 1} are missing"


def test_gaps_of_rolled_back_changes_are_no_break(root, unlocked):
    for n in range(6):
        event = record(root, "team.note", Subject("team", str(n)))
        if n % 2:
            AuditEvent.objects.filter(pk=event.pk).delete()
    assert sealed_in_the_end(3) >= 3
    assert verify_audit().broken == ""


def test_the_commands_seal_and_verify(events, root, unlocked):
    record(root, "team.note", Subject("team"))
    out = StringIO()
    call_command("seal_audit", stdout=out)
    assert "0 wait" in out.getvalue()
    call_command("verify_ledger", stdout=out)
    assert AuditHead.objects.get().hash in out.getvalue()
    AuditEvent.objects.filter(pk=events[3].pk).update(reason="x")
    err = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", stdout=out, stderr=err)
    assert f"audit: event {events[3].pk} was changed" in err.getvalue()
