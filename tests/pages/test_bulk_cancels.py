"""Cancels that take two people, as they are pressed: proposed, found, agreed to."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.models import BulkCancel, Job
from tests import scenes
from tests.pages.raw_words import raw_words
from tests.requesting import ask
from tests.scenes import submit
from tests.seconding import waiting_cancel

pytestmark = pytest.mark.django_db
WHY = "writes to the wrong bucket"


@pytest.fixture
def array(root, alice, project):
    scenes.build_cluster(root)
    return submit(alice, project, array="0-100").job_set


def signed_in(user) -> Client:
    client = Client()
    client.force_login(user)
    return client


def text(answer) -> str:
    return answer.content.decode()


def hidden(answer) -> dict[str, list[str]]:
    """What the page would send once more."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(
        r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', text(answer)
    ):
        if name != "csrfmiddlewaretoken":
            found.setdefault(name, []).append(value)
    return found


def test_an_array_from_its_page_to_the_second_persons_word(array, lead, operator):
    first, second = signed_in(lead), signed_in(operator)
    page = reverse("sets:detail", args=[array.pk])
    assert "Propose to cancel array" in text(first.get(page))
    cancel = reverse("sets:cancel", args=[array.pk])
    asks = first.post(cancel)
    assert "A second person has to agree" in text(asks) and "101 jobs of others" in text(asks)
    assert raw_words(text(asks)) == []
    again = first.post(cancel, {**hidden(asks), "reason": "  "})
    assert 'role="alert"' in text(again)
    assert not BulkCancel.objects.exists()
    made = first.post(cancel, {**hidden(asks), "reason": WHY})
    found = BulkCancel.objects.get()
    here = reverse("cancels:detail", args=[found.pk])
    assert made.url == here
    assert "Take it back" in text(first.get(here)) and "Agree:" not in text(first.get(here))
    for client in (first, second):
        assert here in text(client.get(page))
    inbox = text(second.get(reverse("approvals")))
    assert here in inbox and WHY in inbox and "Nothing waits" not in inbox
    assert "<b>1 proposal to cancel many jobs waits for you.</b>" in text(second.get("/"))
    assert "waits for you" not in text(first.get("/"))
    assert here not in text(first.get(reverse("approvals")))
    assert here in text(first.get(reverse("approvals") + "?state=all"))
    opened = text(second.get(here))
    assert "Agree: end 101 jobs" in opened and WHY in opened and raw_words(opened) == []
    decide = reverse("cancels:decide", args=[found.pk])
    done = second.post(decide, {"answer": "agree"}, follow=True)
    assert "Ended: 101 of 101 jobs" in text(done)
    assert array.tasks.filter(state="cancelled").count() == 101
    assert "Agree:" not in text(done) and here not in text(second.get(reverse("approvals")))
    assert here not in text(first.get(page))


def test_the_answer_stands_before_what_it_ends_and_says_what_that_is(array, lead, operator):
    first = signed_in(lead)
    first.post(reverse("sets:cancel", args=[array.pk]), {"reason": WHY, "propose": "1"})
    here = reverse("cancels:detail", args=[BulkCancel.objects.get().pk])
    runs = array.tasks.order_by("pk").first()
    Job.objects.filter(pk=runs.pk).update(state="running", nodes=2, gpus_per_node=4)
    Job.objects.filter(pk=array.tasks.order_by("pk").last().pk).update(state="failed")
    page = text(signed_in(operator).get(here))
    assert '100 jobs of <bdi class="name">alice</bdi>: 1 runs on 8 GPUs, 99 wait.' in page
    answer, jobs = page.index('id="decide"'), page.index("The jobs <")
    assert answer < jobs and "<details><summary>One by one" in page
    assert "<details open><summary>One by one" in text(signed_in(operator).get(here + "?page=2"))
    assert 'id="decide"' not in text(first.get(here))


