"""Which code a job ran, and a clone of it at just that."""

from __future__ import annotations

import pytest
from django.urls import reverse

from scheduler.models import Job
from tests import scenes
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db

COMMIT = "c0ffee" * 6 + "c0ff"
OF_GIT = {"git_url": "https://code.example/train.git", "git_ref": "main"}


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.fixture
def ran(yard, alice, project):
    """A job that has told its commit, which is taken from it."""

    def made(**code):
        fields = {"script": "", "command": ["./train"], "code": code or OF_GIT}
        job = scenes.submit(alice, project, **fields)
        node = yard.cluster.node(2)
        attempt = scenes.start(job, node)
        scenes.sync(node, scenes.running(attempt, code_commit=COMMIT))
        return job

    return made


def page_of(client, job):
    return client.get(reverse("jobs:detail", args=[job.pk])).content.decode()


def test_a_job_is_cloned_at_the_commit_that_it_ran(client, alice, ran):
    job = ran()
    client.force_login(alice)
    url = f"{reverse('jobs:submit')}?clone={job.pk}&fix=ref:{COMMIT}"
    assert url.replace("&", "&amp;") in page_of(client, job)
    page = client.get(url)
    form = page.context["form"]
    assert (form["git_ref"].value(), form["git_url"].value()) == (COMMIT, OF_GIT["git_url"])
    assert form["replaces"].value() is False, "it is wanted beside the job, not in its place"
    assert f"commit {COMMIT} instead of main" in page.content.decode()
    values = {bound.name: bound.value() for bound in form}
    data = {name: value for name, value in values.items() if value not in (None, False)}
    assert client.post(reverse("jobs:submit"), data).status_code == 302
    new = Job.objects.latest("pk")
    assert (new.cloned_from_id, new.spec["code"]["git_ref"]) == (job.pk, COMMIT)


def test_a_folder_offers_no_such_clone(client, alice, ran):
    words = "Clone at this commit"
    job = ran(folder="/srv/train")
    client.force_login(alice)
    assert COMMIT[:12] in page_of(client, job) and words not in page_of(client, job)


@pytest.mark.parametrize("fix", ["ref:", "ref:--upload-pack=x", "ref:a..b"])
def test_an_odd_ref_is_left_out(client, alice, ran, fix):
    job = ran()
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": job.pk, "fix": fix})
    assert "is left out" in page.content.decode()
    assert page.context["form"]["git_ref"].value() == "main"


def test_a_ref_is_for_code_that_git_fetches(client, alice, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": yard.queued.pk, "fix": f"ref:{COMMIT}"})
    assert "ref is a branch, tag or commit of code that git fetches" in page.content.decode()
    assert page.context["form"]["git_ref"].value() == ""


PATCH = "diff --git a/train.py\n-first\n+<script>alert(1)</script>\n"


@pytest.fixture
def changed(yard, alice, project):
    """A job whose folder differed from its commit."""
    job = scenes.submit(
        alice, project, script="", command=["./train"], code={"folder": "/srv"}, retries=1
    )
    node = yard.cluster.node(2)
    attempt = scenes.start(job, node)
    scenes.sync(node, scenes.running(attempt, code_commit=COMMIT, code_patch=PATCH))
    return job


def test_local_changes_are_linked_and_read_as_text(client, alice, bob, changed):
    url = reverse("jobs:patch", args=[changed.pk, 1])
    for person in (alice, bob):
        client.force_login(person)
        assert f'<a href="{url}"' in page_of(client, changed)
        patch = client.get(url)
        assert patch.content.decode() == PATCH
        assert patch["Content-Type"] == "text/plain; charset=utf-8"
        assert patch["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in patch["Content-Security-Policy"]
        assert patch["X-Code-Commit"] == COMMIT
        api = client.get(f"/api/v1/jobs/{changed.pk}/attempts/1/patch/")
        assert (api.status_code, api.content.decode()) == (200, PATCH)
        [attempt] = client.get(f"/api/v1/jobs/{changed.pk}/attempts/").json()["items"]
        assert (attempt["code_commit"], attempt["has_patch"]) == (COMMIT, True)
    for number in (2, 2**70):
        assert client.get(reverse("jobs:patch", args=[changed.pk, number])).status_code == 404


def test_who_may_not_read_inside_finds_no_local_changes(client, finance, operator, carol, changed):
    url = reverse("jobs:patch", args=[changed.pk, 1])
    for person in (finance, operator, carol):
        client.force_login(person)
        assert client.get(url).status_code == 404
        assert client.get(f"/api/v1/jobs/{changed.pk}/attempts/1/patch/").status_code == 404
    client.force_login(finance)
    text = page_of(client, changed)
    assert "with local changes" in text and url not in text


def test_an_attempt_without_local_changes_has_an_empty_patch(client, alice, ran):
    job = ran()
    client.force_login(alice)
    reply = client.get(f"/api/v1/jobs/{job.pk}/attempts/1/patch/")
    assert (reply.status_code, reply.content, reply["X-Code-Commit"]) == (200, b"", COMMIT)
    [attempt] = client.get(f"/api/v1/jobs/{job.pk}/attempts/").json()["items"]
    assert attempt["has_patch"] is False
