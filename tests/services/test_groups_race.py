"""Two submit into a group at once: one of the two is left, whatever happens beside them."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduler.models import Job
from scheduler.services.errors import Conflict
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.submitting import groups
from scheduler.spec import parse_spec
from tests import scenes
from tests.locks import both, elsewhere, just_before
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer at a time"),
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