def test_it_is_refused_with_a_reason_or_taken_back(array, lead, operator):
    first, second = signed_in(lead), signed_in(operator)
    cancel = reverse("sets:cancel", args=[array.pk])
    first.post(cancel, {"reason": WHY, "propose": "1"})
    found = BulkCancel.objects.get()
    decide = reverse("cancels:decide", args=[found.pk])
    unsaid = text(second.post(decide, {"answer": "refuse", "reason": " "}, follow=True))
    assert "Reason: Say why not, in at most" in unsaid and "Given:" not in unsaid
    odd = unescape(text(second.post(decide, {"answer": "x"}, follow=True)))
    assert "Answer: choose agree, refuse or withdraw. Given: 'x'." in odd
    done = second.post(decide, {"answer": "refuse", "reason": "They are needed."}, follow=True)
    assert "They are needed." in text(done)
    first.post(cancel, {"reason": WHY, "propose": "1"})
    later = reverse("cancels:decide", args=[BulkCancel.objects.first().pk])
    assert second.post(later, {"answer": "withdraw"}).status_code == 403
    assert "Taken back" in text(first.post(later, {"answer": "withdraw"}, follow=True))
    assert "It was withdrawn" in text(second.post(later, {"answer": "agree"}, follow=True))
    assert array.tasks.filter(state="queued").count() == 101


def test_marked_jobs_go_on_with_what_was_marked(root, alice, lead, operator, project):
    scenes.build_cluster(root)
    jobs = [str(submit(alice, project).pk) for _ in range(101)]
    client, marked = signed_in(lead), reverse("jobs:marked")
    sent = {"act": "cancel", "job": jobs, "query": "q=", "key": "k"}
    assert "Type <b>101</b>" in text(client.post(marked, sent))
    asks = client.post(marked, {**sent, "typed": "101"})
    assert "A second person has to agree" in text(asks)
    kept = hidden(asks)
    assert (kept["job"], kept["typed"], kept["act"]) == (jobs, ["101"], ["cancel"])
    made = client.post(marked, {**kept, "reason": WHY}, follow=True)
    assert "Proposed. Nothing has ended yet" in text(made)
    found = BulkCancel.objects.get()
    assert (found.named, found.reason) == (101, WHY)
    signed_in(operator).post(reverse("cancels:decide", args=[found.pk]), {"answer": "agree"})
    assert not project.jobs.exclude(state="cancelled").exists()


def test_strangers_find_nothing(array, lead, bob, carol):
    signed_in(lead).post(reverse("sets:cancel", args=[array.pk]), {"reason": WHY, "propose": "1"})
    found = BulkCancel.objects.get()
    for one in (bob, carol):
        client = signed_in(one)
        assert client.get(reverse("cancels:detail", args=[found.pk])).status_code == 404
        answer = client.post(reverse("cancels:decide", args=[found.pk]), {"answer": "agree"})
        assert answer.status_code == 404
    page = reverse("sets:detail", args=[array.pk])
    assert reverse("cancels:detail", args=[found.pk]) not in text(signed_in(bob).get(page))


def test_a_hundred_need_a_word_for_their_owner_alone(root, alice, lead, project):
    scenes.build_cluster(root)
    hundred = submit(alice, project, array="0-99").job_set
    client = signed_in(lead)
    assert "Propose" not in text(client.get(reverse("sets:detail", args=[hundred.pk])))
    sent = {"reason": WHY}
    done = client.post(reverse("sets:cancel", args=[hundred.pk]), sent, follow=True)
    assert "100 tasks are cancelled" in text(done)


def test_somebody_who_leaves_with_many_jobs(array, root, operator, alice):
    client, page = signed_in(root), reverse("users:detail", args=["alice"])
    assert "need a second person" in text(client.get(page))
    out = reverse("users:out", args=["alice"])
    went = client.post(out, {"jobs": "cancel", "reason": "left"}, follow=True)
    assert "101 jobs go on until a second person agrees" in text(went)
    found = BulkCancel.objects.get()
    assert reverse("cancels:detail", args=[found.pk]) in text(client.get(page))
    opened = text(signed_in(operator).get(reverse("cancels:detail", args=[found.pk])))
    assert "Cancel 101 jobs of alice" in opened


def test_home_and_the_rail_count_requests_and_cancels_that_wait(array, alice, lead, project, root):
    waiting_cancel(array)
    for model in (scenes.MODEL, ""):
        ask(alice, project, gpu_model=model, now=timezone.now())
    home = text(signed_in(lead).get("/"))
    assert "<b>2 requests and 1 proposal to cancel many jobs wait for you.</b>" in home
    assert '<span class="n hot">3<span class="vh"> waiting</span></span>' in home
