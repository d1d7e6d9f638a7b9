"""`aftercorr`: each task of an array waits for the one of its own index in another."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Dependency, Job, JobSet, SetDependency
from scheduler.selectors.jobs import clone_document, wait_sentence_of
from scheduler.services.bulk import submit_jobs
from scheduler.services.jobs import submit_job
from scheduler.services.sets import cancel_set, rerun_failed
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason, JobState, WaitReason
from tests import scenes
from tests.scenes import at, ended, running, start, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=8)


def array_of(actor, project, indexes, **fields):
    spec = parse_spec(
        {"name": "a", "project": project.path, "command": "x", "array": indexes, **fields}
    )
    return submit_job(actor=actor, spec=spec, now=at(0)).job.job_set


def tasks_of(job_set: JobSet) -> dict[int, Job]:
    return {one.array_index or 0: one for one in job_set.tasks.order_by("array_index")}


def run(cluster, job, *, code=0, now=60):
    attempt = start(job, cluster.node(1), now=at(now))
    sync(cluster.node(1), running(attempt), now=at(now + 1))
    reason = EndReason.EXIT_CODE if code else EndReason.COMPLETED
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=code), now=at(now + 2))


def states_of(job_set):
    return [one.state for one in tasks_of(job_set).values()]


def test_each_task_goes_when_the_one_of_its_index_has_succeeded(cluster, alice, project):
    first = array_of(alice, project, "0-2")
    second = array_of(alice, project, "0-2", depends_on=f"aftercorr:set={first.pk}")
    before, after = tasks_of(first), tasks_of(second)
    assert states_of(second) == ["held"] * 3
    assert wait_sentence_of(after[1]) == f"Waits for job {before[1].pk} to succeed."
    assert not SetDependency.objects.exists() and Dependency.objects.count() == 3
    run(cluster, before[1])
    assert states_of(second) == ["held", "queued", "held"]
    run(cluster, before[0], code=1, now=90)
    assert states_of(second) == ["cancelled", "queued", "held"]
    cancel_set(actor=alice, job_set=first, now=at(120))
    assert states_of(second) == ["cancelled", "queued", "cancelled"]
    third = tasks_of(second)[2]
    assert third.end_reason == EndReason.DEPENDENCY_NEVER
    assert third.end_facts["job"] == before[2].pk


def test_tasks_begin_with_what_is_in_the_way_of_each_and_the_throttle_counts_the_free(
    cluster, alice, project
):
    first = array_of(alice, project, "0-5")
    for index in (1, 3, 4):
        run(cluster, tasks_of(first)[index], now=60 + 10 * index)
    wants = {"depends_on": f"aftercorr:set={first.pk}"}
    second = array_of(alice, project, "0-4%2", **wants)
    reasons = [one.wait_reason for one in tasks_of(second).values()]
    assert states_of(second) == ["held", "queued", "held", "queued", "held"]
    assert reasons[4] == WaitReason.ARRAY_LIMIT and reasons[0] == WaitReason.DEPENDENCY_WAIT
    later = array_of(alice, project, "0-1", begin="2026-11-21T00:00Z", **wants)
    assert [one.wait_reason for one in tasks_of(later).values()] == [
        WaitReason.DEPENDENCY_WAIT, WaitReason.BEGIN_TIME]  # fmt: skip
    held = array_of(alice, project, "0-1", hold=True, **wants)
    assert {one.wait_reason for one in tasks_of(held).values()} == {WaitReason.HELD_BY_USER}


def test_a_task_keeps_what_it_waits_for_by_its_own_index(cluster, alice, project):
    first = array_of(alice, project, "3,7")
    named = [f"aftercorr:set={first.pk}", f"afterok:{first.pk}_7"]
    second = array_of(alice, project, "3,7", depends_on=named)
    tasks = tasks_of(second)
    assert second.spec["depends_on"] == named
    assert tasks[3].spec["depends_on"] == [f"afterok:{first.pk}_3", f"afterok:{first.pk}_7"]
    # Named both ways, its own is one wait.
    assert [tasks[index].dependencies.count() for index in (3, 7)] == [2, 1]
    clone = parse_spec(clone_document(alice, tasks[3]))
    assert submit_job(actor=alice, spec=clone, now=at(1)).job.dependencies.count() == 2
    Job.objects.filter(pk=tasks[3].pk).update(state=JobState.FAILED)
    again = rerun_failed(actor=alice, job_set=second, now=at(2))
    assert states_of(again) == ["queued"]


def test_an_array_of_the_same_bulk_is_named(cluster, alice, project):
    common = {"project": project.path, "command": "x", "array": "0-1"}
    wants = [{"kind": "aftercorr", "job": "prepare"}]
    specs = [
        parse_spec({**common, "name": "train", "depends_on": wants}),
        parse_spec({**common, "name": "prepare"}),
    ]
    train, prepare = (one.job.job_set for one in submit_jobs(actor=alice, specs=specs, now=at(0)))
    assert states_of(train) == ["held", "held"]
    run(cluster, tasks_of(prepare)[1])
    assert states_of(train) == ["held", "queued"]
    single = parse_spec({"project": project.path, "command": "x", "name": "prepare"})
    with pytest.raises(SpecInvalid, match="is none; use afterok"):
        submit_jobs(actor=alice, specs=[specs[0], single], now=at(0))


def test_what_does_not_match_is_refused_with_what_to_do(cluster, alice, project):
    first = array_of(alice, project, "0-4")

    def refused(indexes, number=first.pk):
        with pytest.raises(SpecInvalid) as caught:
            array_of(alice, project, indexes, depends_on=f"aftercorr:set={number}")
        (problem,) = caught.value.problems
        assert problem.field == "depends_on"
        return problem.message

    assert refused("3-7") == (
        f"waits task for task, and array {first.pk} has no task 5 and 2 more; it has 0-4: give "
        "this array indexes of these"
    )
    run(cluster, tasks_of(first)[2], code=1)
    assert refused("1-3") == (
        f"waits task for task, and of array {first.pk} task 2 has failed; leave them out: "
        "array: 1,3"
    )
    assert refused("2").endswith("task 2 has failed; name another array")
    assert refused("0", 987654) == "there is no array 987654 for you; check the number"


def test_an_array_that_is_cancelled_ends_all_that_wait_for_its_tasks_with_few_statements(
    cluster, alice, project
):
    counts = {}
    for size in (2, 12):
        first = array_of(alice, project, f"0-{size - 1}")
        second = array_of(alice, project, f"0-{size - 1}", depends_on=f"aftercorr:set={first.pk}")
        third = array_of(alice, project, f"0-{size - 1}", depends_on=f"aftercorr:set={second.pk}")
        with CaptureQueriesContext(connection) as asked:
            cancel_set(actor=alice, job_set=first, now=at(9))
        counts[size] = len(asked)
        before = tasks_of(first)
        for index, task in tasks_of(second).items():
            assert (task.state, task.end_reason) == ("cancelled", EndReason.DEPENDENCY_NEVER)
            assert task.end_facts["job"] == before[index].pk
            (event,) = task.events.filter(kind="cancelled")
            assert event.detail["job"] == before[index].pk
        assert set(states_of(third)) == {"cancelled"}
    assert counts[12] == counts[2]
