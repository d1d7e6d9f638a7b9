"""Sessions: who comes in with what, for how long, and when nobody has for too long."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.models import DeviceSample, Notification, OutboundMail, Session
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.sessions import session_cards
from scheduler.services.errors import Conflict, Forbidden
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.sessions import (
    entry_of,
    issue_ticket,
    keep_session,
    note_activity,
    redeem_ticket,
    stop_idle_sessions,
)
from scheduler.services.sessions.idling import last_work
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason, NoticeKind
from tests import scenes
from tests.scenes import NOON

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


@pytest.fixture
def session(alice, project, cluster):
    """A shell of alice's that runs since noon."""
    job = scenes.submit(alice, project, script="", session={"app": "shell", "idle_stop": "10m"})
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt))
    return Session.objects.get(job=job)


def later(minutes):
    return NOON + timedelta(minutes=minutes)


def test_a_ticket_lets_its_owner_in_once_and_a_key_ends_with_the_right(session, alice, bob):
    with pytest.raises(Forbidden):
        issue_ticket(actor=bob, session=session, now=NOON)
    ticket = issue_ticket(actor=alice, session=session, now=NOON)
    assert redeem_ticket(ticket=ticket, job_id=session.pk + 1, now=NOON) is None
    assert redeem_ticket(ticket=ticket, job_id=session.pk, now=later(1.1)) is None
    key = redeem_ticket(ticket=ticket, job_id=session.pk, now=NOON)
    assert key and redeem_ticket(ticket=ticket, job_id=session.pk, now=NOON) is None
    entry = entry_of(key=key, job_id=session.pk, now=NOON)
    assert entry is not None and (entry.app, entry.user_id) == ("shell", alice.pk)
    assert entry_of(key=ticket, job_id=session.pk, now=NOON) is None
    assert entry_of(key=key, job_id=session.pk, now=later(13 * 60)) is None
    acts = AuditEvent.objects.filter(action__startswith="session.").values_list("action", flat=True)
    assert sorted(acts) == ["session.connect", "session.ticket"]
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    assert entry_of(key=key, job_id=session.pk, now=NOON) is None


def test_the_idle_clock_is_set_back_by_people_and_by_work_and_stops_at_last(
    session, alice, cluster
):
    assert stop_idle_sessions(now=later(9)) == 0
    note_activity(job_id=session.pk, at=later(9))
    assert stop_idle_sessions(now=later(18)) == 0
    keep_session(actor=alice, session=session, now=later(18))
    session.refresh_from_db()
    # Nobody is stopped for a card that does not tell how busy it is.
    attempt = session.job.attempts.get()
    unknown = DeviceSample.objects.create(
        device=attempt.placements.get().allocations.first().device, attempt=attempt,
        at=later(26), gpu_percent=UNKNOWN_USE, memory_used_mib=1, power_watts=0, temperature_c=1,
    )  # fmt: skip
    [card] = session_cards(alice, [session], now=later(26.5))
    assert (card.gpu_percent, card.idle_since) == (None, later(26))
    assert last_work(attempt.pk, since=later(20)) == later(26)
    unknown.delete()
    [card] = session_cards(alice, [session], now=later(27))
    assert (card.idle_percent, card.level) == (90, "soon")
    assert {"connect", "keep", "cancel"} <= card.actions
    for minutes, stopped in ((26, 0), (28, 1)):
        assert stop_idle_sessions(now=later(minutes)) == stopped
    attempt = session.job.attempts.get()
    assert attempt.stop_reason == EndReason.SESSION_IDLE
    with pytest.raises(Conflict):
        issue_ticket(actor=alice, session=session, now=later(28))
    ended = scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=0)
    scenes.sync(cluster.node(1), ended, now=later(28))
    session.job.refresh_from_db()
    assert (session.job.state, session.job.end_reason) == ("succeeded", "session_idle")
    assert session.job.end_facts["limit"] == "10m"


def test_an_idle_session_is_told_once_before_it_stops_and_when_it_has(session, alice, cluster):
    def told():
        rows = Notification.objects.filter(person=alice).order_by("pk")
        return [(row.kind, row.subject) for row in rows]

    type(alice).objects.filter(pk=alice.pk).update(email="alice@example.org")
    one = (NoticeKind.SESSION_IDLE, f"job:{session.pk}")
    stop_idle_sessions(now=later(7.9))
    assert told() == []
    for minutes in (8.5, 9):
        stop_idle_sessions(now=later(minutes))
        assert told() == [one]
        assert Notification.objects.get(person=alice).path == f"/sessions/{session.pk}/"
        write_mails(now=later(minutes))
        assert OutboundMail.objects.filter(person=alice).count() == 1
    keep_session(actor=alice, session=session, now=later(9))
    stop_idle_sessions(now=later(10))
    assert told() == [one]
    stop_idle_sessions(now=later(17))
    assert told() == [one, one]
    assert stop_idle_sessions(now=later(19)) == 1
    ended = scenes.ended(session.job.attempts.get(), reason=EndReason.PREEMPTED, exit_code=0)
    scenes.sync(cluster.node(1), ended, now=later(19))
    assert told() == [one, one, one]
    texts = Notification.objects.order_by("pk").values_list("title", "text")
    assert [title for title, _ in texts] == [
        "train is idle and stops soon",
        "train is idle and stops soon",
        "train was idle and has been stopped",
    ]
    assert "since 20 Nov 2026, 12:00 UTC; it stops at 12:10 UTC" in texts[0][1]


@pytest.mark.parametrize("first", [11, 60 * 24])
def test_after_an_outage_it_is_told_first_and_stopped_as_much_later(session, alice, first):
    assert stop_idle_sessions(now=later(first)) == 0
    text = Notification.objects.get(person=alice, kind=NoticeKind.SESSION_IDLE).text
    assert f"stops at {later(first + 2):%H:%M} UTC" in text
    for after, stopped in ((1.9, 0), (2.1, 1)):
        assert stop_idle_sessions(now=later(first + after)) == stopped
    assert Notification.objects.filter(kind=NoticeKind.SESSION_IDLE).count() == 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"script": "true"}, "command"),
        ({"script": "", "nodes": 2}, "nodes"),
        ({"script": "", "time_limit": "3d"}, "time_limit"),
        ({"script": "", "session": {"app": "shell", "idle_stop": "5h"}}, "session.idle_stop"),
        ({"script": "", "session": "desktop"}, "session.app"),
    ],
)
def test_what_cannot_be_a_session_is_refused_at_its_field(alice, project, cluster, fields, field):
    with pytest.raises(SpecInvalid) as refused:
        scenes.submit(alice, project, **{"session": "shell", **fields})
    assert field in [one.field for one in refused.value.problems]
