"""Arrays: a set and its tasks, the throttle, rerun of what failed, cancel, the sums."""

from __future__ import annotations

from collections import Counter

import pytest

from scheduler.loop.reaping import reap
from scheduler.models import Job, JobSet
from scheduler.selectors.jobs import one_of_each_set, shown_spec, visible_jobs
from scheduler.selectors.sets import (
    get_set_in_full,
    get_visible_set,
    set_actions,
    set_view,
    set_views,
    tasks_of,
)
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.errors import Conflict, Forbidden, NotFound
from scheduler.services.jobs import submit_job
from scheduler.services.sets import cancel_set, rerun_failed
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def array(alice, project, spelt, **fields):
    return submit(alice, project, array=spelt, **fields).job_set


def run(cluster, job: Job, *, seconds: float = 60, exit_code: int = 0, begin_s: float = 0) -> None:
    attempt = start(job, cluster.node(1), now=at(begin_s))
    sync(cluster.node(1), running(attempt))
    reason = EndReason.COMPLETED if exit_code == 0 else EndReason.EXIT_CODE
    sync(
        cluster.node(1),
        ended(attempt, reason=reason, exit_code=exit_code),
        now=at(begin_s + seconds),
    )


def states(job_set: JobSet) -> str:
    """The tasks' states by index, one letter each."""
    found = job_set.tasks.order_by("array_index").values_list("state", flat=True)
    return "".join(state[0] for state in found)


def test_a_task_for_each_index_each_told_its_own(cluster, alice, project):
    job_set = array(alice, project, "3,5-6")
    assert (job_set.range, job_set.size) == ("3,5-6", 3)
    assert [task.array_index for task in tasks_of(alice, job_set)] == [3, 5, 6]
    task = job_set.tasks.get(array_index=5)
    assert task.spec["array"] is None
    start(task, cluster.node(1))
    (told,) = sync(cluster.node(1)).assignments
    assert told.launch.env == {
        "TRAINYARD_ARRAY_ID": str(job_set.pk),
        "TRAINYARD_ARRAY_INDEX": "5",
        "TRAINYARD_ARRAY_SIZE": "3",
    }


def test_a_plain_job_is_told_of_no_array(cluster, alice, project):
    start(submit(alice, project), cluster.node(1))
    assert sync(cluster.node(1)).assignments[0].launch.env == {}


def test_the_throttle_lets_one_follow_for_each_that_ends(cluster, alice, project):
    job_set = array(alice, project, "0-5%2")
    assert states(job_set) == "qqhhhh"
    last = job_set.tasks.get(array_index=5)
    assert (last.wait_reason, last.wait_facts) == ("array_limit", {"limit": 2})
    run(cluster, job_set.tasks.get(array_index=1))
    assert states(job_set) == "qsqhhh"
    run(cluster, job_set.tasks.get(array_index=0), exit_code=1)
    assert states(job_set) == "fsqqhh"
    assert job_set.tasks.get(array_index=3).queued_at == NOON


def test_a_held_task_gives_its_place_away_and_waits_for_another(cluster, alice, project):
    job_set = array(alice, project, "0-3%2")
    first = job_set.tasks.get(array_index=0)
    hold_job(actor=alice, job=first, now=at(1))
    assert states(job_set) == "hqqh"
    release_job(actor=alice, job=first, now=at(2))
    assert job_set.tasks.get(array_index=0).wait_reason == "array_limit"
    run(cluster, job_set.tasks.get(array_index=1))
    assert states(job_set) == "qsqh"


def test_a_retried_task_keeps_its_place(cluster, alice, project):
    job_set = array(alice, project, "0-2%1", retries=1)
    run(cluster, job_set.tasks.get(array_index=0), exit_code=1)
    assert states(job_set) == "qhh"


def test_dependencies_hold_the_whole_array_then_the_throttle(cluster, alice, project):
    first = submit(alice, project)
    job_set = array(alice, project, "0-3%2", depends_on=first.pk)
    assert Counter(job_set.tasks.values_list("wait_reason", flat=True)) == {"dependency_wait": 4}
    run(cluster, first)
    assert states(job_set) == "qqhh"
    assert job_set.tasks.get(array_index=3).wait_reason == "array_limit"
    doomed = array(alice, project, "0-3%2", depends_on=(second := submit(alice, project)).pk)
    run(cluster, second, exit_code=1)
    assert states(doomed) == "cccc"


