"""A moment by which a job has to be finished, on the pages."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from scheduler.models import Job
from tests import scenes
from tests.pages.test_compose import form_data
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def within(hours: float) -> str:
    return (timezone.now() + timedelta(hours=hours)).strftime("%Y-%m-%d %H:%M")


def test_the_composer_says_whether_it_is_in_time_and_puts_in_what_helps(
    client, alice, project, yard
):
    client.force_login(alice)
    url = f"{reverse('jobs:submit')}?part=summary"
    late = form_data(project, time_limit="8h", finish_by=within(3), finish_by_policy="keep")
    page = client.post(url, late)
    text, [first, *_] = page.content.decode(), page.context["quote"].remedies
    assert "Likely with" in text and "unlikely" in text and f'value="{first.fix}"' in text
    mended = client.post(url, {**late, "use": first.fix})
    assert mended.context["quote"].finish.outlook == "likely"
    assert "It is likely to be finished by" in mended.content.decode()
    refused = client.post(url, {**late, "finish_by_policy": "cancel"})
    assert "choose a time limit of" in str(refused.context["form"].errors["finish_by"])
    tiers = client.post(url, {**late, "use": "tier:urgent"})
    assert tiers.context["form"]["tier"].value() == "urgent"


def test_a_waiting_jobs_page_says_how_it_stands_and_changes_it(client, alice, bob, project, yard):
    soon = timezone.now() + timedelta(hours=2)
    job = scenes.submit(
        alice,
        project,
        nodes=2,
        gpus_per_node=2,
        time_limit="6h",
        finish_by=soon.isoformat(),
        now=timezone.now(),
    )
    client.force_login(alice)
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "Finished by" in text and "unlikely to be met" in text
    assert "Even if it began at once" in text
    url = reverse("jobs:change", args=[job.pk])
    same = client.get(url).context
    sent = {name: same[name] for name in ("tier", "nodes", "pool", "finish_by")}
    sent |= {"time_limit": same["limit"], "gpus_per_node": same["gpus"], "gpu_model": ""}
    sent["finish_by_policy"] = "keep"
    assert "asks for just that" in client.post(url, sent, follow=True).content.decode()
    wrong = client.post(url, sent | {"finish_by": "soon"})
    assert wrong.status_code == 422 and "is not a time" in wrong.content.decode()
    seen = client.get(url, sent | {"finish_by": "+9h", "finish_by_policy": "cancel"})
    assert "What it does" in seen.content.decode()
    client.force_login(bob)
    assert client.post(url, sent | {"finish_by": "+9h"}).status_code == 403
    client.force_login(alice)
    client.post(url, sent | {"finish_by": "+9h", "finish_by_policy": "cancel"})
    job.refresh_from_db()
    assert job.start_by is not None
    client.post(url, sent | {"finish_by": "", "finish_by_policy": "keep"})
    job.refresh_from_db()
    assert (job.finish_by, job.start_by) == (None, None)
    events = client.get(reverse("jobs:events", args=[job.pk])).content.decode()
    assert events.count("Has to be finished by another moment") == 2


def test_the_table_has_a_column_and_a_term_for_it(client, alice, project, yard):
    job = scenes.submit(alice, project, finish_by=within(20), now=timezone.now(), name="needed")
    Job.objects.filter(pk=job.pk).update(told_late=False)
    client.force_login(alice)
    url = reverse("jobs:list")
    page = client.get(url, {"q": "finish_by:24h", "columns": "finish_by"})
    assert [row.job.pk for row in page.context["rows"]] == [job.pk]
    assert "at risk" in page.content.decode()
    assert "write it like finish_by:12h" in client.get(url, {"q": "finish_by:x"}).content.decode()


def test_an_array_says_its_moment_and_a_clone_drops_one_that_is_over(client, alice, project, yard):
    first = scenes.submit(alice, project, array="0-2", finish_by=within(20), now=timezone.now())
    client.force_login(alice)
    text = client.get(reverse("sets:detail", args=[first.job_set_id])).content.decode()
    assert "tasks that are late go on" in text
    then = timezone.now() - timedelta(days=2)
    old = scenes.submit(
        alice, project, name="old", finish_by=(then + timedelta(hours=1)).isoformat(), now=then
    )
    form = client.get(reverse("jobs:submit"), {"clone": old.pk}).context["form"]
    assert form["finish_by"].value() == ""
    assert "kept when late" in client.get(reverse("jobs:detail", args=[old.pk])).content.decode()
