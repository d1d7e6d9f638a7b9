"""The nightly check of live data: silent on a sound house, and names what breaks a promise."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from accounts.models import ApiToken
from scheduler.models import (
    Device,
    InvariantCheck,
    Job,
    Node,
    Notification,
    OutboundMail,
)
from scheduler.services.changing.sizes import set_nodes
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.invariants import check_invariants, checking, reading
from scheduler.services.invariants.checking import BY_JOB, NODES
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.secrets.keeping import set_secret
from scheduler.services.sharing.limits import set_quota
from scheduler.services.stopping import request_stop
from scheduler.spec import parse_spec
from scheduler.states import EndReason
from scheduler.tasks import check_invariants as nightly
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.services import spoiling
from tests.services.spoiling import SPOILT

pytestmark = pytest.mark.django_db
LATER, HOUR = at(3600), timedelta(hours=1)
HUSH = 'hush"hush'


@pytest.fixture
def house(root, alice, project):
    """A job that ran, failed once and ended well, one that was cancelled, one at work."""
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    set_quota(actor=root, owner=project, maximum=4)
    node = cluster.node(1)
    first = submit(alice, project, name="first", retries=1)
    attempt = start(first, node, now=at(10))
    sync(node, running(attempt), now=at(12))
    scenes.write_log(node, attempt, b"one\n", b"two\n")
    code = {"reason": EndReason.EXIT_CODE, "exit_code": 1}
    sync(node, ended(attempt, log_size=8, **code), now=at(110))
    again = start(first, node, now=at(120))
    sync(node, running(again), now=at(122))
    sync(node, ended(again), now=at(222))
    elastic = submit(alice, project, name="elastic", nodes="1..2", now=at(230))
    set_nodes(actor=alice, job=elastic, nodes=1, now=at(235))
    cancel_job(actor=alice, job=elastic, now=at(240))
    set_secret(actor=alice, name="token", value=HUSH)
    work = submit(alice, project, name="work", secrets=["token"], now=at(250))
    many = parse_spec(
        {"name": "many", "project": project.path, "script": "echo hi", "array": "1-3"}
    )
    submit_job(actor=alice, spec=many, idempotency_key="k", now=at(255))
    Job.objects.filter(name="many").update(wait_reason="capacity_busy")
    cluster.root = root
    sync(node, running(start(work, node, now=at(260))), now=at(3500))
    sync(cluster.node(2), now=at(3500))
    ApiToken.objects.create(
        user=alice, name="old", prefix="t", token_hash="x", expires_at=LATER,
        revoked_at=at(20), last_used_at=at(10),
    )  # fmt: skip
    OutboundMail.objects.create(
        key="a", person=alice, subject="a", text="a", created_at=at(5), not_before=at(5),
        sent_at=at(6), tries=1,
    )  # fmt: skip
    return cluster


def told_of(**whom):
    return list(Notification.objects.filter(kind="promise_broken", **whom))


def broken(**asked) -> set[str]:
    return {words.partition(":")[0] for words in check_invariants(now=LATER, **asked).breaks}


def test_a_sound_house_breaks_nothing_and_every_invariant_has_something_to_look_at(house):
    found = check_invariants(now=LATER)
    assert (found.breaks, found.broken, found.is_whole) == ([], 0, True)
    wanted = {*BY_JOB, *NODES, "I2", "I8", "I11", "I19", "I21", "I25", "I38"} - {
        "I6",
        "I10",
        "I12",
        "I13",
    }
    wanted -= {"I30", "I31", "I32"}  # tests/services/test_asked_before.py
    assert {name for name, count in found.looked_at.items() if count} >= wanted
    assert not told_of()


def test_an_empty_house_is_sound(db):
    assert nightly() is True


def test_a_node_that_could_not_stop_it_is_out_of_service_and_no_break(house):
    spoiling.stopping_for_ever(house)
    Node.objects.update(state="quarantined")
    assert "I8" not in broken()


@pytest.mark.parametrize(("name", "spoil"), SPOILT, ids=lambda one: getattr(one, "__name__", one))
def test_what_breaks_a_promise_is_found(house, name, spoil):
    spoil(house)
    assert name in broken()


def test_what_is_right_and_looks_odd_breaks_nothing(house, alice, project):
    """A session that rested, a card that was exchanged, mail to somebody without an address."""
    session = submit(alice, project, name="rests", now=at(300))
    attempt = start(session, house.node(2), now=at(310))
    sync(house.node(2), running(attempt), now=at(320))
    request_stop(attempt=attempt, reason=EndReason.SESSION_IDLE, now=at(400))
    stopped = ended(attempt, reason=EndReason.SESSION_IDLE, exit_code=143)
    sync(house.node(2), stopped, now=at(3500))
    session.refresh_from_db()
    assert session.state == "succeeded"
    spoiling.handed_out_in_quarantine(house)
    old = Device.objects.filter(node=house.node(1), index=0)
    old.update(health="quarantined", trouble="xid", is_present=False)
    Device.objects.create(
        node=house.node(1), uuid="GPU-new", index=0, model=scenes.MODEL, memory_mib=1
    )
    OutboundMail.objects.create(
        key="b", person=alice, subject="b", text="b", created_at=at(5), not_before=at(5),
        given_up_at=at(6),
    )  # fmt: skip
    type(alice).objects.filter(pk=alice.pk).update(email="")
    assert check_invariants(now=LATER).breaks == []


def test_in_small_parts_the_same_is_found(house, monkeypatch):
    """Whatever stands at the seam of two parts."""
    monkeypatch.setattr(reading, "ROWS", 1)
    whole = check_invariants(now=LATER)
    assert whole.broken == 0
    spoiling.device_was_held_twice(house)
    spoiling.segments_part(house)
    assert {"I2", "I22"} <= broken()


def test_operators_are_told_once_of_the_same_breaks_and_mailed(house, operator, alice):
    spoiling.changed_without_an_event(house)
    for day in range(2):
        assert not check_invariants(now=LATER + timedelta(days=day)).is_sound
    [told] = told_of(person=operator)
    assert "broken once" in told.title and told.text.startswith("I20: job ")
    assert not told_of(person=alice)
    write_mails(now=LATER)
    assert OutboundMail.objects.filter(person=operator).count() == 1
    spoiling.hole_in_a_log(house)
    check_invariants(now=LATER + timedelta(days=3))
    assert len(told_of(person=operator)) == 2


def test_only_what_is_open_or_came_since_the_last_sound_check_is_looked_at(house):
    evening, tomorrow = LATER + 3 * HOUR, LATER + 27 * HOUR
    assert check_invariants(now=evening).since == evening - timedelta(days=30)
    spoiling.changed_without_an_event(house)
    found = check_invariants(now=tomorrow)
    assert (found.broken, found.since) == (0, evening - HOUR)
    assert found.looked_at["I20"] == 4  # the one at work and three in line
    # A check that found something is nothing to stand on.
    assert check_invariants(now=tomorrow, everything=True).broken == 1
    assert check_invariants(now=tomorrow).since == tomorrow - HOUR


def test_what_there_was_no_time_for_counts_for_nothing(house):
    found = check_invariants(now=LATER, longest_s=-1)
    assert (found.is_whole, found.is_sound) == (False, False)
    assert check_invariants(now=LATER).since == LATER - timedelta(days=30)


def test_nothing_is_written_but_what_was_found(house, django_assert_num_queries):
    with django_assert_num_queries(200, exact=False) as seen:
        check_invariants(now=LATER)
    writes = [
        one["sql"] for one in seen.captured_queries if one["sql"].startswith(("INS", "UPD", "DEL"))
    ]
    assert len(writes) == 1 and "invariantcheck" in writes[0]


def test_the_command_prints_json_last_and_fails_on_a_break(house, capsys):
    call_command("verify_invariants", "--since", "2026-11-01")
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["breaks"], said["whole"]) == (0, True)
    spoiling.counted_too_few(house)
    with pytest.raises(CommandError, match="broken"):
        call_command("verify_invariants", "--all")
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["breaks"] >= 1 and "I11: the quota of" in err
    with pytest.raises(CommandError, match="no day"):
        call_command("verify_invariants", "--since", "yesterday")
    assert InvariantCheck.objects.count() == 2


def test_a_task_is_not_handed_out_again_while_it_may_be_at_work(settings):
    """Acknowledged at their end, tasks come again after this time, beside themselves if need be."""
    assert settings.CELERY_TASK_ACKS_LATE
    patience = settings.CELERY_BROKER_TRANSPORT_OPTIONS["visibility_timeout"]
    assert patience >= 2 * checking.LONGEST_S
