"""Begin time, dependencies and singletons: held, let go, or cancelled when they never can be."""

from __future__ import annotations

import pytest

from scheduler.loop.reaping import reap
from scheduler.models import Dependency, Job, JobEvent
from scheduler.selectors.jobs import job_actions, wait_sentence_of
from scheduler.services import transitions
from scheduler.services.changing.by_hand import hold_job, release_job
from scheduler.services.errors import Conflict
from scheduler.services.jobs import cancel_job
from scheduler.spec import SpecInvalid
from scheduler.states import EndReason, JobState
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def fresh(*jobs: Job) -> list[tuple[str, str]]:
    """State and reason of each as the database has them now."""
    for job in jobs:
        job.refresh_from_db()
    return [(job.state, job.wait_reason or job.end_reason) for job in jobs]


def run(cluster, job: Job, *, seconds: float = 1, exit_code: int = 0) -> None:
    """Start the job and let it end."""
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt))
    reason = EndReason.COMPLETED if exit_code == 0 else EndReason.EXIT_CODE
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=exit_code), now=at(seconds))


def test_a_begin_time_holds_until_then_and_shows_it(cluster, alice, project):
    job = submit(alice, project, begin="2026-11-20T12:10:00Z")
    assert fresh(job) == [("held", "begin_time")]
    assert wait_sentence_of(job) == "Starts no earlier than 20 Nov 2026, 12:10 UTC."
    reap(now=at(599))
    assert fresh(job) == [("held", "begin_time")]
    reap(now=at(600))
    assert fresh(job) == [("queued", "evaluating")]
    assert (job.submitted_at, job.queued_at) == (at(0), at(600))


def test_a_begin_time_in_the_past_is_no_obstacle(cluster, alice, project):
    assert submit(alice, project, begin="2026-11-20T11:00:00Z").state == JobState.QUEUED
    with pytest.raises(SpecInvalid, match="more than a year"):
        submit(alice, project, begin="2028-01-01")


def test_one_query_when_no_begin_time_is_due(cluster, alice, project, django_assert_num_queries):
    from scheduler.services.holding.letting_go import release_due

    submit(alice, project, begin="2026-11-20T12:10:00Z")
    with django_assert_num_queries(1):
        assert release_due(now=at(5)) == 0


@pytest.mark.parametrize(
    ("kind", "exit_code", "then"),
    [
        ("after", 0, "queued"),
        ("afterok", 0, "queued"),
        ("afterok", 3, "cancelled"),
        ("afternotok", 0, "cancelled"),
        ("afternotok", 3, "queued"),
        ("afterany", 0, "queued"),
        ("afterany", 3, "queued"),
    ],
)
def test_each_kind_is_decided_in_the_transaction_that_ends_the_other(
    cluster, alice, project, kind, exit_code, then
):
    first = submit(alice, project)
    second = submit(alice, project, depends_on=f"{kind}:{first.pk}")
    assert fresh(second) == [("held", "dependency_wait")]
    assert f"job {first.pk} to" in wait_sentence_of(second)
    run(cluster, first, exit_code=exit_code)
    assert fresh(second)[0][0] == then
    if then == "cancelled":
        assert second.end_reason == EndReason.DEPENDENCY_NEVER
        assert second.end_facts["job"] == first.pk
        assert second.ended_at == at(1)
    else:
        assert second.queued_at > second.submitted_at or kind == "after"


def test_after_is_met_by_the_start(cluster, alice, project):
    first = submit(alice, project)
    second = submit(alice, project, depends_on=[{"kind": "after", "job": first.pk}])
    attempt = start(first, cluster.node(1))
    assert fresh(second) == [("held", "dependency_wait")]
    sync(cluster.node(1), running(attempt))
    assert fresh(second)[0][0] == "queued"


def test_all_of_several_must_be_met_and_one_broken_is_enough(cluster, alice, project):
    a, b = submit(alice, project), submit(alice, project)
    both = submit(alice, project, depends_on=[a.pk, f"afterany:{b.pk}"])
    run(cluster, a)
    assert fresh(both) == [("held", "dependency_wait")]
    assert both.wait_facts["numbers"] == [b.pk]
    run(cluster, b, exit_code=1)
    assert fresh(both)[0][0] == "queued"
    c, d = submit(alice, project), submit(alice, project)
    broken = submit(alice, project, depends_on=[c.pk, d.pk])
    run(cluster, d, exit_code=1)
    assert fresh(broken)[0][0] == "cancelled"


def test_a_long_chain_falls_in_one_transaction(cluster, alice, project):
    chain = [submit(alice, project)]
    for _ in range(150):
        chain.append(submit(alice, project, depends_on=chain[-1].pk))
    cancel_job(actor=alice, job=chain[0], now=at(1))
    assert {state for state, _ in fresh(*chain)} == {"cancelled"}
    assert chain[-1].end_facts["job"] == chain[-2].pk
    assert chain[-1].events.filter(to_state="cancelled").count() == 1


