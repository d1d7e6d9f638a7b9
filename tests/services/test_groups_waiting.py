"""Whom a job of a group waits for, in words; what it cannot wait for; and what is told of it."""

from __future__ import annotations

import json

import pytest

from scheduler.models import Dependency, Notification, SetDependency
from scheduler.selectors.composing.templates import get_version
from scheduler.selectors.jobs import clone_document, wait_sentence_of
from scheduler.services.bulk import submit_jobs
from scheduler.services.composing.templates import submit_again, submit_from_template
from scheduler.services.holding.moves import reconsider
from scheduler.services.inbox import add_webhook
from scheduler.services.inbox.delivering import deliver
from scheduler.services.jobs import cancel_job
from scheduler.services.submitting import groups
from scheduler.spec import SpecInvalid, parse_spec
from scheduler.states import EndReason
from tests import scenes
from tests.composing import make_template
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(root):
    return scenes.build_cluster(root, gpus=8).node(1)


def newest(alice, project, now=at(5), **fields):
    return submit(alice, project, now=now, group="eval", **fields)


def run(job, node):
    attempt = start(job, node, now=at(1))
    sync(node, running(attempt), now=at(2))
    return attempt


def told(job):
    """Why it waits, also once it is looked at again, which changes nothing."""
    job.refresh_from_db()
    before, events = (job.wait_reason, job.wait_facts), job.events.count()
    reconsider([job.pk], now=at(9))
    job.refresh_from_db()
    assert ((job.wait_reason, job.wait_facts), job.events.count()) == (before, events)
    return wait_sentence_of(job)


def test_it_says_which_job_of_which_group_it_waits_for(node, alice, project):
    first = newest(alice, project)
    run(first, node)
    second = newest(alice, project)
    assert told(second) == f"Waits for job {first.pk} of its group eval to end."
    assert second.wait_facts["group"] == "eval"
    other = submit(alice, project, depends_on=[f"afterany:{first.pk}"])
    assert told(other) == f"Waits for job {first.pk} to end."
    assert "group" not in other.wait_facts


def test_of_an_array_as_well_and_beside_what_it_names_itself(node, alice, project):
    many, before = newest(alice, project, array="0-3"), submit(alice, project)
    run(many, node)
    after = [f"afterok:{before.pk}", f"afterany:set={many.job_set_id}"]
    second = newest(alice, project, depends_on=after)
    whole = f"all 4 tasks of array {many.job_set_id} of its group eval to end"
    assert told(second) == f"Waits for job {before.pk} to succeed, {whole}."
    # Named by itself and by its group it is one wait.
    assert SetDependency.objects.filter(job=second).count() == 1
    third = newest(alice, project, depends_on=after[:1], group_policy="beside")
    assert told(third) == f"Waits for job {before.pk} to succeed."


def test_one_that_it_names_itself_too_is_one_wait(node, alice, project):
    first = newest(alice, project)
    run(first, node)
    second = newest(alice, project, depends_on=[f"afterany:{first.pk}"])
    assert Dependency.objects.filter(job=second).count() == 1
    assert told(second) == f"Waits for job {first.pk} of its group eval to end."


@pytest.mark.parametrize("array", [None, "0-1"])
def test_it_cannot_wait_for_the_success_of_one_that_it_stops(node, alice, project, array):
    first = newest(alice, project, array=array)
    run(first, node)
    if array:
        run(first.job_set.tasks.latest("pk"), node)
    name, words = (f"set={first.job_set_id}", "array") if array else (first.pk, "job")
    number = first.job_set_id or first.pk
    with pytest.raises(SpecInvalid, match=f"waits for {words} {number}, which would be stopped"):
        newest(alice, project, group_policy="stop", depends_on=[f"afterok:{name}"])
    first.refresh_from_db()
    assert first.state == "running"
    # For its end it may wait, and so it does.
    last = newest(alice, project, group_policy="stop", depends_on=[f"afterany:{name}"])
    first.refresh_from_db()
    assert (first.state, last.state) == ("stopping", "held")


def test_who_is_being_cancelled_already_is_not_stopped_for_it(node, alice, project):
    first = newest(alice, project)
    attempt = run(first, node)
    cancel_job(actor=alice, job=first, now=at(4))
    second = newest(alice, project, group_policy="stop")
    assert second.state == "held" and not second.events.filter(kind="took_over").exists()
    reason = EndReason.CANCELLED_BY_USER
    sync(node, ended(attempt, reason=reason, exit_code=-15), now=at(8))
    first.refresh_from_db()
    assert first.end_reason == reason


