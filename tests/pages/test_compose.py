"""The composer: one press one job, every wrong value named at its field."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from scheduler.models import Job, JobDraft
from tests.composing import SPEC, make_template
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def form_data(project, /, **more):
    return {
        "name": "digits",
        "project": project.path,
        "command": "python train.py",
        "nodes": "1",
        "gpus_per_node": "1",
        "cpus": "1",
        "memory": "2GiB",
        "time_limit": "1h",
        "tier": "normal",
        "processes": "node",
        "signal": "SIGTERM",
        "grace": "30s",
        "pool": "default",
        "nonce": "n-1",
        **more,
    }


def test_submit_yields_one_job_however_often_it_is_pressed(client, alice, project, yard):
    client.force_login(alice)
    before = Job.objects.count()
    pages = [client.post(reverse("jobs:submit"), form_data(project)) for _ in range(2)]
    assert [page.status_code for page in pages] == [302, 302]
    assert pages[0].url == pages[1].url
    assert Job.objects.count() == before + 1
    job = Job.objects.latest("pk")
    assert (job.name, job.owner, job.spec["command"]) == ("digits", alice, ["python", "train.py"])


def test_a_form_sent_again_with_changes_asks_before_a_second_job(client, alice, project, yard):
    client.force_login(alice)
    client.post(reverse("jobs:submit"), form_data(project))
    before = Job.objects.count()
    page = client.post(reverse("jobs:submit"), form_data(project, name="other"))
    assert page.status_code == 200
    assert "Press Submit again" in page.content.decode()
    assert page.context["form"]["nonce"].value() != "n-1"
    assert Job.objects.count() == before


def test_check_shows_the_quote_and_writes_nothing(client, alice, project, yard):
    client.force_login(alice)
    before = Job.objects.count()
    data = form_data(project, gpus_per_node="2", time_limit="2h", retries="1")
    text = client.post(reverse("jobs:submit") + "?part=summary", data).content.decode()
    assert "<html" not in text
    assert "14.40 EUR" in text  # 2 GPUs x 2 h x 3.60
    assert "of one attempt; each retry may cost as much again." in text
    assert "trainyard submit" in text
    plain = client.post(reverse("jobs:submit"), data | {"check": "1"})
    assert "14.40 EUR" in plain.content.decode()
    assert Job.objects.count() == before


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "", "required"),
        ("name", "   ", "required"),
        ("name", "x" * 256, "longer than 128"),
        ("name", "a\x00b", "Null characters"),
        ("name", "e" + "\u0301" * 20, "combining marks"),
        ("nodes", "1.5", "whole number"),
        ("nodes", "0", "at least 1"),
        ("nodes", "-1", "at least 1"),
        ("nodes", "2147483648", "at most"),
        ("nodes", "1_000", "whole number"),
        ("nodes", "NaN", "whole number"),
        ("nodes", "\uff11", "whole number"),
        ("gpus_per_node", "64", "largest node"),
        ("time_limit", "0", "at least 1"),
        ("time_limit", "100000d", "at most"),
        ("time_limit", "P1Y", "not a duration"),
        ("time_limit", "-5", "not a duration"),
        ("memory", "lots", "not a size"),
        ("grace", "1h", "at most 10m, not '1h'"),
        ("env", "NOVALUE", "Line 1"),
        ("env", "RANK=1", "set by Trainyard"),
        ("git_url", "http://host/repo", "https"),
        ("working_dir", "../up", "absolute path"),
        ("project", "speech/asr", "There is no speech/asr for you"),
        ("pool", "gpu", "There is no gpu for you; choose another"),
        ("nodes", "7", "with 1 such GPU; ask for fewer nodes"),
    ],
)
def test_bad_values_are_named_at_their_field(
    client, alice, project, other_project, yard, field, value, words
):
    client.force_login(alice)
    before = Job.objects.count()
    page = client.post(reverse("jobs:submit"), form_data(project, **{field: value}))
    assert page.status_code == 200
    assert field in page.context["form"].errors, page.context["form"].errors
    assert words.lower() in " ".join(page.context["form"].errors[field]).lower()
    assert Job.objects.count() == before


def test_bytes_that_are_no_text_are_not_stored(client, alice, project, yard):
    client.force_login(alice)
    body = urlencode(form_data(project, name="NAME")).replace("NAME", "a%ED%A0%80%FFb")
    client.post(reverse("jobs:submit"), body, content_type="application/x-www-form-urlencoded")
    name = Job.objects.latest("pk").name
    assert name.encode() and "\ud800" not in name


def test_clone_prefills_and_remembers_its_origin(client, alice, project, yard):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": yard.succeeded.pk})
    form = page.context["form"]
    assert form["script"].value() == "echo hi"
    data = {bound.name: bound.value() for bound in form if bound.value() not in (None, False)}
    made = client.post(reverse("jobs:submit"), data)
    assert made.status_code == 302, made.context["form"].errors
    assert Job.objects.latest("pk").cloned_from_id == yard.succeeded.pk


@pytest.mark.parametrize("wanted", ["999999", "abc", "9" * 40, "-1"])
def test_clone_of_nothing_is_an_empty_form_with_a_word(client, alice, project, yard, wanted):
    client.force_login(alice)
    page = client.get(reverse("jobs:submit"), {"clone": wanted})
    assert page.status_code == 200
    assert "no such job to clone" in page.content.decode()


def test_stranger_cannot_clone(client, carol, other_project, yard):
    client.force_login(carol)
    page = client.get(reverse("jobs:submit"), {"clone": yard.running.pk})
    assert "no such job to clone" in page.content.decode()
    assert "echo hi" not in page.content.decode()


def test_the_sample_is_ready_to_submit(client, alice, project, yard):
    client.force_login(alice)
    form = client.get(reverse("jobs:submit"), {"from": "sample"}).context["form"]
    data = {bound.name: bound.value() for bound in form if bound.value() not in (None, False)}
    made = client.post(reverse("jobs:submit"), data)
    assert made.status_code == 302, made.context["form"].errors


SCRIPT = "#!/bin/bash\n#SBATCH -J pasted\n#SBATCH --gres=gpu:2\n#SBATCH -w n7\npython a.py\n"


@pytest.mark.parametrize("as_file", [True, False])
def test_a_script_for_sbatch_fills_the_form_and_names_what_is_lost(
    client, alice, project, yard, as_file
):
    client.force_login(alice)
    sent = {"file": SimpleUploadedFile("x.sh", SCRIPT.encode())} if as_file else {"text": SCRIPT}
    page = client.post(reverse("jobs:start"), sent)
    form, text = page.context["form"], page.content.decode()
    assert (form["name"].value(), form["gpus_per_node"].value()) == ("pasted", 2)
    assert form["project"].value() == project.path
    assert "-w n7" in text and "no node can be asked for by name" in text
    data = {bound.name: bound.value() for bound in form if bound.value() not in (None, False)}
    made = client.post(reverse("jobs:submit"), data)
    assert made.status_code == 302, made.context["form"].errors
    assert Job.objects.latest("pk").spec["script"] == "#!/bin/bash\npython a.py\n"


def test_a_document_keeps_what_is_right_and_shows_what_is_wrong(client, alice, project, yard):
    client.force_login(alice)
    text = "name: x\ncommand: python a.py\nmemory: lots\nenv: [1]\nnonsense: 1\nretries: 2\n"
    page = client.post(reverse("jobs:start"), {"text": text})
    form = page.context["form"]
    assert (form["memory"].value(), form["retries"].value()) == ("lots", 2)
    assert {one.option for one in page.context["started"].remarks} == {"memory", "env", "nonsense"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("[1]", "must name fields with their values"),
        ("a: [", "line 1"),
        ("x" * 300_000, "256 KiB"),
    ],
)
def test_a_text_that_is_no_job_stays_where_it_was(client, alice, project, yard, text, words):
    client.force_login(alice)
    page = client.post(reverse("jobs:start"), {"text": text})
    assert page.status_code == 200 and words in page.content.decode()


def test_a_template_holds_its_fields_on_the_page_whatever_is_sent(
    client, alice, lead, team, project, yard
):
    slug = make_template(lead, team)
    client.force_login(alice)
    form = client.get(reverse("jobs:submit"), {"template": slug}).context["form"]
    assert (form["script"].value(), form["gpus_per_node"].value()) == (SPEC["script"], 2)
    assert form.fields["script"].disabled and not form.fields["env"].disabled
    data = {bound.name: bound.value() for bound in form if bound.value() not in (None, False)}
    data |= {"script": "evil", "tier": "production", "gpus_per_node": "8"}
    page = client.post(reverse("jobs:submit"), data)
    assert "1..4" in str(page.context["form"].errors["gpus_per_node"])
    made = client.post(reverse("jobs:submit"), data | {"gpus_per_node": "1"})
    assert made.status_code == 302, made.context["form"].errors
    job = Job.objects.latest("pk")
    assert (job.spec["script"], job.spec["tier"]) == (SPEC["script"], "normal")
    assert job.template_use.version.reference == f"{slug}@1"
    clone = client.get(reverse("jobs:submit"), {"clone": job.pk}).context["form"]
    assert clone["template"].value() == f"{slug}@1" and clone.fields["tier"].disabled


def test_a_template_that_is_not_for_one_is_none(client, carol, lead, team, other_project, yard):
    slug = make_template(lead, team)
    client.force_login(carol)
    page = client.get(reverse("jobs:submit"), {"template": slug})
    assert "no such template" in page.content.decode()
    before = Job.objects.count()
    page = client.post(reverse("jobs:submit"), form_data(other_project, template=f"{slug}@1"))
    assert page.status_code == 200 and "no such template" in page.content.decode()
    assert Job.objects.count() == before


def test_a_lead_keeps_the_form_as_a_template(client, lead, project, yard):
    client.force_login(lead)
    form = client.post(reverse("templates:new"), form_data(project, retries="3")).context["form"]
    text = form["spec"].value()
    assert "retries: 3" in text and "command:" in text and form["name"].value() == "digits"
    sent = {"name": "Digits", "team": "vision", "spec": text, "rules": "retries: 0..3"}
    made = client.post(reverse("templates:new"), sent)
    assert made.status_code == 302, made.context["form"].errors
    page = client.get(made.url).content.decode()
    assert "retries: 3" in page and "0 to 3" in page
    refused = client.post(reverse("templates:new"), sent | {"rules": "retries: often"})
    assert "whole number" in str(refused.context["form"].errors["rules"])


def test_what_if_quotes_changes_without_submitting(client, alice, project, yard):
    client.force_login(alice)
    before = Job.objects.count()
    data = form_data(project, gpus_per_node="2", time_limit="4h", whatif="1")
    page = client.post(reverse("jobs:submit"), data)
    found = {one.words: one for one in page.context["alternatives"]}
    assert {"1 GPU per node", "4 GPUs per node", "at most 2 h"} <= set(found)
    whole = page.context["quote"].worst_case_cost
    for words in ("1 GPU per node", "at most 2 h"):
        assert found[words].quote.worst_case_cost == whole / 2
    assert "What if" in page.content.decode() and Job.objects.count() == before


def test_what_is_typed_is_kept_until_it_is_sent(client, alice, bob, project, yard):
    client.force_login(alice)
    url = reverse("jobs:submit")
    client.post(f"{url}?part=summary", form_data(project, name="half", cpus="", memory="4GiB"))
    [draft] = JobDraft.objects.all()
    for page in (client.get(reverse("home")), client.get(url), client.get(reverse("jobs:start"))):
        assert f"{url}?draft={draft.pk}" in page.content.decode()
    form = client.get(url, {"draft": draft.pk}).context["form"]
    kept = [form[name].value() for name in ("name", "cpus", "memory", "nonce")]
    assert kept == ["half", "", "4GiB", "n-1"]
    client.post(f"{url}?part=summary", form_data(project, nonce="n-2", quiet="1"))
    assert JobDraft.objects.count() == 1
    client.force_login(bob)
    assert "no such draft" in client.get(url, {"draft": draft.pk}).content.decode()
    assert client.post(reverse("jobs:draft_drop", args=[draft.pk])).status_code == 404
    client.force_login(alice)
    assert client.post(url, form_data(project, name="half")).status_code == 302
    assert not JobDraft.objects.exists()


def test_what_is_mended_leaves_the_list_above_the_form(client, alice, project, yard):
    client.force_login(alice)
    url = reverse("jobs:submit")
    wrong = form_data(project, memory="lots", cpus="0")
    page = client.post(url, wrong).content.decode()
    assert 'name="refused" form="composer" value="cpus memory "' in page
    sent = wrong | {"refused": "cpus memory zz", "cpus": "2", "grace": "1h"}
    part = client.post(f"{url}?part=summary", sent).content.decode()
    box = part.partition('<div id="refused" hx-swap-oob="morph">')[2].partition("</ul>")[0]
    assert re.findall(r'<a href="#(\w+)">', box) == ["id_memory"], "nothing new joins it"
    last = client.post(f"{url}?part=summary", sent | {"memory": "1GiB"}).content.decode()
    assert '<div id="refused" hx-swap-oob="morph"></div>' in last
    assert "hx-swap-oob" not in client.post(f"{url}?part=summary", wrong).content.decode()
