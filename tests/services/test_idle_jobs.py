"""Jobs whose GPUs do little: who is warned, who never is, and what follows."""

from __future__ import annotations

from datetime import timedelta

import pytest

from accounts.models import AuditEvent
from scheduler.models import (
    Allocation,
    Attempt,
    DeviceSample,
    IdleRule,
    Job,
    JobEvent,
    LogChunk,
    Notification,
)
from scheduler.models.telemetry import UNKNOWN_USE
from scheduler.selectors.idling.teams import reclaimed_in
from scheduler.selectors.one_job.idling import idle_standing
from scheduler.services.errors import Conflict, Forbidden, Invalid
from scheduler.services.idling import ladder
from scheduler.services.idling.keeping import keep_job
from scheduler.services.idling.rules import end_idle_rule
from scheduler.services.jobs import cancel_job
from scheduler.states import EndReason, end_sentence, wait_sentence
from tests import idling, scenes
from tests.idling import later, look, rests, rule_for, warnings_of, watch

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def attempt(cluster, alice, project):
    """A job of alice's that runs since noon and rests."""
    attempt = idling.runs(cluster, alice, project)
    rests(attempt, 0, 60)
    return attempt


def kinds(job):
    return list(JobEvent.objects.filter(job=job).order_by("pk").values_list("kind", flat=True))


def outcomes(job):
    return [one.outcome for one in warnings_of(job)]


def test_who_rests_is_warned_once_told_and_paused_once(attempt, lead, alice, project):
    rule_for(lead, project)
    assert look(29) == 0 and not warnings_of(attempt.job), "the first minutes are no rest"
    look(31)
    look(32)
    (warning,) = warnings_of(attempt.job)
    assert warning.act_at == later(46) and (warning.gpus, warning.highest_percent) == (1, 1.0)
    news = Notification.objects.get(kind="job_idle")
    assert news.person == alice and "paused at 20 Nov 2026, 12:46 UTC" in news.text
    assert "its GPU stayed below 5 % for 20 min (at most 1 %" in news.text
    assert watch(34, 45) == 0
    assert look(47) == 1 and look(48) == 0
    job = attempt.job
    job.refresh_from_db()
    (warning,) = warnings_of(job)
    assert (job.state, warning.outcome) == ("stopping", "paused")
    assert warning.freed_gpu_s == (9 * 60 - 47) * 60
    assert kinds(job).count("idle_warned") == 1 and kinds(job).count("stop_requested") == 1
    assert Notification.objects.filter(kind="job_idle").count() == 2


def test_a_pause_holds_it_and_says_by_whom_and_what_was_seen(attempt, lead, project, cluster):
    rule_for(lead, project)
    watch(31, 47)
    report = scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=143)
    scenes.sync(cluster.node(1), report, now=later(48))
    job = attempt.job
    job.refresh_from_db()
    assert (job.state, job.wait_reason, job.end_reason) == ("held", "paused", "idle_paused")
    said = wait_sentence(job.wait_reason, job.wait_facts)
    assert said.startswith("Paused by the rule of project vision/digits for GPUs that do little.")
    assert "Its GPU stayed below 5 % for 35 min" in said and said.endswith("in its old place.")
    assert "Paused by the rule of" in end_sentence(job.end_reason, job.end_facts)


def test_a_stop_ends_it_with_a_reason_of_its_own(attempt, lead, project, cluster, alice):
    rule_for(lead, project, act="stop")
    assert watch(31, 47) == 1
    report = scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=143)
    scenes.sync(cluster.node(1), report, now=later(48))
    job = attempt.job
    job.refresh_from_db()
    assert (job.state, job.end_reason) == ("cancelled", "idle_stopped")
    told = Notification.objects.filter(person=alice, kind="job_idle").latest("pk")
    assert "was stopped" in told.title and "Nobody said that it was still needed" in told.text