def test_of_two_that_stop_one_in_a_bulk_the_first_did(node, alice, project):
    first = newest(alice, project)
    run(first, node)
    document = {"name": "a", "project": project.path, "script": "true", "group": "eval"}
    specs = [parse_spec({**document, "group_policy": "stop"})] * 2
    one, two = (done.job for done in submit_jobs(actor=alice, specs=specs, now=at(5)))
    assert one.events.get(kind="took_over").detail["stopped"] == f"job {first.pk}"
    assert two.events.get(kind="took_over").detail == {
        "group": "eval",
        "cancelled": f"job {one.pk}",
    }


def test_an_array_that_would_wait_for_too_many_is_refused_by_field(
    node, alice, project, monkeypatch
):
    monkeypatch.setattr(groups, "MAX_ROWS", 5)
    for _ in range(2):
        run(newest(alice, project, group_policy="beside"), node)
    newest(alice, project, array="0-1")
    with pytest.raises(SpecInvalid, match="each of the 3 tasks would wait") as refused:
        newest(alice, project, array="0-2")
    assert [one.field for one in refused.value.problems] == ["group"]
    newest(alice, project, array="0-2", group_policy="beside")


def test_news_say_for_which_job_it_was_and_name_nobody(node, root, alice, project, receiver):
    add_webhook(actor=root, url=receiver.url, now=at(0))
    first, many = newest(alice, project), newest(alice, project, array="0-1")
    last = newest(alice, project, now=at(6))
    titles = set(Notification.objects.values_list("title", flat=True))
    assert titles == {
        f"train was cancelled for array {many.job_set_id}",
        f"Array {many.job_set_id} was cancelled for job {last.pk}: 0 of 2 tasks succeeded",
    }
    assert deliver(now=at(20)) == 2
    bodies = [json.loads(body) for _, _, body in receiver.got]
    assert {body["title"] for body in bodies} == titles
    assert {body["kind"] for body in bodies} == {"job_cancelled"}
    assert f"job:{first.pk}" in {body["subject"] for body in bodies}
    assert "alice" not in str(bodies).lower()


def test_a_template_locks_and_bounds_it(node, alice, lead, team, project):
    document = {"script": "true", "group": "eval", "group_policy": "stop"}
    rules = {"group": "locked", "group_policy": "stop, wait"}
    version = get_version(alice, make_template(lead, team, document=document, rules=rules))

    def from_it(**changes):
        sent = {"name": "a", **version.document, "project": project.path, **changes}
        return submit_from_template(actor=alice, version=version, spec=parse_spec(sent)).job

    first = from_it()
    assert (first.group_name, first.spec["group_policy"]) == ("eval", "stop")
    for wrong, field in (
        ({"group": "mine"}, "group"),
        ({"group_policy": "beside"}, "group_policy"),
    ):
        with pytest.raises(SpecInvalid) as refused:
            from_it(**wrong)
        assert [one.field for one in refused.value.problems] == [field]
    # Who is refused ends nobody.
    first.refresh_from_db()
    assert first.state == "queued"
    second = from_it(group_policy="wait")
    first.refresh_from_db()
    assert first.end_facts["newer_job"] == second.pk


def test_a_task_of_an_array_is_cloned_though_its_template_locks_the_group(
    node, alice, lead, team, project
):
    """The clone is one job, as the task is: as the newest of the group it would end its array."""
    document = {"script": "true", "group": "eval", "array": "0-2"}
    rules = {"group": "locked", "group_policy": "stop", "array": "locked"}
    version = get_version(
        alice, make_template(lead, team, document={**document, "group_policy": "stop"}, rules=rules)
    )
    sent = {"name": "a", **version.document, "project": project.path}
    first = submit_from_template(actor=alice, version=version, spec=parse_spec(sent)).job
    task = first.job_set.tasks.get(array_index=1)
    again = clone_document(alice, task)
    made = submit_again(actor=alice, job=task, spec=parse_spec(again)).job
    assert (made.group_name, made.job_set, made.cloned_from) == (None, None, task)
    assert set(first.job_set.tasks.values_list("state", flat=True)) == {"queued"}
    assert submit_again(actor=alice, job=made, spec=parse_spec(clone_document(alice, made))).is_new
    other = submit(alice, project)
    for job, wrong in ((task, {"group": "mine"}), (other, {})):
        with pytest.raises(SpecInvalid) as refused:
            spec = parse_spec({**again, **wrong})
            submit_from_template(actor=alice, version=version, spec=spec, cloned_from=job)
        assert "group" in {one.field for one in refused.value.problems}
