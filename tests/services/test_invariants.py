"""The nightly check of live data: silent on a sound house, and names what breaks a promise."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F

from accounts.models import ApiToken
from scheduler.models import (
    Allocation,
    Attempt,
    Device,
    InvariantCheck,
    Job,
    JobEvent,
    LogChunk,
    Node,
    NodeEvent,
    Notification,
    OutboundMail,
    Placement,
    Quota,
    UsageEntry,
)
from scheduler.services.changing.sizes import set_nodes
from scheduler.services.inbox.mailing import write_mails
from scheduler.services.invariants import check_invariants, reading
from scheduler.services.invariants.checking import BY_JOB, NODES
from scheduler.services.jobs import cancel_job
from scheduler.services.reaping import mark_silent
from scheduler.services.sharing.limits import set_quota
from scheduler.states import EndReason
from scheduler.tasks import check_invariants as nightly
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync
from tests.services.unlocking import unlocked

pytestmark = pytest.mark.django_db
LATER, HOUR = at(3600), timedelta(hours=1)


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
    work = submit(alice, project, name="work", now=at(250))
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
    wanted = {*BY_JOB, *NODES, "I2", "I8", "I11", "I21", "I25"} - {"I10", "I12", "I13"}
    assert {name for name, count in found.looked_at.items() if count} >= wanted
    assert not told_of()


def test_an_empty_house_is_sound(db):
    assert nightly() is True


def lives_beside_another(house):
    Attempt.objects.filter(number=2).update(assigned_at=at(60))


def device_was_held_twice(house):
    Allocation.objects.filter(placement__attempt__number=2).update(acquired_at=at(100))


def numbers_have_a_hole(house):
    Attempt.objects.filter(number=2).update(number=3)


def final_state_was_left(house):
    Job.objects.filter(name="first").update(state="running")


def success_without_its_exit(house):
    Placement.objects.filter(attempt__number=2).update(exit_code=None)


def node_away_and_nobody_cares(house):
    Node.objects.update(last_seen_at=at(-8000))
    mark_silent(now=at(-7200))


def stopping_for_ever(house):
    Attempt.objects.exclude(state="ended").update(stopping_at=at(-7200))


def test_a_node_that_could_not_stop_it_is_out_of_service_and_no_break(house):
    stopping_for_ever(house)
    Node.objects.update(state="quarantined")
    assert "I8" not in broken()


def offered_in_trouble(house):
    Device.objects.update(trouble="xid")


def handed_out_in_quarantine(house):
    NodeEvent.objects.create(
        node=house.node(1), at=at(5), kind="device_quarantined", from_state="healthy",
        to_state="quarantined", detail={"reason": "GPU 0: fell off"},
    )  # fmt: skip


def left_quarantine_by_itself(house):
    NodeEvent.objects.create(
        node=house.node(1), at=at(5), kind="heard_again", from_state="quarantined",
        to_state="ready",
    )  # fmt: skip


def counted_too_few(house):
    Quota.objects.update(held=F("held") - 1)


def over_and_at_work(house):
    Job.objects.filter(name="work").update(state="succeeded", ended_at=at(300))


def hole_in_a_log(house):
    LogChunk.objects.filter(offset=4).update(offset=5)


def changed_without_an_event(house):
    Job.objects.filter(name="first").update(version=F("version") + 1)


def move_was_forgotten(house):
    JobEvent.objects.filter(job__name="first", kind="ended").delete()


def given_up_untried(house):
    OutboundMail.objects.update(sent_at=None, given_up_at=at(30), tries=0)


def charged_too_little(house):
    UsageEntry.objects.filter(attempt__number=2).update(gpu_seconds=3)


def segments_part(house):
    with unlocked(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_devicesegment SET end_s = end_s - 1 WHERE bucket = 'run' "
            "AND end_s IS NOT NULL"
        )


def token_was_used_on(house):
    ApiToken.objects.update(last_used_at=at(60))


SPOILT = [
    ("I1", lives_beside_another),
    ("I2", device_was_held_twice),
    ("I3", numbers_have_a_hole),
    ("I4", final_state_was_left),
    ("I7", success_without_its_exit),
    ("I8", node_away_and_nobody_cares),
    ("I8", stopping_for_ever),
    ("I9", offered_in_trouble),
    ("I9", handed_out_in_quarantine),
    ("I10", left_quarantine_by_itself),
    ("I11", counted_too_few),
    ("I16", over_and_at_work),
    ("I17", hole_in_a_log),
    ("I20", changed_without_an_event),
    ("I4", move_was_forgotten),
    ("I21", given_up_untried),
    ("I22", charged_too_little),
    ("I22", segments_part),
    ("I25", token_was_used_on),
]


@pytest.mark.parametrize(("name", "spoil"), SPOILT, ids=lambda one: getattr(one, "__name__", one))
def test_what_breaks_a_promise_is_found(house, name, spoil):
    spoil(house)
    assert name in broken()


def test_in_small_parts_the_same_is_found(house, monkeypatch):
    """Whatever stands at the seam of two parts."""
    monkeypatch.setattr(reading, "ROWS", 1)
    whole = check_invariants(now=LATER)
    assert whole.broken == 0
    device_was_held_twice(house)
    segments_part(house)
    assert {"I2", "I22"} <= broken()


def test_operators_are_told_once_of_the_same_breaks_and_mailed(house, operator, alice):
    changed_without_an_event(house)
    for day in range(2):
        assert not check_invariants(now=LATER + timedelta(days=day)).is_sound
    [told] = told_of(person=operator)
    assert "broken once" in told.title and told.text.startswith("I20: job ")
    assert not told_of(person=alice)
    write_mails(now=LATER)
    assert OutboundMail.objects.filter(person=operator).count() == 1
    hole_in_a_log(house)
    check_invariants(now=LATER + timedelta(days=3))
    assert len(told_of(person=operator)) == 2


def test_only_what_is_open_or_came_since_the_last_sound_check_is_looked_at(house):
    evening, tomorrow = LATER + 3 * HOUR, LATER + 27 * HOUR
    assert check_invariants(now=evening).since == evening - timedelta(days=30)
    changed_without_an_event(house)
    found = check_invariants(now=tomorrow)
    assert (found.broken, found.since) == (0, evening - HOUR)
    assert found.looked_at["I20"] == 1  # the one at work
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
    counted_too_few(house)
    with pytest.raises(CommandError, match="broken"):
        call_command("verify_invariants", "--all")
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["breaks"] >= 1 and "I11: the quota of" in err
    with pytest.raises(CommandError, match="no day"):
        call_command("verify_invariants", "--since", "yesterday")
    assert InvariantCheck.objects.count() == 2