def test_a_retry_is_no_end(cluster, alice, project):
    first = submit(alice, project, retries=1)
    second = submit(alice, project, depends_on=f"afternotok:{first.pk}")
    run(cluster, first, exit_code=1)
    assert fresh(first, second)[0][0] == "queued"
    assert second.state == JobState.HELD
    run(cluster, first, seconds=2, exit_code=1)
    assert fresh(second)[0][0] == "queued"


def test_foreign_jobs_look_missing(cluster, alice, carol, project, other_project):
    mine = submit(alice, project)
    with pytest.raises(SpecInvalid) as foreign:
        submit(carol, other_project, depends_on=mine.pk)
    with pytest.raises(SpecInvalid) as missing:
        submit(carol, other_project, depends_on=987654)
    words = [caught.value.problems[0].message for caught in (foreign, missing)]
    assert words[0].replace(str(mine.pk), "N") == words[1].replace("987654", "N")
    assert not Dependency.objects.exists()


def test_what_can_never_be_met_is_refused_at_once(cluster, alice, project):
    first = submit(alice, project)
    run(cluster, first, exit_code=1)
    with pytest.raises(SpecInvalid, match=f"job {first.pk} to succeed, which has failed"):
        submit(alice, project, depends_on=f"afterok:{first.pk}")
    assert submit(alice, project, depends_on=f"afternotok:{first.pk}").state == JobState.QUEUED


def test_singletons_run_one_after_the_other_by_owner_and_name(cluster, alice, bob, project):
    first = submit(alice, project, name="nightly")
    others = submit(bob, project, name="nightly", depends_on="singleton")
    second, third = (submit(alice, project, name="nightly", depends_on="singleton") for _ in "ab")
    assert others.state == JobState.QUEUED
    assert fresh(second, third) == [("held", "dependency_wait")] * 2
    assert "the earlier jobs of the same name" in wait_sentence_of(second)
    cancel_job(actor=alice, job=second, now=at(1))
    assert fresh(third) == [("held", "dependency_wait")]
    fourth = submit(alice, project, name="nightly", depends_on="singleton")
    before = JobEvent.objects.filter(job__in=[third, fourth]).count()
    run(cluster, first)
    assert fresh(third)[0][0] == "queued"
    assert fresh(fourth) == [("held", "dependency_wait")]
    assert JobEvent.objects.filter(job__in=[third, fourth]).count() == before + 1


def test_begin_time_counts_after_the_dependency(cluster, alice, project):
    first = submit(alice, project)
    second = submit(alice, project, depends_on=first.pk, begin="2026-11-20T12:10:00Z")
    run(cluster, first)
    assert fresh(second) == [("held", "begin_time")]
    reap(now=at(600))
    assert fresh(second)[0][0] == "queued"


def test_a_hold_wins_and_its_release_returns_to_what_is_in_the_way(cluster, alice, project):
    first = submit(alice, project)
    second = submit(alice, project, depends_on=first.pk)
    assert job_actions(alice, second) == {"cancel", "change", "hold", "clone"}
    with pytest.raises(Conflict, match="released by itself"):
        release_job(actor=alice, job=second)
    hold_job(actor=alice, job=second, now=at(1))
    assert fresh(second) == [("held", "held_by_user")]
    assert "release" in job_actions(alice, second)
    release_job(actor=alice, job=second, now=at(2))
    assert fresh(second) == [("held", "dependency_wait")]
    hold_job(actor=alice, job=second, now=at(3))
    run(cluster, first)
    assert fresh(second) == [("held", "held_by_user")]
    release_job(actor=alice, job=second, now=at(4))
    assert fresh(second)[0][0] == "queued"
    third = submit(alice, project, hold=True, depends_on=f"afterany:{second.pk}")
    fourth = submit(alice, project, depends_on=f"afterok:{third.pk}")
    Dependency.objects.filter(job=third).update(kind="afterok")
    cancel_job(actor=alice, job=second, now=at(5))
    assert fresh(third) == [("held", "held_by_user")]
    release_job(actor=alice, job=third, now=at(6))
    assert [state for state, _ in fresh(third, fourth)] == ["cancelled", "cancelled"]


def test_what_a_race_left_behind_is_healed(cluster, alice, project, monkeypatch):
    first = submit(alice, project)
    second = submit(alice, project, depends_on=first.pk)
    third = submit(alice, project, depends_on=f"afternotok:{first.pk}")
    single = submit(alice, project, depends_on="singleton")
    monkeypatch.setattr(transitions, "followers_of", lambda jobs: [])
    run(cluster, first)
    assert {state for state, _ in fresh(second, third, single)} == {"held"}
    monkeypatch.undo()
    reap(now=at(5))
    assert [state for state, _ in fresh(second, third)] == ["queued", "cancelled"]
    assert single.state == JobState.HELD
    for job in (second,):
        cancel_job(actor=alice, job=job, now=at(6))
    reap(now=at(7))
    assert fresh(single)[0][0] == "queued"
