"""A highest price, in the form and on the job's page."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.urls import reverse

from scheduler.models import Job, Node
from scheduler.money import steps_of
from tests import scenes
from tests.pages.test_compose import form_data
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


def test_the_form_takes_a_highest_price_and_refuses_what_pays_for_nothing(
    client, root, alice, project
):
    build_yard(root, alice, project)
    client.force_login(alice)
    url = reverse("jobs:submit")
    low = client.post(url, form_data(project, max_cost="0.000001"))
    assert "give at least" in str(low.context["form"].errors["max_cost"])
    wrong = client.post(url, form_data(project, max_cost="much"))
    assert "not an amount of money" in str(wrong.context["form"].errors["max_cost"])
    assert client.post(url, form_data(project, max_cost="12.5")).status_code == 302
    job = Job.objects.latest("pk")
    assert job.spec["max_cost"] == "12.50"
    told = client.post(f"{url}?part=summary", form_data(project, max_cost="12.5"))
    assert "Its highest price, 12.50 EUR, is enough for" in told.content.decode()
    again = client.get(f"{url}?clone={job.pk}")
    assert again.context["form"]["max_cost"].value() == "12.50"


def test_its_page_says_how_much_of_its_price_it_has_cost(client, root, alice, project):
    yard = build_yard(root, alice, project)
    job = yard.running
    Job.objects.filter(pk=job.pk).update(max_cost_steps=steps_of(Decimal("2.5")))
    client.force_login(alice)
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "2.50" in text and "cost so far of its highest price" in text


def test_the_page_of_an_array_says_the_price_of_each_task(client, root, alice, project):
    build_yard(root, alice, project)
    first = scenes.submit(alice, project, array="0-2", max_cost="1.5")
    client.force_login(alice)
    text = client.get(reverse("sets:detail", args=[first.job_set_id])).content.decode()
    assert "<dt>Highest price</dt>" in text and "for each task" in text


def test_its_page_of_changes_gives_another_price_and_says_what_it_means(
    client, root, alice, bob, operator, project
):
    yard = build_yard(root, alice, project)
    Node.objects.update(protocol=3)
    job, url = yard.running, reverse("jobs:change", args=[yard.running.pk])
    client.force_login(alice)
    same = client.get(url).context
    assert same["max_cost"] == ""
    sent = {"time_limit": same["limit"], "finish_by": "", "finish_by_policy": "keep"}
    assert (
        "asks for just that"
        in client.post(url, sent | {"max_cost": ""}, follow=True).content.decode()
    )
    wrong = client.post(url, sent | {"max_cost": "0.01"})
    assert wrong.status_code == 422 and "give at least" in wrong.content.decode()
    seen = client.get(url, sent | {"max_cost": "2.5"}).content.decode()
    assert "Its highest price, 2.50 EUR, is enough for" in seen and f"Change job #{job.pk}" in seen
    client.post(url, sent | {"max_cost": "2.5"})
    job.refresh_from_db()
    assert job.max_cost == Decimal("2.5")
    text = client.get(reverse("jobs:detail", args=[job.pk])).content.decode()
    assert "enough until" in text and "at the latest, by its price" in text
    events = client.get(reverse("jobs:events", args=[job.pk])).content.decode()
    assert "Another highest price" in events and "2.50" not in events
    client.force_login(operator)
    blind = client.get(url).content.decode()
    assert 'name="max_cost"' not in blind and 'name="time_limit"' in blind
    client.post(url, sent | {"max_cost": "2.50"})
    client.post(url, sent | {"max_cost": "9"})
    job.refresh_from_db()
    assert job.max_cost == Decimal("2.5")
    client.force_login(alice)
    client.post(url, sent | {"max_cost": ""})
    job.refresh_from_db()
    assert (job.max_cost, job.spec["max_cost"]) == (None, None)
