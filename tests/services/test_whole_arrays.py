"""Waits for whole arrays: met, never met, tasks tried again, and as few statements as for one."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.loop.reaping import reap
from scheduler.models import Dependency, Job, JobEvent, JobSet, SetDependency
from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.services import transitions
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.holding.following import followers_of
from scheduler.services.holding.moves import reconsider
from scheduler.services.jobs import cancel_job
from scheduler.services.sets import cancel_set, rerun_failed
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db

KINDS = ("after", "afterok", "afternotok", "afterany")


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def array(alice, project, spelt="0-2", **fields) -> JobSet:
    made = submit(alice, project, array=spelt, **fields).job_set
    assert made is not None
    return made


def states(*jobs: Job) -> str:
    """One letter each, as the database has them now."""
    found = dict(Job.objects.values_list("pk", "state"))
    return "".join(found[job.pk][0] for job in jobs)


def task(job_set: JobSet, index: int) -> Job:
    return job_set.tasks.get(array_index=index)


def run(cluster, job: Job, *, exit_code: int = 0) -> None:
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    reason = EndReason.COMPLETED if exit_code == 0 else EndReason.EXIT_CODE
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=exit_code), now=at(1))


def waiting(alice, project, job_set: JobSet, kinds=KINDS) -> list[Job]:
    return [submit(alice, project, depends_on=f"{kind}:set={job_set.pk}") for kind in kinds]


@pytest.mark.parametrize(
    ("codes", "steps"),
    [
        # After each end: after, afterok, afternotok, afterany.
        ((0, 0, 0), ("hhhh", "hhhh", "qqcq")),
        ((3, 0, 0), ("hchh", "hchh", "qcqq")),
        ((0, 3, 0), ("hhhh", "hchh", "qcqq")),
        ((0, 0, 3), ("hhhh", "hhhh", "qcqq")),
    ],
)
def test_each_kind_is_decided_with_the_end_that_decides_it(cluster, alice, project, codes, steps):
    job_set = array(alice, project)
    waits = waiting(alice, project, job_set)
    assert states(*waits) == "hhhh"
    for index, (code, after) in enumerate(zip(codes, steps, strict=True)):
        run(cluster, task(job_set, index), exit_code=code)
        assert states(*waits) == after, index


def test_what_is_waited_for_is_said_and_what_broke_it(cluster, alice, project):
    job_set = array(alice, project)
    waits = waiting(alice, project, job_set)
    number = job_set.pk
    assert [wait_sentence_of(job) for job in waits] == [
        f"Waits for all 3 tasks of array {number} to start.",
        f"Waits for all 3 tasks of array {number} to succeed.",
        f"Waits for all 3 tasks of array {number} to end, not all of them well.",
        f"Waits for all 3 tasks of array {number} to end.",
    ]
    assert waits[0].wait_facts["sets"] == [number]
    run(cluster, task(job_set, 1), exit_code=3)
    waits[1].refresh_from_db()
    assert waits[1].end_reason == EndReason.DEPENDENCY_NEVER
    assert end_sentence_of(waits[1]) == (
        "Its dependency can never be met: it waited for all 3 tasks of array "
        f"{number} to succeed, and task 1 has not."
    )
    # An end that decides nothing writes no line.
    assert not JobEvent.objects.filter(job=waits[3]).exclude(kind="submitted").exists()


def test_all_are_started_whether_one_has_ended_or_waits_to_be_tried_again(cluster, alice, project):
    job_set = array(alice, project, retries=1)
    (after,) = waiting(alice, project, job_set, ["after"])
    run(cluster, task(job_set, 0), exit_code=1)
    cancel_job(actor=alice, job=task(job_set, 1), now=at(2))
    assert states(after) == "h"
    attempt = start(task(job_set, 2), cluster.node(1))
    assert states(after) == "h"
    sync(cluster.node(1), running(attempt))
    assert states(after) == "q"
    assert states(task(job_set, 0)) == "q"


def test_a_task_that_is_tried_again_has_not_ended(cluster, alice, project):
    job_set = array(alice, project, "0-1", retries=1)
    waits = waiting(alice, project, job_set, KINDS[1:])
    run(cluster, task(job_set, 0))
    run(cluster, task(job_set, 1), exit_code=1)
    assert states(*waits) == "hhh"
    run(cluster, task(job_set, 1))
    assert states(*waits) == "qcq"


def test_tasks_cancelled_one_by_one_or_together_have_not_succeeded(cluster, alice, project):
    for end in ("one by one", "together"):
        job_set = array(alice, project)
        waits = waiting(alice, project, job_set)
        if end == "together":
            cancel_set(actor=alice, job_set=job_set, now=at(5))
        else:
            for index in range(3):
                assert states(*waits) == ("hchh" if index else "hhhh")
                cancel_job(actor=alice, job=task(job_set, index), now=at(index))
        assert states(*waits) == "qcqq"


def test_a_set_that_runs_failed_tasks_again_is_another_one(cluster, alice, project):
    job_set = array(alice, project)
    for index in range(2):
        run(cluster, task(job_set, index), exit_code=index)
    (anyhow,) = waiting(alice, project, job_set, ["afterany"])
    again = rerun_failed(actor=alice, job_set=job_set, now=at(5))
    (once_more,) = waiting(alice, project, again, ["afterok"])
    run(cluster, task(job_set, 2))
    assert states(anyhow, once_more) == "qh"
    run(cluster, task(again, 1))
    assert states(once_more) == "q"


def test_an_array_waits_for_an_array_and_falls_with_it(cluster, alice, project):
    first = array(alice, project, "0-1")
    second = array(alice, project, "0-3%2", depends_on=f"afterok:set={first.pk}")
    third = submit(alice, project, depends_on=[f"afterok:set={second.pk}"])
    assert SetDependency.objects.count() == 5
    run(cluster, task(first, 0))
    run(cluster, task(first, 1))
    assert states(*second.tasks.order_by("array_index"), third) == "qqhhh"
    cancel_set(actor=alice, job_set=second, now=at(9))
    assert states(third) == "c"
    doomed = array(alice, project, "0-1")
    chain = [doomed, array(alice, project, "0-1", depends_on=f"afterok:set={doomed.pk}")]
    last = submit(alice, project, depends_on=f"afterok:set={chain[1].pk}")
    run(cluster, task(doomed, 1), exit_code=1)
    assert states(*chain[1].tasks.all(), last) == "ccc"


def test_what_can_never_be_met_is_refused_and_what_is_met_holds_nothing(cluster, alice, project):
    job_set = array(alice, project, "4-5")
    run(cluster, task(job_set, 4), exit_code=1)
    with pytest.raises(SpecInvalid, match=f"array {job_set.pk} to succeed, and task 4 has not"):
        waiting(alice, project, job_set, ["afterok"])
    run(cluster, task(job_set, 5))
    assert states(*waiting(alice, project, job_set, ["after", "afternotok", "afterany"])) == "qqq"
    well = array(alice, project, "0")
    run(cluster, task(well, 0))
    with pytest.raises(SpecInvalid, match="all of them have succeeded"):
        waiting(alice, project, well, ["afternotok"])


def test_a_foreign_array_looks_missing_and_so_do_its_tasks(
    cluster, alice, carol, project, other_project
):
    mine = array(alice, project)
    for form in ("set={}", "{}_1"):
        words = []
        for number in (mine.pk, 987654):
            with pytest.raises(SpecInvalid) as refused:
                submit(carol, other_project, depends_on="afterok:" + form.format(number))
            (problem,) = refused.value.problems
            assert problem.field == "depends_on"
            words.append(problem.message.replace(f"array {number}", "array N"))
        assert words[0] == words[1]
    with pytest.raises(SpecInvalid, match=f"no task 7 of array {mine.pk} for you"):
        submit(alice, project, depends_on=f"afterok:{mine.pk}_7")
    assert not SetDependency.objects.exists() and not Dependency.objects.exists()


def test_one_task_is_named_by_its_index_or_its_number(cluster, alice, project):
    job_set = array(alice, project, "5-6")
    last = task(job_set, 6)
    one = submit(alice, project, depends_on=[f"afterok:{job_set.pk}_6", f"afterok:{last.pk}"])
    assert Dependency.objects.get(job=one).on == last
    run(cluster, last)
    assert states(one) == "q"


def test_jobs_and_arrays_must_all_be_met(cluster, alice, project):
    job_set, other = array(alice, project, "0"), submit(alice, project)
    both = submit(alice, project, depends_on=[other.pk, f"afterany:set={job_set.pk}"])
    assert wait_sentence_of(both) == (
        f"Waits for job {other.pk} to succeed, the task of array {job_set.pk} to end."
    )
    run(cluster, task(job_set, 0))
    both.refresh_from_db()
    assert (states(both), both.wait_facts.get("sets")) == ("h", None)
    run(cluster, other)
    assert states(both) == "q"


def test_a_hold_wins_and_its_release_looks_at_the_array_again(cluster, alice, project):
    job_set = array(alice, project, "0-1")
    (job,) = waiting(alice, project, job_set, ["afterok"])
    hold_job(actor=alice, job=job, now=at(1))
    run(cluster, task(job_set, 0))
    assert release_job(actor=alice, job=job, now=at(2)).wait_reason == "dependency_wait"
    hold_job(actor=alice, job=job, now=at(3))
    run(cluster, task(job_set, 1))
    assert release_job(actor=alice, job=job, now=at(4)).state == "queued"


def test_what_a_race_left_behind_is_healed(cluster, alice, project, monkeypatch):
    job_set = array(alice, project, "0-1")
    waits = waiting(alice, project, job_set)
    other = submit(alice, project)
    both = submit(alice, project, depends_on=[other.pk, f"afterany:set={job_set.pk}"])
    monkeypatch.setattr(transitions, "followers_of", lambda jobs: [])
    run(cluster, task(job_set, 0))
    reap(now=at(3))
    assert states(*waits, both) == "hhhhh"
    run(cluster, task(job_set, 1), exit_code=1)
    monkeypatch.undo()
    assert states(*waits) == "hhhh"
    reap(now=at(5))
    assert states(*waits, both) == "qcqqh"


def test_those_that_only_started_are_healed_too(cluster, alice, project, monkeypatch):
    job_set = array(alice, project, "0")
    waits = waiting(alice, project, job_set, ["after", "afterany"])
    monkeypatch.setattr(transitions, "followers_of", lambda jobs: [])
    sync(cluster.node(1), running(start(task(job_set, 0), cluster.node(1))))
    monkeypatch.undo()
    reap(now=at(5))
    assert states(*waits) == "qh"


def _statements(act) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        act()
    return len(seen)


def test_the_size_of_an_array_and_of_those_who_wait_costs_no_statements(cluster, alice, project):
    counts = []
    for size in (2, 60):
        job_set = array(alice, project, f"0-{size - 1}")
        array(alice, project, f"0-{size - 1}", depends_on=f"afterany:set={job_set.pk}")
        tasks = list(job_set.tasks.select_related("pool").order_by("pk"))
        Job.objects.filter(job_set=job_set).exclude(pk=tasks[0].pk).update(state="succeeded")
        for one in tasks:
            one.state = "succeeded"
        going = _statements(lambda some=tasks: followers_of(some[1:]))
        Job.objects.filter(pk=tasks[0].pk).update(state="succeeded")
        found: list[int] = []
        asked = _statements(lambda some=tasks, into=found: into.extend(followers_of(some)))
        let_go = _statements(lambda who=found: reconsider(who, now=at(1)))
        assert len(found) == size
        counts.append((going, asked, let_go))
    assert counts[0] == counts[1]
    locks = int(connection.features.has_select_for_update)
    assert counts[0][0] <= 4 + locks and counts[0][1] <= 5 + locks


def test_an_end_of_a_task_that_nobody_waits_for_asks_once(cluster, alice, project):
    job_set = array(alice, project)
    tasks = list(job_set.tasks.all())
    Job.objects.filter(job_set=job_set).update(state="succeeded")
    for one in tasks:
        one.state = "succeeded"
    alone = submit(alice, project)
    alone.state = "succeeded"
    # Of its set: whether anybody waits for it, and its throttle; beside them the lock.
    more = 2 + int(connection.features.has_select_for_update)
    single = _statements(lambda: followers_of([alone]))
    assert _statements(lambda: followers_of(tasks)) == single + more