def test_begin_time_of_an_array_lets_only_the_first_go(cluster, alice, project):
    job_set = array(alice, project, "0-3%1", begin="2026-11-20T12:10:00Z")
    reap(now=at(600))
    assert states(job_set) == "qhhh"


def test_room_that_nobody_gave_away_is_found(cluster, alice, project):
    job_set = array(alice, project, "0-3%2")
    JobSet.objects.filter(pk=job_set.pk).update(max_parallel=3)
    reap(now=at(1))
    assert states(job_set) == "qqqh"


def test_cancel_ends_what_waits_at_once_and_asks_what_runs(cluster, alice, bob, project):
    job_set = array(alice, project, "0-3%2")
    attempt = start(job_set.tasks.get(array_index=0), cluster.node(1))
    sync(cluster.node(1), running(attempt))
    after = submit(alice, project, depends_on=f"afterany:{job_set.tasks.get(array_index=3).pk}")
    with pytest.raises(Forbidden):
        cancel_set(actor=bob, job_set=job_set)
    assert cancel_set(actor=alice, job_set=job_set, now=at(5)) == 4
    assert [*job_set.tasks.order_by("array_index").values_list("state", flat=True)] == [
        "stopping", "cancelled", "cancelled", "cancelled"]  # fmt: skip
    task = job_set.tasks.get(array_index=3)
    assert (task.end_reason, task.end_facts["who"]) == ("cancelled_by_user", alice.get_full_name())
    after.refresh_from_db()
    assert after.state == "queued"
    sync(cluster.node(1), ended(attempt, reason=EndReason.CANCELLED_BY_USER), now=at(6))
    assert cancel_set(actor=alice, job_set=job_set, now=at(7)) == 0


def test_rerun_takes_the_failed_indexes_once(cluster, alice, bob, project):
    job_set = array(alice, project, "0-4", begin="2026-11-20T11:00:00Z")
    with pytest.raises(Conflict, match="none of its tasks has failed"):
        rerun_failed(actor=alice, job_set=job_set)
    for index, code in enumerate((1, 0, 2, 0, 1)):
        run(cluster, job_set.tasks.get(array_index=index), exit_code=code)
    with pytest.raises(Forbidden):
        rerun_failed(actor=bob, job_set=job_set)
    again = rerun_failed(actor=alice, job_set=job_set, now=at(70))
    assert (again.range, again.rerun_of, again.tasks.count()) == ("0,2,4", job_set, 3)
    assert again.spec["begin"] is None
    with pytest.raises(Conflict, match="run again already"):
        rerun_failed(actor=alice, job_set=job_set, now=at(71))
    run(cluster, again.tasks.get(array_index=2), exit_code=1)
    assert rerun_failed(actor=alice, job_set=job_set, now=at(72)).range == "2"


def test_rerun_looks_at_all_that_ran_it_again(cluster, alice, project):
    def fail(job_set):
        run(cluster, job_set.tasks.get(), exit_code=1)
        return job_set

    first = fail(array(alice, project, "7"))
    second = fail(rerun_failed(actor=alice, job_set=first))
    third = rerun_failed(actor=alice, job_set=second)
    for one in (first, second):
        with pytest.raises(Conflict, match="run again already"):
            rerun_failed(actor=alice, job_set=one)
    # Cancelled, it stands in for none of them; what stands in for one does for both.
    cancel_set(actor=alice, job_set=third)
    with pytest.raises(Conflict, match="none of its tasks has failed"):
        rerun_failed(actor=alice, job_set=third)
    assert rerun_failed(actor=alice, job_set=first).rerun_of == first
    with pytest.raises(Conflict, match="run again already"):
        rerun_failed(actor=alice, job_set=second)


def test_rerun_by_another_goes_without_the_owners_secrets(cluster, alice, lead, project):
    env = {"HUB_TOKEN": "hf_secret", "EPOCHS": "3"}
    job_set = array(alice, project, "0-1", env=env)
    for task in job_set.tasks.all():
        run(cluster, task, exit_code=1)
    again = rerun_failed(actor=lead, job_set=job_set, now=at(70))
    task = again.tasks.get(array_index=1)
    assert (again.owner, task.owner) == (lead, lead)
    assert again.spec["env"] == task.spec["env"] == {"EPOCHS": "3"}
    assert shown_spec(lead, task).env == {"EPOCHS": "3"}
    mine = array(alice, project, "0", env=env)
    run(cluster, mine.tasks.get(), exit_code=1)
    assert rerun_failed(actor=alice, job_set=mine, now=at(71)).spec["env"] == env


