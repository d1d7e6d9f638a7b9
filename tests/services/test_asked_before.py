"""The nightly check of what people asked for beforehand: tries and waits between them, moments,
waits for other jobs, GPUs that do little. Silent where all went well, and each bend is found."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.models import Attempt, Dependency, IdleWarning, Job
from scheduler.services.changing.by_hand import release_job
from scheduler.services.holding.letting_go import release_due
from scheduler.services.invariants import check_invariants
from scheduler.services.jobs import submit_job
from scheduler.spec import parse_spec
from scheduler.states import EndReason
from tests import idling, scenes
from tests.idling import rests, rule_for, watch
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
LATER = at(5 * 3600)
ASKED = ("I29", "I30", "I31", "I32")


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


def ran(cluster, job, *, now, code=0, lasts=10):
    """One attempt on the second node, which ends so many seconds later."""
    attempt = start(job, cluster.node(2), now=at(now))
    sync(cluster.node(2), running(attempt), now=at(now + 1))
    reason = EndReason.EXIT_CODE if code else EndReason.COMPLETED
    sync(cluster.node(2), ended(attempt, reason=reason, exit_code=code), now=at(now + lasts))
    job.refresh_from_db()


@pytest.fixture
def house(cluster, lead, alice, project):
    """A job that a rule tried again after a wait, one that its number did, one that was done by its
    moment, two arrays task for task, and one that was paused because its GPU did little."""
    rule_for(lead, project)
    rests(idling.runs(cluster, alice, project), 0, 60)
    watch(31, 47)
    ruled = submit(alice, project, name="ruled", retry_rules="exit=75:1:wait=1m")
    ran(cluster, ruled, now=60, code=75)
    assert ruled.state == "held"
    release_due(now=at(131))
    ran(cluster, ruled, now=131, code=0)
    counted = submit(alice, project, name="counted", retries=1)
    ran(cluster, counted, now=200, code=1)
    ran(cluster, counted, now=220, code=1)
    moment = {"finish_by": at(900).isoformat(), "finish_by_policy": "cancel", "time_limit": "5m"}
    ran(cluster, submit(alice, project, name="timed", **moment), now=300)
    first = array_of(alice, project, "before")
    array_of(alice, project, "after", depends_on=f"aftercorr:set={first.job_set_id}")
    ran(cluster, first, now=400)
    ran(cluster, Job.objects.get(name="after", array_index=0), now=420)
    return cluster


def array_of(actor, project, name, **more):
    asked = {"name": name, "project": project.path, "script": "x", "array": "0-1", **more}
    return submit_job(actor=actor, spec=parse_spec(asked), now=at(0)).job


def broken():
    found = check_invariants(now=LATER)
    return [words for words in found.breaks if words.partition(":")[0] in ASKED]


def test_where_all_was_kept_nothing_is_broken_and_each_was_looked_at(house):
    end_of_the_idle_one()
    found = check_invariants(now=LATER)
    assert all(found.looked_at[name] for name in ASKED) and found.is_whole


def rule_gave_one_more(house):
    Job.objects.filter(name="ruled").update(retry_rules=[{"exit": "75", "max": 0}])


def number_gave_one_more(house):
    Job.objects.filter(name="counted").update(retries=0)


def number_was_not_counted(house):
    Job.objects.filter(name="counted").update(user_retries_used=0)


def node_spent_a_retry(house):
    Attempt.objects.filter(job__name="counted", number=1).update(end_reason="node_lost")


def wait_was_not_held(house):
    Attempt.objects.filter(job__name="ruled", number=2).update(assigned_at=at(100))


def went_on_after_its_end(house):
    first = Attempt.objects.get(job__name="counted", number=1)
    Attempt.objects.filter(pk=first.pk).update(end_facts={**first.end_facts, "goes_on": False})


def began_too_late(house):
    Attempt.objects.filter(job__name="timed").update(assigned_at=at(700))


def ran_beyond(house):
    Attempt.objects.filter(job__name="timed").update(ended_at=at(1700))


def task_went_first(house):
    Attempt.objects.filter(job__name="after").update(assigned_at=at(390))


def partner_had_failed(house):
    task = Dependency.objects.get(job__name="after", job__array_index=0)
    Job.objects.filter(pk=task.on_id).update(state="failed")


def paused_unwarned(house):
    end_of_the_idle_one()
    IdleWarning.objects.all().delete()


def paused_too_early(house):
    end_of_the_idle_one()
    IdleWarning.objects.update(closed_at=idling.later(40))


def paused_and_kept(house):
    end_of_the_idle_one()
    IdleWarning.objects.update(kept_until=LATER)


def end_of_the_idle_one():
    attempt = Attempt.objects.get(job__name="train")
    report = ended(attempt, reason=EndReason.PREEMPTED, exit_code=143)
    sync(attempt.placements.get().node, report, now=idling.later(48))
    assert not broken()


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("I29", rule_gave_one_more),
        ("I29", number_gave_one_more),
        ("I29", number_was_not_counted),
        ("I29", node_spent_a_retry),
        ("I29", wait_was_not_held),
        ("I29", went_on_after_its_end),
        ("I30", began_too_late),
        ("I30", ran_beyond),
        ("I31", task_went_first),
        ("I31", partner_had_failed),
        ("I32", paused_unwarned),
        ("I32", paused_too_early),
        ("I32", paused_and_kept),
    ],
)
def test_what_was_not_kept_is_found(house, name, spoil):
    spoil(house)
    assert [words.partition(":")[0] for words in broken()] == [name]


def test_a_wait_that_a_person_cuts_short_is_no_break(cluster, alice, project):
    job = submit(alice, project, name="hurried", retry_rules="exit=75:1:wait=1h")
    ran(cluster, job, now=60, code=75)
    release_job(actor=alice, job=job, now=at(80))
    ran(cluster, job, now=90, code=0)
    assert Attempt.objects.get(job=job, number=2).assigned_at < at(60) + timedelta(hours=1)
    assert not broken()