@pytest.mark.parametrize(
    "why",
    ["worked", "unknown", "missing", "stale", "memory", "log", "checkpoint", "reading", "off"],
)
def test_nobody_is_warned_for_what_shows_work_or_is_not_known(why, attempt, lead, project):
    rule_for(lead, project)
    rows = DeviceSample.objects.filter(attempt=attempt)
    if why == "worked":
        rows.filter(at=later(15)).update(gpu_percent=5.0)
    elif why == "unknown":
        rows.filter(at=later(15)).update(gpu_percent=UNKNOWN_USE)
    elif why == "missing":
        rows.filter(at__range=(later(14), later(18))).delete()
    elif why == "stale":
        rows.filter(at__gt=later(28)).delete()
    elif why == "memory":
        rows.filter(at__lt=later(20)).update(memory_used_mib=3000)
    elif why == "log":
        scenes.write_log(attempt.placements.get().node, attempt, b"step 1\n")
        LogChunk.objects.update(created_at=later(12))
    elif why == "checkpoint":
        Attempt.objects.filter(pk=attempt.pk).update(checkpoint_at=later(12))
    elif why == "reading":
        attempt.placements.update(checkpoint_pending=True)
    else:
        end_idle_rule(actor=lead, owner=project, now=later(1))
    look(31)
    assert not warnings_of(attempt.job)


def test_a_gang_rests_only_when_all_its_ranks_do(cluster, alice, lead, project):
    rule_for(lead, project)
    gang = idling.runs(cluster, alice, project, nodes=2)
    rests(gang, 0, 60, ranks=(0,))
    look(31)
    assert not warnings_of(gang.job), "of one rank nothing is known"
    rests(gang, 0, 60, ranks=(1,), percent=80)
    look(32)
    assert not warnings_of(gang.job)
    DeviceSample.objects.update(gpu_percent=2)
    look(33)
    assert [one.gpus for one in warnings_of(gang.job)] == [2]


def test_a_session_is_none_of_them(cluster, alice, lead, project):
    rule_for(lead, project)
    session = {"app": "shell", "idle_stop": "4h"}
    rests(idling.runs(cluster, alice, project, script="", session=session), 0, 60)
    look(31)
    assert not Notification.objects.filter(kind="job_idle").exists()


def test_work_takes_the_warning_back_and_a_missing_reading_only_delays(attempt, lead, project):
    rule_for(lead, project)
    look(31)
    rows = DeviceSample.objects.filter(attempt=attempt)
    rows.filter(at__range=(later(40), later(44))).delete()
    assert watch(34, 46) == 0 and outcomes(attempt.job) == ["open"]
    busy = rows.filter(at=later(45))
    busy.update(gpu_percent=60)
    assert look(47) == 0 and outcomes(attempt.job) == ["worked"]
    assert "idle_worked" in kinds(attempt.job)


def test_time_in_which_nobody_looked_does_not_count(attempt, lead, project):
    rule_for(lead, project)
    rests(attempt, 61, 130)
    look(31)
    assert look(90) == 0, "its owner could not answer either"
    (warning,) = warnings_of(attempt.job)
    assert warning.act_at == later(46) + timedelta(minutes=59)
    for minute in range(94, 105, 4):
        assert look(minute) == 0
    assert look(106) == 1


def test_a_changed_rule_lifts_what_it_warned_of_and_an_end_closes_it(
    attempt, lead, project, alice, cluster
):
    rule_for(lead, project)
    look(31)
    rule_for(lead, project, act="stop")
    look(32)
    assert outcomes(attempt.job) == ["lifted", "open"]
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=later(33))
    look(34)
    assert outcomes(attempt.job) == ["lifted", "ended"]


def test_the_stricter_of_two_rules_acts_first(attempt, lead, root, project, cluster):
    rule_for(lead, project, act="tell", act_minutes=None)
    rule_for(root, cluster.pool, act="stop", act_minutes=10)
    look(31)
    assert len(warnings_of(attempt.job)) == 2
    assert watch(34, 42) == 1
    assert look(43) == 0 and outcomes(attempt.job) == ["ended", "stopped"]
    attempt.refresh_from_db()
    assert attempt.stop_reason == "idle_stopped"


