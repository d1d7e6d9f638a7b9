"""Submit, cancel, hold and release."""

from __future__ import annotations

import pytest

from scheduler.models import Job
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.errors import Conflict, Forbidden, IdempotencyConflict, StaleVersion
from scheduler.services.jobs import cancel_job, submit_job
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import JobState
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


def _spec(project, **fields):
    return parse_spec({"name": "x", "project": project.path, "script": "true", **fields})


def test_submit_writes_the_job_and_its_first_event(cluster, alice, project):
    job = submit(alice, project, gpus_per_node=2, time_limit="2h", tier="urgent")
    assert (job.state, job.gpus, job.time_limit_s, job.tier) == ("queued", 2, 7200, 20)
    assert [e.kind for e in job.events.all()] == ["submitted"]


def test_the_same_key_is_the_same_job(cluster, alice, project):
    first = submit_job(actor=alice, spec=_spec(project), idempotency_key="k", now=NOON)
    again = submit_job(actor=alice, spec=_spec(project), idempotency_key="k", now=at(5))
    assert (first.is_new, again.is_new, again.job.pk) == (True, False, first.job.pk)
    assert Job.objects.count() == 1


def test_the_same_key_with_another_spec_is_refused(cluster, alice, project):
    submit_job(actor=alice, spec=_spec(project), idempotency_key="k", now=NOON)
    with pytest.raises(IdempotencyConflict):
        submit_job(actor=alice, spec=_spec(project, nodes=2), idempotency_key="k", now=at(5))


def test_keys_belong_to_their_user_and_last_a_day(cluster, alice, bob, project):
    a = submit_job(actor=alice, spec=_spec(project), idempotency_key="k", now=NOON).job
    b = submit_job(actor=bob, spec=_spec(project), idempotency_key="k", now=NOON).job
    later = submit_job(actor=alice, spec=_spec(project), idempotency_key="k", now=at(90000)).job
    assert len({a.pk, b.pk, later.pk}) == 3


def test_a_foreign_project_looks_like_a_missing_one(cluster, carol, project):
    with pytest.raises(SpecInvalid) as foreign:
        submit(carol, project)
    with pytest.raises(SpecInvalid) as missing:
        submit_job(actor=carol, spec=parse_spec({
            "name": "x", "project": "no/such", "script": "true"}))  # fmt: skip
    a, b = foreign.value.problems[0], missing.value.problems[0]
    assert a.message.replace(project.path, "P") == b.message.replace("no/such", "P")


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"gpus_per_node": 5}, "gpus_per_node", "has 4 GPUs"),
        ({"nodes": 3}, "nodes", "has 2 nodes"),
        ({"cpus": 999}, "cpus", "has 16"),
        ({"memory": "2TiB"}, "memory", "64GiB"),
        ({"gpu_model": "A100"}, "gpu_model", "H100"),
        ({"pool": "nope"}, "pool", "no pool nope"),
    ],
)
def test_the_impossible_is_refused_with_the_largest_possible(
    cluster, alice, project, fields, field, words
):
    with pytest.raises(SpecInvalid) as caught:
        submit(alice, project, **fields)
    (problem,) = caught.value.problems
    assert problem.field == field
    assert words in problem.message
    assert Job.objects.count() == 0


def test_a_dry_run_says_the_cost_and_writes_nothing(cluster, alice, project):
    quote = preview_job(
        actor=alice, spec=_spec(project, gpus_per_node=2, time_limit="1h"), now=NOON
    )
    assert (quote.free_gpus, quote.total_gpus, quote.jobs_ahead) == (8, 8, 0)
    assert str(quote.worst_case_cost) == "7.2000000000"
    assert Job.objects.count() == 0


def test_cancel_while_queued_is_at_once_and_twice_is_harmless(cluster, alice, project):
    job = submit(alice, project)
    assert cancel_job(actor=alice, job=job, now=at(1)).state == JobState.CANCELLED
    assert cancel_job(actor=alice, job=job, now=at(2)).state == JobState.CANCELLED
    assert job.events.filter(kind="cancelled").count() == 1


def test_cancel_while_running_stops_on_the_node_first(cluster, alice, project):
    job = submit(alice, project)
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    assert cancel_job(actor=alice, job=job, now=at(1)).state == JobState.STOPPING
    from scheduler.states import EndReason

    order = sync(cluster.node(1)).assignments[0].stop
    assert order is not None and order.reason == "cancelled_by_user"
    sync(
        cluster.node(1),
        ended(attempt, reason=EndReason.CANCELLED_BY_USER, exit_code=-15),
        now=at(3),
    )
    job.refresh_from_db()
    assert (job.state, job.end_facts["who"]) == ("cancelled", alice.get_full_name())


def test_strangers_and_mates_cannot_cancel_but_lead_and_operator_can(
    cluster, alice, bob, lead, operator, project
):
    job = submit(alice, project)
    with pytest.raises(Forbidden):
        cancel_job(actor=bob, job=job)
    held = hold_job(actor=lead, reason=WHY, job=job)
    assert held.wait_reason == "held_by_user"
    release_job(actor=alice, job=job)
    assert cancel_job(actor=operator, reason=WHY, job=job).end_reason == "cancelled_by_admin"


def test_what_an_operator_holds_only_an_operator_releases(cluster, alice, operator, project):
    job = submit(alice, project)
    hold_job(actor=operator, reason=WHY, job=job)
    with pytest.raises(Forbidden):
        release_job(actor=alice, job=job)
    assert release_job(actor=operator, reason=WHY, job=job).state == JobState.QUEUED


def test_hold_needs_a_queued_job(cluster, alice, project):
    job = submit(alice, project)
    start(job, cluster.node(1))
    with pytest.raises(Conflict):
        hold_job(actor=alice, job=job)


def test_a_stale_version_is_refused_and_names_the_current_one(cluster, alice, project):
    job = submit(alice, project)
    hold_job(actor=alice, job=job)
    with pytest.raises(StaleVersion) as caught:
        release_job(actor=alice, job=job, version=1)
    assert caught.value.facts["version"] == 2
