"""Two submit into a group at once: one of the two is left, whatever happens beside them."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from scheduler.models import Job
from scheduler.services import bulk
from scheduler.services.errors import Conflict
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.sets import rerun_failed
from scheduler.services.submitting import groups, opening
from scheduler.spec import parse_spec
from scheduler.states import EndReason
from tests import scenes
from tests.locks import both, elsewhere, just_before, wait_until_it_waits_or_ends
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=8).node(1)


def newest(alice, project, **fields):
    return lambda: submit(alice, project, group="eval", now=at(5), **fields)


def waiting():
    return list(Job.objects.filter(state__in=("queued", "held")).values_list("pk", flat=True))


def test_of_two_submits_at_once_one_job_is_left(node, alice, project):
    first = newest(alice, project)()
    made = []
    answers = both(lambda: made.append(newest(alice, project)()), newest(alice, project))
    assert waiting() == [answers[0].pk]
    assert Job.objects.get(pk=first.pk).end_facts["newer_job"] == made[0].pk
    assert Job.objects.get(pk=made[0].pk).end_facts["newer_job"] == answers[0].pk


def test_of_two_submits_by_one_key_one_cancels(node, alice, project):
    first = newest(alice, project)()
    document = {"name": "a", "project": project.path, "script": "true", "group": "eval"}
    spec = parse_spec(document)

    def once():
        return submit_job(actor=alice, spec=spec, idempotency_key="k", now=at(6))

    made = []
    answers = both(lambda: made.append(once()), once)
    assert [one.is_new for one in (*made, *answers)] == [True, False]
    assert waiting() == [made[0].job.pk] and Job.objects.count() == 2
    assert Job.objects.get(pk=first.pk).end_facts["newer_job"] == made[0].job.pk


@pytest.mark.parametrize("policy", ["wait", "stop"])
def test_one_that_ends_meanwhile_is_waited_for_no_more(node, alice, project, policy):
    attempt = start(newest(alice, project)(), node)
    sync(node, running(attempt), now=at(1))
    [second] = both(
        lambda: sync(node, ended(attempt), now=at(4)),
        newest(alice, project, group_policy=policy),
    )
    assert Job.objects.get(pk=second.pk).state == "queued"
    assert Job.objects.get(pk=attempt.job_id).state == "succeeded"


@pytest.mark.parametrize("policy", ["wait", "stop"])
def test_one_that_ends_just_after_lets_it_go(node, alice, project, policy):
    attempt = start(newest(alice, project)(), node)
    sync(node, running(attempt), now=at(1))
    made = []
    both(
        lambda: made.append(newest(alice, project, group_policy=policy)()),
        lambda: sync(node, ended(attempt), now=at(6)),
    )
    assert Job.objects.get(pk=made[0].pk).state == "queued"


def test_one_that_is_started_meanwhile_is_stopped_all_the_same(node, alice, project, monkeypatch):
    first = newest(alice, project)()
    just_before(monkeypatch, groups, "lock_arrays", lambda: elsewhere(lambda: start(first, node)))
    second = newest(alice, project, group_policy="stop")()
    assert Job.objects.get(pk=first.pk).state == "stopping"
    assert Job.objects.get(pk=second.pk).state == "held"


def test_a_cancel_by_hand_at_once_stands_in_nobodys_way(node, alice, project):
    first = newest(alice, project)()
    attempt = start(first, node)
    sync(node, running(attempt), now=at(1))
    [second] = both(
        lambda: cancel_job(actor=alice, job=first, now=at(4)),
        newest(alice, project, group_policy="stop"),
    )
    assert not isinstance(second, Conflict)
    assert Job.objects.get(pk=second.pk).state == "held"


def test_who_waits_for_namesakes_and_who_is_newest_do_not_wait_for_each_other(node, alice, project):
    first = newest(alice, project)()
    after = [f"afterany:{first.pk}", "singleton"]

    def namesake():
        return submit(alice, project, depends_on=after, now=at(5))

    made = []
    [second] = both(lambda: made.append(namesake()), newest(alice, project))
    assert set(waiting()) == {made[0].pk, second.pk}


def failed_array(alice, project, node):
    task = newest(alice, project, array="0")()
    attempt = start(task, node)
    sync(node, running(attempt), now=at(1))
    sync(node, ended(attempt, reason=EndReason.EXIT_CODE, exit_code=1), now=at(2))
    return task.job_set


def test_what_runs_an_array_again_is_seen_by_a_newer_one_at_once(node, alice, project):
    job_set, made = failed_array(alice, project, node), []
    [newer] = both(
        lambda: made.append(rerun_failed(actor=alice, job_set=job_set, now=at(4))),
        newest(alice, project, group_policy="beside"),
    )
    [task] = made[0].tasks.all()
    assert (task.state, task.end_facts["newer_job"]) == ("cancelled", newer.pk)


def test_or_comes_after_it(node, alice, project):
    job_set, made = failed_array(alice, project, node), []
    [again] = both(
        lambda: made.append(newest(alice, project, group_policy="beside")()),
        lambda: rerun_failed(actor=alice, job_set=job_set, now=at(6)),
    )
    [task] = again.tasks.all()
    assert task.pk > made[0].pk and {task.pk, made[0].pk} <= set(waiting())


def beside(monkeypatch, module, name, act):
    """Begin `act` elsewhere as `module` comes to its function `name`; how to get what it returned
    or raised."""
    answers: list[object] = []

    def run():
        try:
            answers.append(act())
        except Exception as problem:
            answers.append(problem)
        finally:
            connections.close_all()

    other = threading.Thread(target=run)

    def meanwhile():
        other.start()
        wait_until_it_waits_or_ends(other)

    just_before(monkeypatch, module, name, meanwhile)

    def answer():
        other.join(30)
        [found] = answers
        return found

    return answer


def test_two_that_each_wait_for_the_others_older_one_do_not_wait_for_each_other(
    node, alice, bob, project, monkeypatch
):
    mine, theirs = newest(alice, project)(), newest(bob, project)()
    submit_theirs = newest(bob, project, depends_on=[f"afterany:{mine.pk}"])
    answer = beside(monkeypatch, opening, "resolve_order", submit_theirs)
    made = newest(alice, project, depends_on=[f"afterany:{theirs.pk}"])()
    other = answer()
    assert set(waiting()) == {made.pk, other.pk}
    assert {job.pk for job in Job.objects.filter(state="cancelled")} == {mine.pk, theirs.pk}


def test_a_bulk_that_waits_for_namesakes_and_who_is_newest_do_not_either(
    node, alice, project, monkeypatch
):
    first, other = newest(alice, project)(), submit(alice, project)
    document = {"name": "a", "project": project.path, "script": "true"}
    after = (["singleton", f"afterany:{first.pk}"], [f"afterany:{other.pk}"])
    specs = [parse_spec({**document, "depends_on": one}) for one in after]
    answer = beside(monkeypatch, bulk, "lock_groups", newest(alice, project))
    made = bulk.submit_jobs(actor=alice, specs=specs, now=at(5))
    newer = answer()
    assert set(waiting()) == {*(one.job.pk for one in made), other.pk, newer.pk}


def test_two_bulks_that_wait_for_the_same_jobs_do_not_wait_for_each_other(
    node, alice, bob, project, monkeypatch
):
    jobs = [submit(alice, project), submit(alice, project)]
    document = {"name": "a", "project": project.path, "script": "true"}

    def bulk_of(actor, order):
        after = [{"depends_on": [f"afterany:{job.pk}"]} for job in order]
        specs = [parse_spec({**document, **one}) for one in after]
        return lambda: bulk.submit_jobs(actor=actor, specs=specs, now=at(5))

    # Once the first of the one is checked and written.
    answer = beside(monkeypatch, bulk, "write_jobs", bulk_of(bob, jobs[::-1]))
    assert len(bulk_of(alice, jobs)()) == len(answer()) == 2