def test_its_owner_keeps_it_with_a_reason_for_the_hours_of_the_rule(
    attempt, lead, alice, bob, carol, project
):
    job = attempt.job
    rule_for(lead, project)
    with pytest.raises(Conflict):
        keep_job(actor=alice, job=job, hours=1, reason="x", now=later(30))
    look(31)
    with pytest.raises(Forbidden):
        keep_job(actor=bob, job=job, hours=1, reason="x", now=later(32))
    for hours, reason, field in ((6, "x", "hours"), (0, "x", "hours"), (1, " ", "reason")):
        with pytest.raises(Invalid) as refused:
            keep_job(actor=alice, job=job, hours=hours, reason=reason, now=later(32))
        assert refused.value.field == field
    until = keep_job(actor=alice, job=job, hours=3, reason="reads its data", now=later(32))
    assert until == later(32 + 180)
    assert look(60) == 0 and outcomes(job) == ["kept"]
    event = JobEvent.objects.get(job=job, kind="idle_kept")
    assert (event.actor, event.detail["because"]) == (alice, "reads its data")
    assert AuditEvent.objects.get(action="job.idle_kept").reason == "reads its data"
    rests(attempt, 61, 420)
    look(213)
    assert outcomes(job) == ["kept", "open"]
    with pytest.raises(Invalid, match="1 to 2 whole hours"):
        keep_job(actor=lead, job=job, hours=3, reason="more", now=later(214))
    keep_job(actor=lead, job=job, hours=2, reason="more", now=later(214))
    look(335)
    with pytest.raises(Conflict, match="used up"):
        keep_job(actor=alice, job=job, hours=1, reason="more", now=later(336))


def test_a_cancel_by_its_owner_weighs_more_than_the_pause_under_way(
    attempt, lead, alice, project, cluster
):
    rule_for(lead, project)
    watch(31, 47)
    cancel_job(actor=alice, job=attempt.job, now=later(48))
    scenes.sync(
        cluster.node(1),
        scenes.ended(attempt, reason=EndReason.PREEMPTED, exit_code=1),
        now=later(49),
    )
    job = attempt.job
    job.refresh_from_db()
    assert (job.state, job.end_reason) == ("cancelled", "cancelled_by_user")


def test_a_part_of_a_card_without_readings_is_never_idle(cluster, alice, lead, project):
    rule_for(lead, project)
    attempt = idling.runs(cluster, alice, project)
    card = Allocation.objects.get(placement__attempt=attempt).device
    rests(attempt, 0, 60)
    DeviceSample.objects.filter(device=card).update(attempt=None)
    look(31)
    assert not warnings_of(attempt.job)


def test_without_a_rule_a_look_costs_two_statements(attempt, django_assert_num_queries):
    assert not IdleRule.objects.exists()
    with django_assert_num_queries(2):
        look(31)


def test_a_look_costs_no_more_for_many_that_rest(
    cluster, alice, lead, project, django_assert_max_num_queries
):
    rule_for(lead, project, act="tell", act_minutes=None)
    for _ in range(3):
        rests(idling.runs(cluster, alice, project), 0, 60)
    look(31)
    with django_assert_max_num_queries(9):
        look(32)


def test_two_rules_and_one_word_count_one_keep(attempt, lead, alice, root, team, project, cluster):
    rule_for(lead, project)
    rule_for(root, cluster.pool, act="tell", act_minutes=None)
    look(31)
    keep_job(actor=alice, job=attempt.job, hours=3, reason="reads its data", now=later(32))
    found = reclaimed_in(lead, team, now=later(33))
    assert (found.warned, found.jobs, found.kept, found.kept_hours) == (2, 1, 1, 3)
    assert [one.attempt for one in found.standing] == [attempt]
    standing = idle_standing(alice, Job.objects.get(pk=attempt.job_id), now=later(33))
    assert standing.kept.hours == 3 and standing.hours_left == 2
    assert reclaimed_in(alice, team, now=later(33)) is None


def test_two_who_look_at_once_climb_each_rung_once(attempt, lead, project):
    rule = rule_for(lead, project)
    for _ in range(2):
        ladder._warn(attempt.pk, rule, ladder.Evidence(1, 20, 1.0), ladder.Watchers([]), later(31))
    (warning,) = warnings_of(attempt.job)
    assert Notification.objects.filter(kind="job_idle").count() == 1
    assert watch(32, 45) == 0
    acted = [ladder._act(warning.pk, rule, ladder.Watchers([]), later(47)) for _ in range(2)]
    assert acted == [True, False]
    assert kinds(attempt.job).count("stop_requested") == 1
