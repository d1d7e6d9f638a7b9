"""Groups of which the newest job counts."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from accounts.services import create_project
from scheduler.models import Job, JobEvent, Notification
from scheduler.services.bulk import submit_jobs
from scheduler.services.inbox.watching import watch_job
from scheduler.services.jobs import submit_job
from scheduler.services.sets import rerun_failed
from scheduler.services.sharing.limits import set_caps
from scheduler.services.submitting.quotes import preview_job
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason, JobState, end_sentence
from tests import scenes
from tests.scenes import NOON, at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=8).node(1)


def spec_of(project, **fields):
    document = {"name": "train", "project": project.path, "script": "true", "group": "eval"}
    return parse_spec({**document, **fields})


def newest(alice, project, now=NOON, **fields):
    return submit(alice, project, now=now, group="eval", **fields)


def states(*jobs):
    return [Job.objects.get(pk=job.pk).state for job in jobs]


def run(job, node, now=NOON):
    attempt = start(job, node, now=now)
    sync(node, running(attempt), now=now)
    return attempt


def test_a_newer_job_cancels_the_older_one_that_waits(node, alice, project):
    first = newest(alice, project)
    other, foreign = submit(alice, project), submit(alice, project, group="other")
    second = newest(alice, project, at(5))
    assert states(first, other, foreign, second) == ["cancelled", "queued", "queued", "queued"]
    first.refresh_from_db()
    assert first.end_reason == EndReason.SUPERSEDED and first.ended_at == at(5)
    assert first.end_facts == {"newer": f"job {second.pk}", "newer_job": second.pk, "group": "eval"}
    words = f"Cancelled for job {second.pk}, which is newer in its group eval."
    assert end_sentence(first.end_reason, first.end_facts) == words
    took = second.events.get(kind="took_over")
    assert took.detail == {"group": "eval", "cancelled": f"job {first.pk}"} and took.actor == alice
    assert first.events.get(kind="cancelled").detail["newer_job"] == second.pk
    assert not other.events.filter(kind="took_over").exists()


def test_it_is_one_persons_in_one_project(node, root, alice, bob, project, team):
    others = create_project(actor=root, team=team, name="other")
    mine = newest(alice, project)
    theirs, elsewhere = newest(bob, project), newest(alice, others)
    assert states(mine, theirs, elsewhere) == ["queued"] * 3


def test_it_waits_for_the_one_that_runs_and_is_let_go_by_its_end(node, alice, project):
    first = newest(alice, project)
    attempt = run(first, node)
    second = newest(alice, project, at(5))
    assert states(first, second) == ["running", "held"]
    second.refresh_from_db()
    assert second.wait_facts["jobs"] == f"job {first.pk} of its group eval to end"
    assert not second.spec["depends_on"]
    third = newest(alice, project, at(6))
    assert states(first, second, third) == ["running", "cancelled", "held"]
    sync(node, ended(attempt), now=at(9))
    assert states(first, third) == ["succeeded", "queued"]


def test_what_was_tried_before_is_not_thrown_away_for_one_that_waits(node, alice, project):
    first = newest(alice, project, retries=1)
    sync(node, ended(run(first, node), reason=EndReason.EXIT_CODE, exit_code=1), now=at(3))
    second = newest(alice, project, at(5))
    assert states(first, second) == ["queued", "held"]
    third = newest(alice, project, at(6), group_policy="stop")
    assert states(first, second, third) == ["cancelled", "cancelled", "queued"]


def test_by_choice_the_one_that_runs_is_stopped_and_waited_for(node, alice, project):
    first = newest(alice, project, retries=3)
    attempt = run(first, node)
    second = newest(alice, project, at(5), group_policy="stop")
    assert states(first, second) == ["stopping", "held"]
    stop = sync(node, running(attempt), now=at(6)).assignments[0].stop
    assert stop.reason == EndReason.CANCELLED_BY_USER
    third = newest(alice, project, at(7), group_policy="stop")
    assert states(second, third) == ["cancelled", "held"]
    sync(node, ended(attempt, reason=EndReason.CANCELLED_BY_USER, exit_code=-15), now=at(9))
    first.refresh_from_db()
    assert (first.state, first.end_reason) == (JobState.CANCELLED, EndReason.SUPERSEDED)
    assert first.end_facts["newer_job"] == second.pk and states(third) == ["queued"]
    asked = first.events.get(kind="stop_requested")
    assert asked.detail["newer"] == f"job {second.pk}" and asked.detail["reason"] == "superseded"


def test_by_choice_it_runs_beside_those_that_run(node, alice, project):
    first = newest(alice, project)
    run(first, node)
    second = newest(alice, project, at(5), group_policy="beside")
    assert states(first, second) == ["running", "queued"]


def test_an_array_is_one_member(node, alice, project):
    first = newest(alice, project, array="0-3")
    second = newest(alice, project, at(5), array="0-1")
    assert set(first.job_set.tasks.values_list("state", flat=True)) == {"cancelled"}
    first.refresh_from_db()
    assert first.end_facts["newer"] == f"array {second.job_set_id}"
    assert (
        Job.objects.filter(job_set=second.job_set, group_name="eval", state="queued").count() == 2
    )
    run(second, node)
    third = newest(alice, project, at(6))
    assert states(third) == ["held"]
    assert third.events.filter(kind="took_over").count() == 0
    fourth = newest(alice, project, at(7), group_policy="stop")
    assert sorted(second.job_set.tasks.values_list("state", flat=True)) == ["cancelled", "stopping"]
    assert states(third, fourth) == ["cancelled", "held"]
    # A clone of a task alone is none of the group: it ends nothing of its own array.
    assert "group" not in parse_spec(second.spec).readable()


def test_what_runs_an_array_again_belongs_to_it(node, alice, project):
    first = newest(alice, project, array="0-2")
    sync(node, ended(run(first, node), reason=EndReason.EXIT_CODE, exit_code=1), now=at(3))
    again = rerun_failed(actor=alice, job_set=first.job_set, now=at(4))
    assert set(again.tasks.values_list("state", "group_name")) == {("queued", "eval")}
    assert first.job_set.tasks.filter(state="queued").count() == 2


def test_who_is_refused_or_comes_again_cancels_nobody(node, root, alice, project, team):
    first = newest(alice, project)
    with pytest.raises(SpecInvalid):
        newest(alice, project, gpus_per_node=64)
    spec = spec_of(project)
    one = submit_job(actor=alice, spec=spec, idempotency_key="k", now=at(1)).job
    third = newest(alice, project, at(2))
    known = submit_job(actor=alice, spec=spec, idempotency_key="k", now=at(3))
    assert known.job == one and not known.is_new
    assert states(first, one, third) == ["cancelled", "cancelled", "queued"]
    # One that makes room for itself passes a cap; one more does not.
    set_caps(actor=root, owner=team, max_pending=1)
    fourth = newest(alice, project, at(4))
    assert states(third, fourth) == ["cancelled", "queued"]
    with pytest.raises(SpecInvalid, match="waiting jobs"):
        submit(alice, project, group="other")
    assert states(fourth) == ["queued"]


def test_it_cannot_wait_for_one_that_it_cancels(node, alice, project):
    first = newest(alice, project)
    with pytest.raises(SpecInvalid, match=f"waits for job {first.pk}, which would be cancelled"):
        newest(alice, project, depends_on=[f"afterany:{first.pk}"])
    assert states(first) == ["queued"]


def test_who_waited_for_the_older_one_is_told_at_once(node, alice, project):
    first = newest(alice, project)
    after = submit(alice, project, depends_on=[f"afterany:{first.pk}"])
    never = submit(alice, project, depends_on=[f"afterok:{first.pk}"])
    newest(alice, project, at(5))
    assert states(first, after, never) == ["cancelled", "queued", "cancelled"]


def test_of_a_bulk_the_last_counts(node, alice, project):
    before = newest(alice, project)
    sent = [
        spec_of(project, name="a", depends_on=[{"kind": "afterok", "job": "c"}]),
        spec_of(project, name="b"),
        spec_of(project, name="c", group=""),
        spec_of(project, name="d", group="other"),
    ]
    for _ in range(2):
        done = submit_jobs(actor=alice, specs=sent, idempotency_key="k", now=at(5))
    jobs = [one.job for one in done]
    assert states(before, *jobs) == ["cancelled", "cancelled", "queued", "queued", "queued"]
    before.refresh_from_db()
    assert before.end_facts["newer_job"] == jobs[0].pk
    assert Job.objects.get(pk=jobs[0].pk).end_facts["newer_job"] == jobs[1].pk
    assert Job.objects.count() == 5


def test_many_of_a_group_take_no_more_statements_than_two(node, alice, project):
    def statements(count):
        newest(alice, project)
        with CaptureQueriesContext(connection) as seen:
            submit_jobs(actor=alice, specs=[spec_of(project)] * count, now=at(5))
        assert Job.objects.filter(group_name="eval", state="queued").count() == 1
        return len(seen)

    assert statements(3) == statements(8)


def test_its_owner_is_told_only_where_the_job_asks_for_it(node, alice, project):
    quiet, asking = newest(alice, project), newest(alice, project, notify=["end"])
    newest(alice, project, array="0-1")
    newest(alice, project)
    told = Notification.objects.filter(kind="job_cancelled")
    by_subject = dict(told.values_list("subject", "asked"))
    assert by_subject.pop(f"job:{quiet.pk}") is False
    assert by_subject.pop(f"job:{asking.pk}") is True
    assert list(by_subject.values()) == [False]


def test_who_watches_is_told_by_their_own_choice(node, alice, bob, project):
    first = newest(alice, project)
    watch_job(actor=bob, pk=first.pk, now=NOON)
    second = newest(alice, project, at(5))
    told = Notification.objects.get(person=bob)
    assert f"Cancelled for job {second.pk}" in told.text and told.asked is None


def test_a_dry_run_says_what_it_ends_and_ends_nothing(node, alice, project):
    assert preview_job(actor=alice, spec=spec_of(project)).group == ""
    first = newest(alice, project)
    run(first, node)
    second = newest(alice, project, at(5))
    words = f"As the newest of its group eval it cancels job {second.pk} and "
    quote = preview_job(actor=alice, spec=spec_of(project), now=at(6))
    assert quote.group == f"{words}waits for job {first.pk} to end."
    quote = preview_job(actor=alice, spec=spec_of(project, group_policy="beside"), now=at(6))
    assert quote.group == f"As the newest of its group eval it cancels job {second.pk}."
    quote = preview_job(actor=alice, spec=spec_of(project, group_policy="stop"), now=at(6))
    stops = f"cancels job {second.pk}, stops job {first.pk} and waits until that has ended."
    assert quote.group.endswith(stops)
    assert states(first, second) == ["running", "held"]
    assert not JobEvent.objects.filter(kind="took_over").exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"group": "two words"}, "group"),
        ({"group": "x" * 65}, "group"),
        ({"group": "", "group_policy": "stop"}, "group_policy"),
        ({"group_policy": "kill"}, "group_policy"),
        ({"script": "", "session": {"app": "shell"}}, "group"),
    ],
)
def test_what_makes_no_group_is_refused_by_field(project, fields, field):
    with pytest.raises(SpecInvalid) as refused:
        spec_of(project, **fields)
    assert [one.field for one in refused.value.problems] == [field]
