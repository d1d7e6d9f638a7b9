"""What stands in a job's way, the changes that help as buttons, and the jobs that replace it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.loop.answering import ask
from scheduler.models import Job
from scheduler.services.queues import pause_queue
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sites.licences import set_licence
from scheduler.states import CHECK_TITLES, JobState, WaitReason
from tests import scenes
from tests.composing import make_template
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    """Two nodes of two GPUs; one GPU is taken."""
    return build_yard(root, alice, project)


def answer(client, job) -> str:
    page = client.get(reverse("jobs:options", args=[job.pk]), {"part": "answer"})
    assert page.status_code == 200
    return page.content.decode()


def filled(form) -> dict[str, str]:
    """What a browser would send of it."""
    values = {bound.name: bound.value() for bound in form}
    return {name: value for name, value in values.items() if value not in (None, False)}


def test_every_title_is_there():
    assert set(CHECK_TITLES) == set(WaitReason)
    assert all(title and "_" not in title for title in CHECK_TITLES.values())


def test_the_page_asks_once_when_it_is_opened_and_says_what_a_held_job_waits_for(
    client, alice, yard
):
    client.force_login(alice)
    url = reverse("jobs:options", args=[yard.queued.pk])
    page = client.get(reverse("jobs:detail", args=[yard.queued.pk])).content.decode()
    assert f'id="job-options" hx-get="{url}?part=answer" hx-trigger="load"' in page
    live = client.get(reverse("jobs:detail", args=[yard.queued.pk]), {"part": "live"})
    assert url not in live.content.decode()
    # The page is of a job that waits otherwise, or no more.
    assert live.headers["HX-Refresh"] == "true"
    same = {"part": "live", "attempt": "", "waits": "queued"}
    again = client.get(reverse("jobs:detail", args=[yard.queued.pk]), same)
    assert "HX-Refresh" not in again.headers
    held = client.get(reverse("jobs:detail", args=[yard.held.pk])).content.decode()
    assert "job-options" not in held
    assert "The scheduler looks at it once it is released." in held


def _too_large(root, alice, project, pool) -> Job:
    job = scenes.submit(alice, project)
    Job.objects.filter(pk=job.pk).update(gpus_per_node=16)
    return job


def _behind_quota(root, alice, project, pool) -> Job:
    set_quota(actor=root, owner=project, maximum=2)
    return scenes.submit(alice, project, nodes=2)


def _in_a_closed_queue(root, alice, project, pool) -> Job:
    job = scenes.submit(alice, project)
    pause_queue(actor=root, queue=job.queue)
    return job


def _for_busy_gpus(root, alice, project, pool) -> Job:
    return scenes.submit(alice, project, nodes=2, gpus_per_node=2)


def _for_a_licence(root, alice, project, pool) -> Job:
    set_licence(actor=root, name="sim", total=1)
    for _ in range(2):
        job = scenes.submit(alice, project, gpus_per_node=1, licences={"sim": 1})
    return job


KINDS = {
    _too_large: (WaitReason.INFEASIBLE_EVER, "fault"),
    _behind_quota: (WaitReason.QUOTA_HARD, "wait"),
    _in_a_closed_queue: (WaitReason.POOL_CLOSED, "wait"),
    _for_busy_gpus: (WaitReason.CAPACITY_BUSY, "wait"),
    _for_a_licence: (WaitReason.LICENCE_WAIT, "wait"),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_panel_lists_every_check_as_the_engine_has_it(client, root, alice, project, yard, kind):
    """Each check once, in the engine's order, failed where it fails, with its need and have."""
    job = kind(root, alice, project, yard.cluster.pool)
    known = ask(job, now=timezone.now()).blocking.checks
    client.force_login(alice)
    rows = re.findall(r'<tr class="(\w+)" data-check="(\w+)">(.*?)</tr>', answer(client, job), re.S)
    assert [reason for _, reason, _ in rows] == [check.reason for check in known]
    for (css, _, row), check in zip(rows, known, strict=True):
        assert (css == "ok") == check.is_ok
        text = unescape(row)
        for words in (CHECK_TITLES[check.reason], check.need, check.have, check.sentence):
            assert words in text
    reason, css = KINDS[kind]
    assert (css, str(reason)) in [(css, reason) for css, reason, _ in rows]


