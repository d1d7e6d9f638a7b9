"""A waiting job asks for something else, from its page: seen first, then done."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.urls import reverse

from scheduler.models import Job
from scheduler.states import JobState
from tests import scenes
from tests.composing import make_template
from tests.pages.test_compose import form_data
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


def test_a_fix_changes_the_job_itself_after_it_was_seen_what_it_does(
    client, alice, bob, project, yard
):
    client.force_login(alice)
    wide = scenes.submit(alice, project, gpus_per_node=2, nodes=2, name="wide")
    links = re.findall(rf'href="(/jobs/{wide.pk}/change/\?[^"]*)"', answer(client, wide))
    assert [unescape(link).partition("?")[2] for link in links] == ["gpus_per_node=1", "nodes=1"]
    text = client.get(unescape(links[1])).content.decode()
    assert "What it does" in text and "It may cost" in text
    form = text[text.index("What it does") :].partition("<form")[2].partition("</form>")[0]
    sent = dict(re.findall(r'type="hidden" name="([a-z_]+)" value="([^"]*)"', form))
    assert sent["nodes"] == "1"
    client.force_login(bob)
    url = reverse("jobs:change", args=[wide.pk])
    assert client.post(url, sent).status_code == 403
    client.force_login(alice)
    for _ in range(2):
        assert client.post(url, sent).status_code == 302
    wide.refresh_from_db()
    assert (wide.nodes, wide.gpus_per_node, wide.state) == (1, 2, JobState.QUEUED)
    assert Job.objects.filter(name="wide").count() == 1
    lines = client.get(reverse("jobs:events", args=[wide.pk])).content.decode()
    assert lines.count("Asks for something else") == 1


def test_what_a_waiting_job_cannot_ask_for_is_said_on_the_page(client, alice, yard):
    client.force_login(alice)
    url = reverse("jobs:change", args=[yard.queued.pk])
    for asked, words in (
        ({"gpus_per_node": "60"}, "GPUs per node: the largest node"),
        ({"gpus_per_node": "many"}, "GPUs per node: write a whole number"),
        ({"pool": "nowhere"}, "Pool: there is no pool nowhere"),
        ({"gpu_model": "<b>H300"}, "GPU model: pool default has no &lt;b&gt;H300"),
        ({"nodes": "3..1"}, "Nodes: must begin with the fewest"),
    ):
        told = client.get(url, asked)
        assert told.status_code == 200 and words in told.content.decode()
        assert client.post(url, asked).status_code == 422
    scenes.start(yard.queued, yard.cluster.node(2))
    late = client.post(url, {"gpus_per_node": "2"})
    assert late.status_code == 422 and "has started" in late.content.decode()
    yard.queued.refresh_from_db()
    assert yard.queued.gpus_per_node == 1


def test_who_fills_in_a_form_reads_labels_and_no_names_of_fields(
    client, alice, lead, project, yard
):
    client.force_login(alice)
    for wrong, field, words in (
        (
            {"gpus_per_node": "2", "gpu_milli": "0.5"},
            "gpu_milli",
            "Is a part of one GPU; set “GPUs per node” to 1, or ask for whole GPUs.",
        ),
        (
            {"fallback_after": "2h"},
            "fallback_after",
            "Needs two or more models in “Models in order” to fall back to.",
        ),
    ):
        page = client.post(reverse("jobs:submit"), form_data(project, **wrong))
        assert page.context["form"].errors == {field: [words]}
    ruled = make_template(lead, project.team, rules={"gpus_per_node": "2..2"})
    whatif = form_data(project, template=ruled, gpus_per_node="2", whatif="1")
    page = client.post(reverse("jobs:submit"), whatif).content.decode()
    assert "GPUs per node: must lie in 2..2: so the template says" in page


def test_a_reason_that_is_missing_is_asked_for_by_its_label(client, root, alice):
    client.force_login(root)
    sent = {"jobs": "go", "reason": ""}
    page = client.post("/ops/users/alice/out/", sent, follow=True)
    assert "Reason: say why" in page.content.decode()
