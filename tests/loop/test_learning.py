"""Learnt run times and wait limits, on the real database."""

from __future__ import annotations

import math

import pytest

from scheduler.conf import load_conf
from scheduler.engine.ordering import order_waiting
from scheduler.engine.policy import Order, Policy
from scheduler.loop.cycle import Scheduler
from scheduler.loop.learning import LEARN_EVERY, LEAST_WAIT_S, LearntMemory
from scheduler.loop.loading import load_snapshot
from scheduler.loop.memories import Memories
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Attempt, Job, JobTemplate, TemplateUse
from scheduler.spec import parse_spec
from scheduler.states import EndReason, JobState
from tests.composing import make_template
from tests.scenes import NOON, at, submit

pytestmark = pytest.mark.django_db


def past(alice, project, run_s, template=None, **fields):
    """A job that ran well for so long."""
    job = submit(alice, project, **fields)
    if template is not None:
        TemplateUse.objects.create(job=job, version=template.versions.get(), used_at=NOON)
    Job.objects.filter(pk=job.pk).update(state=JobState.SUCCEEDED)
    Attempt.objects.create(
        job=job,
        number=1,
        state="ended",
        end_reason=EndReason.COMPLETED,
        assigned_at=NOON,
        started_at=NOON,
        ended_at=at(run_s),
    )


def test_equal_jobs_of_the_project_tell_how_long_it_will_run(cluster, alice, project):
    for run_s in (100, 200, 300):
        past(alice, project, run_s, script="python train.py --lr 1")
        past(alice, project, run_s * 10, script="python eval.py")
    submit(alice, project, script="python train.py --lr 2")
    submit(alice, project, script="python eval.py", gpus_per_node=2)
    learnt = LearntMemory().add_to(load_snapshot(NOON).snapshot, now=NOON).waiting.learnt_s
    # Nobody has asked for two GPUs before, so all jobs tell.
    assert learnt.tolist() == [200, 650]


def test_jobs_from_the_same_template_tell_how_long_it_will_run(cluster, lead, alice, project, team):
    """By a job's own runs, and in the quote of one that is not submitted yet."""
    templates = [
        JobTemplate.objects.get(slug=make_template(lead, team, name=name))
        for name in ("quick", "slow")
    ]
    script = "python train.py"
    for template, run_s in zip(templates, (100, 1000), strict=True):
        for _ in range(4):
            past(alice, project, run_s, template, script=script)
    waiting = [submit(alice, project, script=script) for _ in range(3)]
    for template, job in zip(templates, waiting, strict=False):
        TemplateUse.objects.create(job=job, version=template.versions.get(), used_at=NOON)
    learnt = LearntMemory().add_to(load_snapshot(NOON).snapshot, now=NOON).waiting.learnt_s
    assert learnt.tolist() == [100, 1000, 550]
    spec = parse_spec({"name": "train", "project": project.path, "script": script})
    told = [
        quote_job(actor=alice, spec=spec, template=key, now=NOON).estimate
        for key in (templates[1].pk, 0)
    ]
    assert [one.run_p50_s for one in told] == [1000, 550]
    assert told[0].basis == "4 runs from the same template on as many GPUs"


def test_under_las_a_job_is_told_by_how_likely_those_alike_ended_soon(cluster, alice, project):
    """Medians would let the job that always runs an hour pass the one that mostly ends at once."""
    for run_s in (20, 20, 20, 90_000, 90_000, 90_000, 90_000):
        past(alice, project, run_s, script="python search.py")
    for _ in range(7):
        past(alice, project, 20_000, script="python train.py")
    train = submit(alice, project, script="python train.py")
    search = submit(alice, project, script="python search.py")
    seen = {}
    for order in (Order.SHORTEST, Order.LAS):
        policy = Policy(order=order)
        seen[order] = Memories().add_to(load_snapshot(NOON).snapshot, policy, now=NOON).waiting
    assert seen[Order.SHORTEST].learnt_s.tolist() == [20_000, 90_000]
    by_index = dict(zip(seen[Order.LAS].id, seen[Order.LAS].learnt_s, strict=True))
    assert by_index[search.pk] < by_index[train.pk] / 3


def test_it_is_read_anew_in_intervals_only(cluster, alice, project, django_assert_num_queries):
    submit(alice, project)
    snapshot = load_snapshot(NOON).snapshot
    memory = LearntMemory()
    with django_assert_num_queries(4):
        memory.add_to(snapshot, now=NOON)
    for run_s in (100, 200, 300):
        past(alice, project, run_s)
    with django_assert_num_queries(1):
        assert memory.add_to(snapshot, now=at(5)).waiting.learnt_s[0] == math.inf
    assert memory.add_to(snapshot, now=NOON + LEARN_EVERY).waiting.learnt_s[0] == 200


def test_the_wait_limit_follows_the_largest_backlog(cluster, alice, project):
    memory = LearntMemory()
    assert memory.add_to(load_snapshot(NOON).snapshot, now=NOON).wait_limit_s[0] == LEAST_WAIT_S
    job = submit(alice, project, nodes=2, gpus_per_node=2, time_limit="10h")
    limit_s = memory.add_to(load_snapshot(NOON).snapshot, now=NOON).wait_limit_s[0]
    assert limit_s == pytest.approx(1.35 * 1.25 * 36_000)
    Job.objects.filter(pk=job.pk).update(state=JobState.CANCELLED)
    assert memory.add_to(load_snapshot(NOON).snapshot, now=NOON).wait_limit_s[0] == limit_s


def test_the_short_one_goes_first_until_the_long_one_has_waited_too_long(cluster, alice, project):
    long = submit(alice, project, nodes=2, gpus_per_node=2, time_limit="4h")
    short = submit(alice, project, nodes=2, gpus_per_node=2, time_limit="1h", now=at(3))

    def first(seconds):
        seen = LearntMemory().add_to(load_snapshot(at(seconds)).snapshot, now=at(seconds))
        return seen.waiting.id[order_waiting(seen, Policy(order=Order.SHORTEST))[0]]

    assert first(4) == short.pk
    assert first(10**6) == long.pk
    scheduler = Scheduler(holder="test", policy=Policy(order=Order.SHORTEST))
    assert scheduler.run_cycle(at(10)).started == 1
    assert Attempt.objects.get().job == short


def test_the_setting_chooses_the_order(settings):
    assert load_conf().policy.order is Order.FAIR
    settings.TRAINYARD = {**settings.TRAINYARD, "order": "las"}
    assert load_conf().policy.order is Order.LAS
