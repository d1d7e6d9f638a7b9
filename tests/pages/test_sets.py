"""Pages of arrays: one row in the list, its own page, its buttons; the composer's new fields."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from portal.pages.sets.grid import grid_picture, tasks_of_a_square
from scheduler.models import Job, JobSet
from tests import scenes
from tests.pages.test_compose import form_data
from tests.pages.yard import build_yard
from tests.scenes import submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.fixture
def job_set(yard, alice, project):
    return submit(alice, project, name="sweep", array="0-99%10").job_set


def test_the_list_shows_a_set_as_one_row_that_opens(client, alice, yard, job_set):
    client.force_login(alice)
    page = client.get(reverse("jobs:list"))
    rows = [row for row in page.context["rows"] if row.view]
    assert [row.view.job_set for row in rows] == [job_set]
    text = page.content.decode()
    assert reverse("sets:detail", args=[job_set.pk]) in text
    assert "0 of 100 ended" in text
    assert text.count("sweep") < 5
    opened = client.get(reverse("jobs:list"), {"q": f"set:{job_set.pk} state:queued"})
    assert len(opened.context["rows"]) == 10
    assert not any(row.view for row in opened.context["rows"])
    odd = client.get(reverse("jobs:list"), {"q": "set:x"})
    assert "not a number" in odd.content.decode()


def test_the_page_of_a_set(client, alice, carol, yard, job_set):
    client.force_login(alice)
    page = client.get(reverse("sets:detail", args=[job_set.pk]))
    text = page.content.decode()
    assert "0-99" in text and "at most 10" in text and "no task has succeeded yet" in text
    assert len(page.context["rows"]) == 50
    more = client.get(reverse("sets:detail", args=[job_set.pk]), {"from": "50"})
    assert [row.job.array_index for row in more.context["rows"]] == list(range(50, 100))
    part = client.get(reverse("sets:detail", args=[job_set.pk]), {"part": "live"})
    assert "<html" not in part.content.decode()
    task = job_set.tasks.get(array_index=7)
    assert (
        f"array {job_set.pk}" in client.get(reverse("jobs:detail", args=[task.pk])).content.decode()
    )
    client.force_login(carol)
    for name, send in (("detail", client.get), ("cancel", client.post), ("rerun", client.post)):
        assert send(reverse(f"sets:{name}", args=[job_set.pk])).status_code == 404


def test_the_buttons_of_a_set(client, alice, yard, job_set):
    client.force_login(alice)
    back = client.post(reverse("sets:rerun", args=[job_set.pk]), follow=True)
    assert "nothing to run again" in back.content.decode()
    Job.objects.filter(job_set=job_set, array_index__lt=3).update(
        state="failed", end_reason="exit_code"
    )
    again = client.post(reverse("sets:rerun", args=[job_set.pk]))
    made = JobSet.objects.latest("pk")
    assert again.url == reverse("sets:detail", args=[made.pk])
    assert made.range == "0-2"
    back = client.post(reverse("sets:cancel", args=[job_set.pk]), follow=True)
    assert "97 tasks are cancelled" in back.content.decode()


def test_an_array_that_cannot_be_submitted_again_says_why(client, alice, project, yard, job_set):
    client.force_login(alice)
    tasks = Job.objects.filter(job_set=job_set, array_index__lt=3)
    tasks.update(state="failed", end_reason="exit_code")
    type(project).objects.filter(pk=project.pk).update(is_archived=True)
    back = client.post(reverse("sets:rerun", args=[job_set.pk]))
    assert back.url == reverse("sets:detail", args=[job_set.pk])
    assert "is archived; choose another" in client.get(back.url).content.decode()


def test_a_job_that_begins_later_says_when(client, alice, project, yard):
    job = submit(alice, project, begin="2026-11-20T20:00:00Z")
    client.force_login(alice)
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "Starts no earlier than 20 Nov 2026, 20:00 UTC." in text
    assert "not before" in text


def test_the_composer_submits_an_array(client, alice, project, yard):
    client.force_login(alice)
    more = {"array_range": "0-4", "array_parallel": "2", "gpus_per_node": "0"}
    data = form_data(project, description="two\r\nlines", **more)
    made = client.post(reverse("jobs:submit"), data)
    job_set = JobSet.objects.get()
    assert made.url == reverse("sets:detail", args=[job_set.pk])
    task = job_set.tasks.first()
    assert (job_set.size, job_set.max_parallel, task.gpus) == (5, 2, 0)
    # Fields of one line lose the ends of lines.
    assert task.spec["description"] == "two\nlines"
    again = client.get(reverse("jobs:submit"), {"clone": task.pk}).content.decode()
    assert re.search(r'<textarea name="description"[^>]*>\s*two\nlines</textarea>', again)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("nodes", "8..2", "2..8"),
        ("begin", "soon", "2026-12-31"),
        ("depends_on", "afterok:987654", "no job 987654"),
        ("depends_on", "afterwards:1", "afterok"),
        ("array_range", "x", "0-99"),
        ("array_parallel", "many", "whole number"),
        ("gpu_milli", "2", "0.25"),
        ("topology_level", "planet", "Select a valid choice"),
        ("licences", "Big=1", "lower-case"),
        ("constraints", "x", "label=value"),
        ("exclude_nodes", "../x", "name of a node"),
        ("gpus_per_node", "-1", "at least 0"),
        ("min_runtime", "9h", "time limit"),
        ("node_sizes", "2,4", "2..8"),
        ("fallback_after", "1h", "two or more"),
        ("gpu_memory", "big", "16GB"),
        ("scratch", "-1", "16GB"),
        ("booking", "A B", "lower-case"),
    ],
)
def test_bad_values_are_named_at_their_field(client, alice, project, yard, field, value, words):
    client.force_login(alice)
    page = client.post(reverse("jobs:submit"), form_data(project, **{field: value}))
    assert page.status_code == 200
    errors = page.context["form"].errors
    assert words in str(errors[field]), errors
    assert not JobSet.objects.exists()


def test_a_clone_prefills_the_new_fields(client, alice, project, yard):
    first = yard.running
    job = submit(alice, project, gpus_per_node=0, depends_on=f"afterany:{first.pk}",
                 preemptible=False, min_runtime="10m", begin="2026-11-20T11:00Z")  # fmt: skip
    client.force_login(alice)
    form = client.get(reverse("jobs:submit"), {"clone": job.pk}).context["form"]
    shown = {name: form[name].value() for name in (
        "gpus_per_node", "depends_on", "preemptible", "min_runtime", "begin", "nodes")}  # fmt: skip
    assert shown == {
        "gpus_per_node": 0, "depends_on": f"afterany:{first.pk}", "preemptible": "false",
        "min_runtime": "10m", "begin": "2026-11-20T11:00:00Z", "nodes": 1}  # fmt: skip
    data = {bound.name: bound.value() for bound in form}
    data = {name: value for name, value in data.items() if value not in (None, "", False, "false")}
    data |= {"gpus_per_node": "0", "preemptible": "false"}
    made = client.post(reverse("jobs:submit"), data)
    assert made.status_code == 302, made.context["form"].errors
    assert Job.objects.latest("pk").spec == job.spec


def test_advanced_parts_open_when_they_are_used(client, alice, project, yard):
    client.force_login(alice)
    text = client.get(reverse("jobs:submit")).content.decode()
    closed = text.count("<details open")
    job = submit(alice, project, begin=scenes.NOON.isoformat())
    text = client.get(reverse("jobs:submit"), {"clone": job.pk}).content.decode()
    assert text.count("<details open") > closed


def test_squares_tell_each_task_and_of_many_the_gravest(client, alice, yard, job_set):
    Job.objects.filter(job_set=job_set, array_index__in=(0, 61)).update(state="failed")
    client.force_login(alice)
    text = client.get(reverse("sets:detail", args=[job_set.pk])).content.decode()
    # The second line begins after sixty; each failed square carries its cross.
    failed = text.split('class="sq g-failed" d="')[1].split('"')[0]
    assert [piece.split("h")[0] for piece in failed.split("M")[1:]] == ["1 1", "13 13"]
    assert failed.count("l10 10") == 2 and "square is" not in text
    many = ["succeeded"] * 3_000 + ["held"]
    many[7] = "failed"
    drawn = grid_picture(many)
    assert tasks_of_a_square(len(many)) == 3 and drawn.count("<path") == 3
    assert 'g-failed" d="M25 1h' in drawn and drawn.count("h10v10h-10z") == 1_001
    assert grid_picture([]).count("<path") == 0


def test_who_waits_for_an_array_sees_how_far_it_is_and_is_seen_there(client, alice, project, yard):
    job_set = submit(alice, project, name="sweep", array="0-3").job_set
    first, second = job_set.tasks.order_by("array_index")[:2]
    Job.objects.filter(pk=first.pk).update(state="succeeded")
    Job.objects.filter(pk=second.pk).update(state="failed", started_at=scenes.NOON)
    waits = submit(alice, project, depends_on=[f"afterany:set={job_set.pk}", yard.running.pk])
    after = submit(alice, project, depends_on=f"after:set={job_set.pk}")
    array = submit(alice, project, array="0-2", depends_on=f"afterany:set={job_set.pk}").job_set
    client.force_login(alice)
    link = reverse("sets:detail", args=[job_set.pk])
    for name in ("jobs:detail", "jobs:why"):
        text = client.get(reverse(name, args=[waits.pk])).content.decode()
        assert f'<a href="{link}">array {job_set.pk}</a>: 2 of 4 tasks done' in text
        assert f"all 4 tasks of array {job_set.pk} to end" in text
    text = client.get(reverse("jobs:why", args=[after.pk])).content.decode()
    assert "2 of 4 tasks started" in text
    shown = client.get(link)
    assert [(one.number, one.is_set) for one in shown.context["waiters"].shown] == [
        (waits.pk, False), (after.pk, False), (array.pk, True)]  # fmt: skip
    text = shown.content.decode()
    assert f'<a href="{reverse("sets:detail", args=[array.pk])}">array {array.pk}</a>' in text
    assert f"afterok:set={job_set.pk}" in text
    # A single job says who waits for it, too; nobody waits any more once it is let go.
    text = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    line = f'Waited for by</dt><dd><a href="{reverse("jobs:detail", args=[waits.pk])}">job'
    assert line in text
    Job.objects.filter(pk=waits.pk).update(state="cancelled")
    text = client.get(reverse("jobs:detail", args=[yard.running.pk])).content.decode()
    assert "Waited for by" not in text


def test_of_many_that_wait_a_few_are_named_and_none_to_strangers(
    client, alice, bob, carol, root, project, other_project, yard
):
    job_set = submit(alice, project, array="0-3").job_set
    for _ in range(12):
        submit(root, other_project, depends_on=f"afterany:set={job_set.pk}")
    seen = client.get
    client.force_login(alice)
    link = reverse("sets:detail", args=[job_set.pk])
    assert "Waited for by" not in seen(link).content.decode()
    client.force_login(root)
    page = seen(link)
    assert len(page.context["waiters"].shown) == 10 and " and more</dd>" in page.content.decode()
    # Who sees what waits, and not what it waits for, is told the number alone.
    foreign = Job.objects.filter(project=other_project).latest("pk")
    client.force_login(carol)
    assert seen(link).status_code == 404
    text = seen(reverse("jobs:detail", args=[foreign.pk])).content.decode()
    assert "tasks done" not in text and link not in text
    for field in (f"afterok:set={job_set.pk}", "afterok:set=987654"):
        form = client.post(
            reverse("jobs:submit"), form_data(other_project, depends_on=field)
        ).context["form"]
        assert "There is no array" in str(form.errors["depends_on"])


def test_the_form_takes_an_array_to_wait_for_and_a_clone_has_it(client, alice, project, yard):
    job_set = submit(alice, project, array="0-3").job_set
    words = f"afterok:set={job_set.pk},after:{job_set.pk}_2"
    client.force_login(alice)
    made = client.post(reverse("jobs:submit"), form_data(project, depends_on=words))
    assert made.status_code == 302, made.context["form"].errors
    job = Job.objects.latest("pk")
    assert job.spec["depends_on"] == words.split(",")
    form = client.get(reverse("jobs:submit"), {"clone": job.pk}).context["form"]
    assert form["depends_on"].value() == words
    line = client.get(reverse("jobs:spec", args=[job.pk])).context["command_line"]
    assert f"--depends-on afterok:set={job_set.pk}" in line
