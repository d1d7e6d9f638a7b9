"""Sessions in the composer: one form, whatever begins from it, and wherever it came from."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from accounts.services import create_project, create_team
from scheduler.models import Job, JobDraft, Session, SubmitKey
from scheduler.services.composing.drafts import save_draft
from scheduler.services.jobs import prune_submit_keys
from tests.composing import make_template
from tests.pages.test_compose import form_data
from tests.pages.yard import build_yard
from tests.scenes import submit

pytestmark = pytest.mark.django_db

COMPOSER = "/jobs/new/"
NEW = "/sessions/new/"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def session_data(project, app="shell", /, **more):
    fields = {"name": "", "command": "", "session_app": app, "session_idle": "20m"}
    return form_data(project, **{**fields, **more})


def shown(page):
    """What the fields hold that say what kind of job it is."""
    form = page.context["form"]
    return {name: form[name].value() for name in ("session_app", "session_idle", "command")}


@pytest.mark.parametrize(
    ("app", "command", "kept"),
    [
        ("shell", "", []),
        ("jupyter", "", []),
        ("vscode", "", []),
        ("tensorboard", "", []),
        ("command", "python serve.py", ["python", "serve.py"]),
    ],
)
def test_a_session_is_started_once_however_often_it_is_pressed(
    client, alice, project, yard, app, command, kept
):
    client.force_login(alice)
    before = Job.objects.count()
    data = session_data(project, app, command=command)
    pages = [client.post(COMPOSER, data) for _ in range(2)]
    assert Job.objects.count() == before + 1
    job = Job.objects.latest("pk")
    assert [page.url for page in pages] == [reverse("sessions:detail", args=[job.pk])] * 2
    assert (job.name, job.spec["command"]) == (app, kept)
    session = Session.objects.get(job=job)
    assert (session.app, session.idle_stop_s) == (app, 1200)


def test_a_job_is_no_session_whatever_the_idle_time_says(client, alice, project, yard):
    client.force_login(alice)
    page = client.post(COMPOSER, form_data(project, session_app="", session_idle="soon"))
    job = Job.objects.latest("pk")
    assert page.url == reverse("jobs:detail", args=[job.pk])
    assert job.spec["session"] is None and not Session.objects.filter(job=job).exists()


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"command": "python train.py"}, "command", "starts its own program"),
        ({"script": "#!/bin/sh\ntrue"}, "command", "starts its own program"),
        ({"session_idle": "1s"}, "session_idle", "at least 10"),
        ({"session_idle": "soon"}, "session_idle", "not a duration"),
        ({"session_idle": "5d"}, "session_idle", "idle for"),
        ({"session_app": "vnc"}, "session_app", "not one of the available"),
        ({"session_app": "command"}, "command", "Give a command"),
        ({"nodes": "2"}, "nodes", "one program on one node"),
        ({"array_range": "0-3"}, "array_range", "one program on one node"),
        ({"retries": "1"}, "retries", "one program on one node"),
    ],
)
def test_what_is_wrong_is_named_at_its_field(client, alice, project, yard, fields, field, words):
    client.force_login(alice)
    before = Job.objects.count()
    page = client.post(COMPOSER, session_data(project, **fields))
    assert page.status_code == 200
    assert words in str(page.context["form"].errors.get(field, page.context["form"].errors))
    assert Job.objects.count() == before


def test_its_address_opens_the_form_as_a_session(client, alice, carol, project, yard):
    client.force_login(alice)
    page = client.get(NEW)
    assert shown(page) == {"session_app": "shell", "session_idle": "30m", "command": ""}
    assert "<title>New session" in page.content.decode()
    # What it begins with is a session as it is.
    form = page.context["form"]
    sent = {one.html_name: one.value() for one in form if one.value() not in (None, False)}
    client.post(COMPOSER, sent)
    job = Job.objects.latest("pk")
    assert (job.name, job.cpus, job.time_limit_s) == ("shell", 2, 7200)
    # Who has no form, whose choice it would follow, is told one of both.
    client.force_login(carol)
    assert "<h1>New session</h1>" in client.get(NEW).content.decode()


def test_the_summary_says_what_a_session_costs_and_how_else_to_start_it(
    client, alice, project, yard
):
    client.force_login(alice)
    before = Job.objects.count()
    data = session_data(project, gpus_per_node="2", time_limit="2h")
    text = client.post(COMPOSER + "?part=summary", data).content.decode()
    assert "14.40 EUR" in text  # 2 GPUs x 2 h x 3.60
    assert "A session: a shell in the browser." in text
    assert "trainyard session start shell" in text and "--idle-stop 20m" in text
    assert "app: shell" in text
    assert "4 GPUs per node" in client.post(COMPOSER, data | {"whatif": "1"}).content.decode()
    assert Job.objects.count() == before
    # It was kept as it was typed, and is gone on with as a session.
    draft = JobDraft.objects.get(owner=alice)
    assert shown(client.get(COMPOSER, {"draft": draft.pk}))["session_app"] == "shell"


@pytest.mark.parametrize("place", [("jobs:submit", "clone"), ("sessions:new", "again")])
@pytest.mark.parametrize("app", ["shell", "jupyter", "vscode", "tensorboard", "command"])
def test_a_clone_of_a_session_is_a_session(client, alice, project, yard, place, app):
    command = ["python", "serve.py"] if app == "command" else []
    fields = {"script": "", "command": command, "session": {"app": app, "idle_stop": "40m"}}
    job = submit(alice, project, name="lab", time_limit="3h", **fields)
    client.force_login(alice)
    page = client.get(reverse(place[0]), {place[1]: job.pk})
    assert shown(page) == {
        "session_app": app, "session_idle": "40m", "command": " ".join(command)
    }  # fmt: skip
    form = page.context["form"]
    assert (form["name"].value(), form["time_limit"].value()) == ("lab", "3h")
    sent = {one.html_name: one.value() for one in form if one.value() not in (None, False)}
    assert client.post(COMPOSER, sent).status_code == 302
    clone = Job.objects.latest("pk")
    assert clone.cloned_from == job and clone.spec["session"] == job.spec["session"]


@pytest.mark.parametrize("again", ["abc", "0", "9" * 30, "-1", "{batch}", "{hers}"])
def test_again_of_what_is_no_session_is_a_new_one_with_a_word(
    client, alice, carol, project, other_project, yard, again
):
    hers = submit(carol, other_project, script="", session="shell")
    client.force_login(alice)
    page = client.get(NEW, {"again": again.format(batch=yard.queued.pk, hers=hers.pk)})
    assert page.status_code == 200
    assert "There is no such session" in page.content.decode()
    assert shown(page)["session_app"] == "shell"


@pytest.mark.parametrize(
    ("text", "app", "idle"),
    [
        ("session: shell", "shell", "30m"),
        ("session: {app: jupyter, idle_stop: 1h}", "jupyter", "1h"),
        ("session: {app: command}\ncommand: [python, serve.py]", "command", "30m"),
    ],
)
def test_a_pasted_session_fills_the_form_without_a_remark(
    client, alice, project, yard, text, app, idle
):
    client.force_login(alice)
    page = client.post(reverse("jobs:start"), {"text": f"name: lab\n{text}\n"})
    assert (shown(page)["session_app"], shown(page)["session_idle"]) == (app, idle)
    assert page.context["started"].remarks == ()


def test_a_pasted_session_with_a_program_too_many_says_what_is_left_out(
    client, alice, project, yard
):
    client.force_login(alice)
    text = "name: lab\nsession: jupyter\ncommand: python train.py\n"
    page = client.post(reverse("jobs:start"), {"text": text})
    assert shown(page)["session_app"] == "jupyter"
    [remark] = page.context["started"].remarks
    assert (remark.option, remark.became) == ("command", "lost")
    assert "starts its own program" in remark.words


def test_a_template_can_be_a_session_and_lock_it(client, alice, lead, team, project, yard):
    document = {"session": {"app": "jupyter", "idle_stop": "1h"}, "gpus_per_node": 1}
    slug = make_template(lead, team, document=document, rules={"session": "locked"})
    client.force_login(alice)
    page = client.get(COMPOSER, {"template": slug})
    assert (shown(page)["session_app"], shown(page)["session_idle"]) == ("jupyter", "1h")
    assert page.context["form"].fields["session_app"].disabled
    reference = page.context["version"].reference
    # Another kind that is sent all the same does not count.
    sent = session_data(project, "shell", name="lab", template=reference)
    assert client.post(COMPOSER, sent).status_code == 302
    assert Job.objects.latest("pk").spec["session"] == {"app": "jupyter", "idle_stop": 3600}
    client.force_login(lead)
    page = client.post(reverse("templates:new"), session_data(project, name="Lab"))
    assert "app: shell" in page.context["form"]["spec"].value()


@pytest.mark.parametrize("address", [NEW, COMPOSER])
def test_a_form_that_somebody_only_went_through_is_no_draft(client, alice, project, yard, address):
    client.force_login(alice)
    form = client.get(address).context["form"]
    seen = {bound.name: bound.value() for bound in form if bound.value() not in (None, False)}
    client.post(f"{COMPOSER}?part=summary", seen)
    assert not JobDraft.objects.exists()
    client.post(f"{COMPOSER}?part=summary", seen | {"memory": "9GiB"})
    assert JobDraft.objects.count() == 1


def test_a_draft_that_comes_late_does_not_outlive_its_job(client, alice, project, yard):
    client.force_login(alice)
    data = form_data(project, name="half")
    assert client.post(COMPOSER, data).status_code == 302
    assert client.post(f"{COMPOSER}?part=summary", data).status_code == 200
    assert not JobDraft.objects.exists()
    # Who comes back to the form later and goes on with it is not robbed of that.
    SubmitKey.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    client.post(f"{COMPOSER}?part=summary", data | {"name": "more"})
    assert JobDraft.objects.get().name == "more"


def test_a_form_sent_again_days_later_yields_the_same_job(client, alice, project, yard):
    """A program's key is forgotten after a day, a form's only when no tab is open any more."""
    client.force_login(alice)
    first, now = client.post(COMPOSER, form_data(project)), timezone.now()
    job = Job.objects.latest("pk")
    SubmitKey.objects.create(user=alice, key="build-1", job=job, created_at=now)
    assert prune_submit_keys(now=now + timedelta(days=29)) == 1
    SubmitKey.objects.update(created_at=now - timedelta(days=29))
    assert client.post(COMPOSER, form_data(project)).url == first.url
    assert Job.objects.latest("pk") == job
    assert prune_submit_keys(now=now + timedelta(days=2)) == 1


def test_a_template_begins_with_a_project_of_its_team(client, root, lead, team, project, yard):
    """Where the viewer has one, unless the address names another."""
    first = create_project(actor=root, team=create_team(actor=root, name="Audio"), name="ASR")
    slug = make_template(lead, team)
    client.force_login(root)
    begun = client.get(COMPOSER, {"template": slug}).context["form"]
    assert client.get(COMPOSER).context["form"]["project"].value() == first.path
    assert begun["project"].value() == project.path
    named = client.get(COMPOSER, {"template": slug, "project": first.path}).context["form"]
    assert named["project"].value() == first.path


def test_a_file_that_is_too_large_is_refused_and_not_cut(client, alice, project, yard):
    client.force_login(alice)
    script = "#!/bin/bash\n#SBATCH -J cut\n" + "# \u00e4\u00e4\u00e4\n" * 35_000 + "python end.py\n"
    assert len(script) < 256 * 1024 < len(script.encode())
    file = SimpleUploadedFile("x.sh", script.encode())
    page = client.post(reverse("jobs:start"), {"file": file})
    assert page.templates[0].name == "composing/start.html"
    assert "is larger than 256 KiB" in page.content.decode()


@pytest.mark.parametrize("wanted", ["abc", " 12", "-1", "1" * 25])
def test_what_a_form_calls_its_origin_is_no_address(client, alice, project, yard, wanted):
    client.force_login(alice)
    url, form = reverse("jobs:submit"), form_data(project, cloned_from=wanted)
    assert client.post(url, form | {"check": "1"}).status_code < 500
    assert client.post(f"{url}?part=summary", form).status_code == 200
    page = client.get(url, {"draft": JobDraft.objects.get().pk})
    assert page.status_code == 200 and "Cloned from" not in page.content.decode()


@pytest.mark.parametrize("app", ["jupyter", "shell"])
def test_without_a_name_it_is_called_after_what_it_is(client, alice, project, yard, app):
    """Whichever kind was chosen after the form had come."""
    client.force_login(alice)
    form = client.get(reverse("sessions:new")).context["form"]
    assert not form["name"].value()
    client.post(COMPOSER, session_data(project, app, name=""))
    assert Job.objects.latest("pk").name == app


def test_drafts_are_turned_in_leaves(client, alice, project):
    for number in range(13):
        save_draft(actor=alice, key=f"k{number}", fields={"name": f"draft-{number}"})
    client.force_login(alice)
    first, second = (client.get(reverse("jobs:start"), {"page": n}) for n in (1, 2))
    assert [len(list(page.context["drafts"])) for page in (first, second)] == [12, 1]
    assert 'Drafts <span class="n">13</span>' in second.content.decode()
    assert "1 to 12 of 13" in first.content.decode()
