"""Groups of which the newest counts, in the form and on pages."""

from __future__ import annotations

import csv
import io

import pytest
from django.urls import reverse

from scheduler.models import Job
from tests.pages.test_compose import form_data
from tests.pages.yard import build_yard
from tests.scenes import start, submit

pytestmark = pytest.mark.django_db


def test_the_form_takes_a_group_and_says_whom_it_ends(client, root, alice, project):
    build_yard(root, alice, project)
    client.force_login(alice)
    first, url = submit(alice, project, group="eval/main"), reverse("jobs:submit")
    sent = form_data(project, group="eval/main", group_policy="stop")
    told = client.post(f"{url}?part=summary", sent).content.decode()
    assert f"As the newest of its group eval/main it cancels job {first.pk}." in told
    wrong = client.post(url, {**sent, "group": "two words"})
    assert "not the name of a group" in str(wrong.context["form"].errors["group"])
    assert client.post(url, sent).status_code == 302
    job = Job.objects.latest("pk")
    assert (job.group_name, job.spec["group_policy"]) == ("eval/main", "stop")
    again = client.get(f"{url}?clone={job.pk}").context["form"]
    assert (again["group"].value(), again["group_policy"].value()) == ("eval/main", "stop")

    page = client.get(reverse("jobs:detail", args=[first.pk])).content.decode()
    assert f"Cancelled for job {job.pk}, which is newer in its group eval/main." in page
    assert f"Open job {job.pk}" in page
    link = f"{reverse('jobs:list')}?q=group:eval/main"
    assert link in page
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "The newest of its group" in page and f"cancelled: job {first.pk}" in page
    listed = client.get(link).content.decode()
    assert reverse("jobs:detail", args=[first.pk]) in listed
    assert reverse("jobs:detail", args=[job.pk]) in listed


def test_the_page_of_an_array_names_its_group(client, root, alice, project):
    build_yard(root, alice, project)
    client.force_login(alice)
    job_set = submit(alice, project, group="eval", array="0-2").job_set
    page = client.get(reverse("sets:detail", args=[job_set.pk])).content.decode()
    assert f"{reverse('jobs:list')}?q=group:eval" in page


def test_the_list_and_its_file_say_the_group(client, root, alice, project):
    build_yard(root, alice, project)
    client.force_login(alice)
    job = submit(alice, project, name="one", group="eval/main")
    first = submit(alice, project, name="many", group="night", array="0-2")
    url = reverse("jobs:list")
    page = client.get(url, {"q": "state:queued", "columns": "finish_by,group,cost"})
    assert page.context["columns"].names == ("finish_by", "group", "cost")
    text = page.content.decode()
    for group in ("eval/main", "night"):
        assert f'<a href="{url}?q=group:{group}">{group}</a>' in text
    # Rows of jobs and of arrays have as many cells as the table has heads.
    heads = text.partition("</thead>")[0].count("<th ")
    for name in (f"job-{job.pk}", f"set-{first.job_set_id}"):
        row = text.partition(f'<tr id="{name}">')[2].partition("</tr>")[0]
        assert row.count("<td") + row.count("<th ") == heads, name
    file = client.get(url, {"part": "csv", "q": "state:queued"}).getvalue()
    lines = csv.DictReader(io.StringIO(file.decode("utf-8-sig")))
    said = {one["name"]: one["group"] for one in lines}
    assert (said["one"], said["many"]) == ("eval/main", "night")
    assert "" in said.values()


def test_the_page_of_one_that_waits_names_job_and_group(client, root, alice, project):
    yard = build_yard(root, alice, project)
    client.force_login(alice)
    first = submit(alice, project, group="eval")
    start(first, yard.cluster.node(1))
    second = submit(alice, project, group="eval")
    page = client.get(reverse("jobs:detail", args=[second.pk])).content.decode()
    assert f"Waits for job {first.pk} of its group eval to end." in page
    assert f"{reverse('jobs:detail', args=[first.pk])}" in page