def test_quota_is_asked_for_where_it_is_missing_and_others_are_not_told_who_holds(
    client, root, alice, carol, other_project, project, yard
):
    client.force_login(alice)
    job = _behind_quota(root, alice, project, yard.cluster.pool)
    ask_url = re.search(r'href="(/requests/new/[^"]*)"', answer(client, job))
    form = client.get(unescape(ask_url.group(1))).context["form"]
    assert (form["kind"].value(), form["owner"].value()) == ("maximum", project.path)
    foreign = scenes.submit(carol, other_project, nodes=2, gpus_per_node=2)
    client.force_login(carol)
    text = answer(client, foreign)
    assert "another team's: 1 GPU" in text
    assert f"#{yard.running.pk}" not in text


def test_a_clone_with_a_fix_replaces_the_job_by_one_press(client, alice, project, yard):
    client.force_login(alice)
    wide = scenes.submit(alice, project, gpus_per_node=2, nodes=2, name="wide")
    page = client.get(reverse("jobs:submit"), {"clone": wide.pk, "fix": "nodes:1"})
    assert page.context["form"]["nodes"].value() == "1"
    assert f"Cancel job #{wide.pk}" in page.content.decode()
    assert "nodes: 1 instead of 2" in page.content.decode()
    data = filled(page.context["form"])
    assert data["replaces"] is True
    made = [client.post(reverse("jobs:submit"), data) for _ in range(2)]
    assert {one.status_code for one in made} == {302}
    assert made[0].url == made[1].url
    new = Job.objects.latest("pk")
    assert (new.nodes, new.cloned_from_id, new.state) == (1, wide.pk, JobState.QUEUED)
    wide.refresh_from_db()
    assert wide.state == JobState.CANCELLED


def test_a_job_that_started_meanwhile_is_neither_stopped_nor_doubled(client, alice, project, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk, "fix": "limit:30m"})
    data = filled(page.context["form"])
    attempt = scenes.start(yard.queued, yard.cluster.node(2))
    before = Job.objects.count()
    refused = client.post(reverse("jobs:submit"), data)
    assert "does not wait any more" in refused.content.decode()
    assert "Cancel job #" not in refused.content.decode()
    assert Job.objects.count() == before
    attempt.refresh_from_db()
    assert attempt.stop_reason == ""
    del data["replaces"]
    assert client.post(reverse("jobs:submit"), data).status_code == 302
    assert Job.objects.count() == before + 1


def test_the_spec_that_is_refused_cancels_nothing(client, alice, project, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk, "fix": "limit:30m"})
    data = filled(page.context["form"]) | {"gpus_per_node": "60"}
    assert client.post(reverse("jobs:submit"), data).status_code == 200
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.QUEUED


def test_only_who_may_cancel_it_is_offered_to_replace_it(client, alice, bob, project, yard):
    client.force_login(bob)
    page = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk, "fix": "limit:30m"})
    assert "Cancel job #" not in page.content.decode()
    data = filled(page.context["form"])
    assert client.post(reverse("jobs:submit"), data).status_code == 200
    yard.queued.refresh_from_db()
    assert yard.queued.state == JobState.QUEUED


@pytest.mark.parametrize(
    "fix",
    [
        *("nodes:0", "nodes:two", "gpus:999", "limit:soon", "limit:" + "9" * 5000),
        *("model:Abacus", "pool:nowhere", "alone:yes", "sudo:1", ":", "\x00<b>:1"),
    ],
)
def test_a_fix_that_is_not_known_leaves_the_job_as_it_was(client, alice, project, yard, fix):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk, "fix": fix})
    assert page.status_code == 200
    assert "is left out" in page.content.decode()
    as_it_was = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk}).context["form"]
    fields = [name for name in as_it_was.fields if name != "nonce"]
    form = page.context["form"]
    assert [form[name].value() for name in fields] == [as_it_was[name].value() for name in fields]


