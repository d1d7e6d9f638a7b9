"""A word for the owner of a job that somebody else ends, holds, pauses or releases."""

from __future__ import annotations

import pytest

from accounts.models import AuditEvent
from scheduler.models import Job, JobEvent, Notification
from scheduler.selectors.jobs import end_sentence_of, wait_sentence_of
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.changing.many import Act, act_on_jobs
from scheduler.services.errors import Forbidden, Invalid
from scheduler.services.holding.reasons import ReasonNeeded
from scheduler.services.jobs import cancel_job
from scheduler.services.secrets import set_secret
from scheduler.services.secrets.unsaid import unsaid
from scheduler.services.sets import cancel_set
from scheduler.states import EndReason
from tests import scenes
from tests.scenes import at, ended, running, start, submit, sync

pytestmark = pytest.mark.django_db
WHY = "makes room for the deadline"
ACTS = [cancel_job, hold_job, pause_job]


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, gpus=4)


@pytest.fixture
def job(cluster, alice, project):
    return submit(alice, project, name="train")


@pytest.fixture
def attempt(cluster, job):
    attempt = start(job, cluster.node(1))
    sync(cluster.node(1), running(attempt), now=at(1))
    job.refresh_from_db()
    return attempt


def stop(cluster, attempt, reason=EndReason.EXIT_CODE) -> Job:
    sync(cluster.node(1), ended(attempt, reason=reason, exit_code=143), now=at(9))
    return Job.objects.get(pk=attempt.job_id)


def told(person) -> list[tuple[str, str, str]]:
    rows = Notification.objects.filter(person=person).order_by("pk")
    return list(rows.values_list("kind", "title", "text"))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("said", ["", "   "])
def test_anothers_job_needs_a_word(act, said, job, lead, operator):
    for actor in (lead, operator):
        with pytest.raises(ReasonNeeded) as refused:
            act(actor=actor, job=job, reason=said)
        assert (refused.value.field, refused.value.code) == ("reason", "reason_needed")
        assert "one line of at most 200" in refused.value.detail
    job.refresh_from_db()
    assert (job.state, JobEvent.objects.filter(job=job).count()) == ("queued", 1)
    assert not Notification.objects.exists()


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("said", ["x" * 201, "two\nlines", "a bell\x07", "turned \u202e round"])
def test_what_is_no_line_of_text_is_no_reason(act, said, job, alice, lead):
    for actor in (alice, lead):
        with pytest.raises(Invalid) as refused:
            act(actor=actor, job=job, reason=said)
        assert refused.value.field == "reason"
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_stranger_is_refused_first(job, bob):
    with pytest.raises(Forbidden):
        cancel_job(actor=bob, job=job)


def test_ones_own_needs_none_and_keeps_one_that_is_given(cluster, job, alice, project):
    assert cancel_job(actor=alice, job=submit(alice, project)).state == "cancelled"
    job = cancel_job(actor=alice, job=job, reason="  a wrong flag  ")
    assert job.end_facts["because"] == "a wrong flag"
    assert end_sentence_of(job) == f"Cancelled by {alice.get_full_name()}: a wrong flag."
    assert told(alice) == []


def test_who_cancels_what_waits_is_read_by_whoever_reads_the_job(job, alice, lead):
    job = cancel_job(actor=lead, job=job, reason=WHY)
    sentence = f"Cancelled by {lead.get_full_name()}: {WHY}."
    assert end_sentence_of(job) == sentence
    assert JobEvent.objects.get(job=job, kind="cancelled").detail == {"because": WHY}
    assert told(alice) == [("job_cancelled", "train was cancelled", sentence)]
    event = AuditEvent.objects.get(action="job.cancelled")
    assert (event.reason, event.actor) == (WHY, lead)


def test_who_cancels_what_runs(cluster, job, attempt, alice, operator):
    cancel_job(actor=operator, job=job, reason="will it end?", now=at(5))
    assert AuditEvent.objects.get(action="job.stop_requested").reason == "will it end?"
    asked = JobEvent.objects.get(job=job, kind="stop_requested")
    assert asked.detail["because"] == "will it end?"
    job = stop(cluster, attempt)
    sentence = f"Cancelled by operator {operator.get_full_name()}: will it end?"
    assert end_sentence_of(job) == sentence
    assert told(alice) == [("job_cancelled", "train was cancelled", sentence)]


def test_who_holds_what_waits(job, alice, lead, operator):
    job = hold_job(actor=lead, job=job, reason=WHY)
    sentence = f"Held by {lead.get_full_name()}: {WHY}. Release it to let it start."
    assert wait_sentence_of(job) == sentence
    assert told(alice) == [("job_held", "train was held", sentence)]
    assert AuditEvent.objects.get(action="job.held").reason == WHY
    assert JobEvent.objects.get(job=job, kind="held").detail == {"because": WHY}
    job = hold_job(actor=operator, job=job, reason="new disks")
    sentence = f"Held by operator {operator.get_full_name()}: new disks. Ask them to release it."
    assert wait_sentence_of(job) == sentence
    assert told(alice)[1:] == [("job_held", "train was held", sentence)]
    assert hold_job(actor=operator, job=job).version == job.version, "nothing is done: no word"