def test_the_sums_of_a_set(cluster, alice, project, django_assert_num_queries):
    job_set = array(alice, project, "0-9%2")
    view = set_views(alice, [job_set], now=at(0))[job_set.pk]
    assert (view.state, view.finished, view.done_at) == ("queued", 0, None)
    assert "no task has succeeded" in view.done_why
    for index in (0, 1):
        begin_s = 3600 * index
        run(cluster, job_set.tasks.get(array_index=index), seconds=3600, begin_s=begin_s)
    Job.objects.filter(job_set=job_set, state="succeeded").update(
        started_at=NOON, ended_at=at(3600)
    )
    start(job_set.tasks.get(array_index=2), cluster.node(1), now=at(7200))
    view = set_views(alice, [job_set], now=at(7200))[job_set.pk]
    assert (view.state, view.finished) == ("running", 2)
    # Eight are left and one runs: eight hours at an hour each.
    assert view.done_at == at(3600 * 10)
    assert view.cost == 2 * scenes.Decimal("3.6")
    assert set_actions(alice, view) == {"cancel"}
    more = [array(alice, project, "0-9") for _ in range(3)]
    for sets in ([job_set], [job_set, *more]):
        with django_assert_num_queries(3):
            set_views(alice, sets, now=at(3600))


def test_a_set_in_full_says_what_its_parts_say(cluster, alice, project, django_assert_num_queries):
    job_set = array(alice, project, "0-4")
    for index, exit_code in ((0, 0), (1, 0), (2, 1), (3, 1)):
        run(cluster, job_set.tasks.get(array_index=index), exit_code=exit_code, seconds=90)
        if exit_code:
            rerun_failed(actor=alice, job_set=job_set)
        with django_assert_num_queries(1):
            found = get_set_in_full(alice, job_set.pk)
        apart = set_views(alice, [job_set], now=at(100))[job_set.pk]
        assert found.job_set == get_visible_set(alice, job_set.pk)
        assert set_view(found.job_set, found.told, apart.cost, now=at(100)) == apart
        again = job_set.reruns.order_by("pk").values_list("pk", flat=True)
        assert found.reruns == tuple(again)
    assert found.told.mean
    assert found.reruns


def test_foreign_sets_look_missing(cluster, alice, carol, project):
    job_set = array(alice, project, "0-1")
    for find in (get_visible_set, get_set_in_full):
        with pytest.raises(NotFound):
            find(carol, job_set.pk)
        with pytest.raises(NotFound):
            find(alice, 2**70)


def test_a_list_shows_one_of_each_set(cluster, alice, project):
    single = submit(alice, project)
    job_set = array(alice, project, "0-9%3")
    shown = one_of_each_set(visible_jobs(alice))
    assert set(shown) == {single, job_set.tasks.get(array_index=9)}
    queued = one_of_each_set(visible_jobs(alice).filter(state="queued"))
    assert set(queued) == {single, job_set.tasks.get(array_index=2)}


def test_a_key_brings_the_same_set(cluster, alice, project):
    spec = parse_spec({"name": "x", "project": project.path, "script": "true", "array": "0-3"})
    done = [submit_job(actor=alice, spec=spec, idempotency_key="k", now=NOON) for _ in range(2)]
    assert [one.is_new for one in done] == [True, False]
    assert done[0].job.job_set == done[1].job.job_set
    assert JobSet.objects.count() == 1


def test_a_clone_of_a_task_is_a_single_job(cluster, alice, project):
    from scheduler.selectors.jobs import clone_document

    task = array(alice, project, "0-3").tasks.get(array_index=2)
    assert parse_spec(clone_document(alice, task)).array is None


def test_too_many_rows_are_refused(cluster, alice, project):
    jobs = [submit(alice, project).pk for _ in range(6)]
    with pytest.raises(SpecInvalid, match="60000 rows"):
        array(alice, project, "0-9999", depends_on=jobs)
    assert not JobSet.objects.exists()


def test_ten_thousand_tasks_are_taken_quickly(cluster, alice, project):
    import time

    began = time.perf_counter()
    job_set = array(alice, project, "0-9999%10")
    took = time.perf_counter() - began
    assert job_set.tasks.count() == 10_000
    assert took < 30
    print(f"10 000 tasks in {took:.2f} s")