def test_what_a_template_locks_is_not_fixed(client, root, alice, team, project, yard):
    slug = make_template(root, team, rules={"gpus_per_node": "locked"})
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"template": slug, "fix": "gpus:1"})
    assert "the template locks gpus_per_node" in page.content.decode()
    assert page.context["form"]["gpus_per_node"].value() == 2


def test_a_what_if_is_used_with_one_press(client, alice, project, yard):
    client.force_login(alice)
    start = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk}).context["form"]
    data = filled(start) | {"nodes": "2", "gpus_per_node": "2", "exclusive": "on"}
    asked = client.post(reverse("jobs:submit"), data | {"whatif": "1"}).content.decode()
    assert re.findall(r'name="use" value="([^"]*)"', asked)[:2] == ["gpus:1", "nodes:1"]
    before = Job.objects.count()
    page = client.post(reverse("jobs:submit"), data | {"use": "nodes:1"})
    form = page.context["form"]
    assert (form["nodes"].value(), form["gpus_per_node"].value()) == ("1", "2")
    assert form["exclusive"].value() is True
    assert page.context["spec"].nodes == 1
    assert Job.objects.count() == before
    odd = client.post(reverse("jobs:submit"), data | {"use": "nodes:many"})
    assert odd.context["form"]["nodes"].value() == "2"


def test_a_pause_says_whom_it_helps_before_it_is_confirmed(
    client, alice, bob, carol, project, yard
):
    client.force_login(alice)
    waiting = scenes.submit(alice, project, nodes=2, gpus_per_node=2)
    head = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert reverse("jobs:pause", args=[yard.running.pk]) not in head
    link = re.search(r'href="([^"]*pause=1)"', head).group(1)
    page = client.get(link).content.decode()
    sooner, _, button = page.partition("Pause job #")
    assert "Who starts sooner" in sooner and f"#{waiting.pk}" in sooner and button
    client.force_login(bob)
    other = client.get(link).content.decode()
    assert "Only its owner" in other and "Only a job that runs" not in other
    client.force_login(alice)
    client.post(re.search(r'action="([^"]*/pause/)"', page).group(1))
    yard.attempt.refresh_from_db()
    assert yard.attempt.stop_reason == "paused_by_user"
    idle = client.get(reverse("jobs:change", args=[yard.queued.pk]), {"pause": "1"})
    assert "Only a job that runs is paused" in idle.content.decode()
    client.force_login(carol)
    assert client.get(link).status_code == 404


def test_a_clone_shows_what_changed_to_who_may_read_both(
    client, alice, bob, project, finance, yard
):
    secret = {"HF_TOKEN": "hf_verysecret", "SEED": "1"}
    first = scenes.submit(alice, project, name="first", env=secret, labels={"exp": "<b>llm3</b>"})
    client.force_login(alice)
    form = client.get(reverse("jobs:submit"), {"clone": first.pk, "fix": "limit:30m"})
    data = filled(form.context["form"]) | {"env": "HF_TOKEN=hf_other\nSEED=2"}
    del data["replaces"]
    client.post(reverse("jobs:submit"), data)
    clone = Job.objects.latest("pk")
    url = reverse("jobs:spec", args=[clone.pk])
    mine = client.get(url).content.decode()
    assert '<span class="add">+ time_limit: 30m</span>' in mine
    assert "hf_verysecret" in mine
    client.force_login(bob)
    theirs = client.get(url).content.decode()
    assert '<span class="add">+ time_limit: 30m</span>' in theirs
    assert "SEED: &#x27;2&#x27;" in theirs
    assert "hf_" not in theirs
    client.force_login(finance)
    assert client.get(url).status_code == 403
    page = client.get(reverse("jobs:detail", args=[clone.pk])).content.decode()
    assert "llm3" not in page
    client.force_login(alice)
    page = client.get(reverse("jobs:detail", args=[clone.pk])).content.decode()
    assert "&lt;b&gt;llm3&lt;/b&gt;" in page