def test_who_pauses_what_runs(cluster, job, attempt, alice, lead):
    pause_job(actor=lead, job=job, reason=WHY, now=at(5))
    assert told(alice) == []
    job = stop(cluster, attempt)
    assert (job.state, job.wait_reason) == ("held", "paused")
    by = f"Paused by {lead.get_full_name()}: {WHY}."
    assert wait_sentence_of(job).startswith(by) and end_sentence_of(job).startswith(by)
    [(kind, title, text)] = told(alice)
    assert (kind, title) == ("job_held", "train was paused") and text.startswith(by)


def test_an_operators_pause_says_why_and_whom_to_ask(cluster, job, attempt, operator):
    pause_job(actor=operator, job=job, reason=WHY, now=at(5))
    sentence = wait_sentence_of(stop(cluster, attempt))
    assert sentence.startswith(f"Held by operator {operator.get_full_name()}: {WHY}. It is paused.")
    assert sentence.endswith("Ask them to resume it.")


def test_ones_own_pause_is_no_news(cluster, job, attempt, alice):
    pause_job(actor=alice, job=job, reason="lunch", now=at(5))
    assert stop(cluster, attempt).state == "held"
    assert told(alice) == []


def test_the_word_goes_with_the_stop_that_holds(cluster, job, attempt, alice, lead):
    pause_job(actor=lead, job=job, reason=WHY, now=at(5))
    cancel_job(actor=alice, job=job, now=at(6))
    job = stop(cluster, attempt)
    assert end_sentence_of(job) == f"Cancelled by {alice.get_full_name()}."
    assert "because" not in job.end_facts


def test_what_its_owner_holds_is_released_with_a_word(job, alice, lead):
    hold_job(actor=alice, job=job)
    with pytest.raises(ReasonNeeded):
        release_job(actor=lead, job=job)
    job = release_job(actor=lead, job=job, reason=WHY)
    assert job.state == "queued"
    said = f"Released by {lead.get_full_name()}: {WHY}"
    assert told(alice) == [("job_held", "train was released", said)]
    assert AuditEvent.objects.get(action="job.released").reason == WHY
    assert JobEvent.objects.get(job=job, kind="released").detail["because"] == WHY


def test_what_another_holds_is_released_without(cluster, job, attempt, alice, lead, project):
    waits = hold_job(actor=lead, job=submit(alice, project), reason=WHY)
    assert release_job(actor=lead, job=waits).state == "queued"
    pause_job(actor=lead, job=job, reason=WHY, now=at(5))
    assert release_job(actor=lead, job=stop(cluster, attempt)).state == "queued"


def test_what_its_owner_paused_or_submitted_held_needs_a_word_too(
    cluster, job, attempt, alice, lead, project
):
    pause_job(actor=alice, job=job, now=at(5))
    for held in (stop(cluster, attempt), submit(alice, project, hold=True)):
        with pytest.raises(ReasonNeeded):
            release_job(actor=lead, job=held)


def test_braces_and_tags_are_text(job, lead):
    job = cancel_job(actor=lead, job=job, reason="{who} <b>")
    assert end_sentence_of(job).endswith(": {who} <b>.")


def test_secrets_of_the_job_are_masked_wherever_the_word_is_kept(
    cluster, alice, lead, project, root
):
    set_secret(actor=alice, name="hub-token", value="hf_qWeRtY123")
    set_secret(actor=lead, project=project, name="key", value="line-one-of-it\nline-two-of-it")
    # Not this job's: nobody learns by a mask what others keep.
    set_secret(actor=lead, project=project, name="other", value="not-of-this-job")
    env = {"WANDB_API_KEY": "w4nd8k3y", "MODE": "deadline", "PIN_SECRET": "room"}
    job = submit(alice, project, secrets=["hub-token", "key"], env=env)
    typed = "hf_qWeRtY123, line-two-of-it and w4nd8k3y are not-of-this-job, room for the deadline"
    kept = "***, *** and *** are not-of-this-job, room for the deadline"
    job = hold_job(actor=lead, job=job, reason=typed)
    assert job.wait_facts["because"] == kept
    assert JobEvent.objects.get(job=job, kind="held").detail == {"because": kept}
    assert AuditEvent.objects.get(action="job.held").reason == kept
    [(_, _, text)] = told(alice)
    assert kept in text and "hf_" not in text
    release_job(actor=lead, job=job)
    other = submit(alice, project)
    # With others at once, too, of which none names it.
    done = act_on_jobs(actor=lead, jobs=[other, job], act=Act.HOLD, reason=typed)
    assert {one.wait_facts["because"] for one in done.jobs} == {kept}


def test_of_an_array_they_are_masked_and_a_word_costs_what_one_costs(
    cluster, alice, lead, project, django_assert_max_num_queries
):
    set_secret(actor=alice, name="hub-token", value="hf_qWeRtY123")
    submit(alice, project, array="0-49", secrets=["hub-token"])
    tasks = Job.objects.order_by("pk")
    with django_assert_max_num_queries(2):
        assert unsaid("with hf_qWeRtY123", tasks) == "with ***"
    with django_assert_max_num_queries(0):
        assert unsaid("", tasks) == ""
    cancel_set(actor=lead, job_set=tasks[0].job_set, reason="with hf_qWeRtY123")
    assert {one.end_facts["because"] for one in tasks} == {"with ***"}
