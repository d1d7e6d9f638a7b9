"""Several pools to choose from over REST, from the command line and in the form."""

from __future__ import annotations

import pytest
from django.urls import reverse

from portal.cli.submit import fields_of
from scheduler.models import Job, JobEvent
from scheduler.services.nodes import create_pool
from tests import scenes
from tests.api.conftest import fields_of as fields_named
from tests.api.conftest import problem_of
from tests.pages.test_compose import form_data
from tests.reports.test_exports import of_the_line

pytestmark = pytest.mark.django_db


@pytest.fixture
def spare(root, cluster):
    """Another pool, with a node like those of the first."""
    made = scenes.Cluster(root, create_pool(actor=root, name="spare"), [])
    scenes.add_node(made, "m1", 2)
    return made


def test_pools_are_submitted_read_quoted_and_refused_by_their_field(
    program, alice, cluster, spare, spec
):
    caller = program(alice)
    job = caller.post("/jobs/", {**spec, "pool": "default,spare"}).json()
    assert (job["pool"], job["pool_choice"]) == ("default", ["default", "spare"])
    assert (job["spec"]["pool"], job["spec"]["other_pools"]) == ("default", ["spare"])
    assert caller.post("/jobs/", spec).json()["pool_choice"] == []
    told = caller.post("/jobs/quote/", {**spec, "other_pools": ["spare"]}).json()
    assert told["choice"].startswith("It starts in the first of its pools that has room: default, ")
    refused = problem_of(caller.post("/jobs/", {**spec, "other_pools": ["spare", "gone"]}), 422)
    assert fields_named(refused) == {"other_pools"}
    changed = caller.post(f"/jobs/{job['id']}/change/", {"pool": "spare"}).json()["job"]
    assert (changed["pool"], changed["pool_choice"]) == ("spare", [])


def test_the_command_line_names_them_with_commas():
    line = "trainyard submit --project a/b --name n --pool {} -- true"
    two = of_the_line(line.format("h100,a100,v100"))
    assert (two["pool"], two["other_pools"]) == ("h100", "a100,v100")
    assert "other_pools" not in of_the_line(line.format("h100"))
    both = of_the_line(line.format("h100,a100 --other-pools v100"))
    assert (both["pool"], both["other_pools"]) == ("h100,a100", "v100"), "the server refuses it"
    assert fields_of.__doc__


def test_the_form_and_the_pages_of_the_job_say_them(client, alice, project, cluster, spare):
    client.force_login(alice)
    url = reverse("jobs:submit")
    wrong = client.post(url, form_data(project, other_pools="spare,gone"))
    assert "no pool gone" in str(wrong.context["form"].errors["other_pools"])
    told = client.post(f"{url}?part=summary", form_data(project, other_pools="spare"))
    assert "the first of its pools that has room: default, spare" in told.content.decode()
    assert client.post(url, form_data(project, other_pools="spare")).status_code == 302
    job = Job.objects.latest("pk")
    assert job.pool_choice == ["default", "spare"]
    again = client.get(f"{url}?clone={job.pk}").context["form"]
    assert again["other_pools"].value() == "spare"
    went = {"from": "spare", "to": "default"}
    JobEvent.objects.create(job=job, at=job.submitted_at, kind="moved_to_pool", detail=went)
    page = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "another of default, spare" in page
    assert "Went to another of its pools" in page and "from spare to default" in page
    change = reverse("jobs:change", args=[job.pk])
    shown = client.get(change)
    assert shown.context["pools"] == ["default,spare", "default", "spare"]
    sent = {"pool": "spare", "was_pool": "default,spare"}
    assert client.post(change, sent).status_code == 302
    job.refresh_from_db()
    assert (job.pool.name, job.pool_choice) == ("spare", None)


def test_where_there_is_one_pool_nobody_is_asked_for_others(client, alice, root, project, cluster):
    client.force_login(alice)
    url, field = reverse("jobs:submit"), 'name="other_pools"'
    assert field not in client.get(url).content.decode()
    named = client.post(url, form_data(project, other_pools="gone")).content.decode()
    assert field in named, "what somebody named is there to be changed"
    create_pool(actor=root, name="spare")
    page = client.get(url).content.decode()
    assert field in page and "the best first. Of default, spare." in page
