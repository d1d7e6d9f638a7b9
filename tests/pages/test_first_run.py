"""The first day: what an empty portal says, and where its steps lead."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import DemoMark
from accounts.services import set_rate
from scheduler.selectors.cluster import models_to_price
from scheduler.selectors.tables.beginning import beginning_of
from tests import factories, scenes

pytestmark = [pytest.mark.django_db, pytest.mark.once]
EMPTY = re.compile(r'<div class="empty">(.*?)</div>\s*(?:</div>)?', re.DOTALL)
# Every list: what an administrator finds there on the first day teaches, and leads on.
LISTS = (
    "home",
    "jobs:list",
    "sessions:list",
    "queue:list",
    "templates:list",
    "bookings:list",
    "cluster_map",
    "cluster_timeline",
    "cluster_room",
    "nodes:list",
    "teams:list",
    "costs:overview",
    "requests:list",
    "approvals",
    "notifications:list",
    "announcements:list",
    "channels:list",
    "webhooks:list",
    "tokens:list",
    "secrets:list",
    "delegations:list",
    "preview",
    "finance:exports",
    "finance:schedules",
    "finance:adjustments",
    "finance:budgets",
    "finance:assets",
    "finance:costs",
    "finance:prices",
    "finance:focus",
)


def _main(client: Client, route: str) -> str:
    html = client.get(reverse(route), follow=True).content.decode()
    return html.partition("<main")[2].partition("</main>")[0]


def test_empty_lists_teach_and_lead_on(root, client: Client) -> None:
    """One sentence why, in bold, what comes next, and a way there beside it or on the page."""
    client.force_login(root)
    silent = []
    for route in LISTS:
        main = _main(client, route)
        found = EMPTY.findall(main)
        if not found or not all("<b>" in one for one in found):
            silent.append(route)
        elif not re.search(r'<(a [^>]*href|form[^>]* method="post"|button)', main):
            silent.append(f"{route} leads nowhere")
    assert silent == [], silent
    client.force_login(factories.person("new"))
    assert "You are in no team with a project yet." in _main(client, "home")


def test_a_newcomer_chooses_among_three(root, alice, project, client: Client) -> None:
    client.force_login(alice)
    main = _main(client, "home")
    for way in ("/jobs/new/?from=sample", "/sessions/new/", "/templates/"):
        assert f'href="{way}"' in main, way
    scenes.build_cluster(root)
    scenes.submit(alice, project)
    assert "Three ways to begin" not in _main(client, "home")


def test_first_steps_are_ticked_and_a_demonstration_is_said(root, alice, project, client) -> None:
    client.force_login(root)
    before = client.get("/welcome/", {"part": "steps"}).content.decode()
    assert "1 of 5 done" in before and "<html" not in before and "Enrol a node" in before
    cluster, now = scenes.build_cluster(root, gpus=1), timezone.now()
    job = scenes.submit(alice, project, now=now)
    attempt = scenes.start(job, cluster.node(1), now=now)
    scenes.sync(cluster.node(1), scenes.ended(attempt), now=now)
    after = client.get("/welcome/", {"part": "steps"}).content.decode()
    assert "Enrol a node" not in after and f"/jobs/{job.pk}/" in after
    assert "Demonstration data." not in _main(client, "home")
    DemoMark.objects.create(seeded_at=now - timedelta(days=1), seed=1)
    assert "Demonstration data." in _main(client, "home")
    assert "A demonstration is here since" in _main(client, "welcome")


def test_models_to_price_are_named_from_one_of_each(root) -> None:
    cluster = scenes.build_cluster(root, nodes=2)
    for name in ("n3", "n4"):
        scenes.add_node(cluster, name, 4)
    told = beginning_of(root, now=timezone.now(), with_models=True).models
    assert told == models_to_price(root) != []
    assert beginning_of(root, now=timezone.now()).models == []


def test_of_many_prices_a_few_stand_beside_the_first_steps(root, client) -> None:
    for number in range(22):
        set_rate(
            actor=root, device_model=f"Card-{number:02}", price_per_gpu_hour=Decimal(100 + number)
        )
    client.force_login(root)
    first, rest = (client.get("/welcome/", {"prices": page}).content.decode() for page in "12")
    shown = [{n for n in range(22) if f"<dd>{n + 100}.00 " in page} for page in (first, rest)]
    assert [len(one) for one in shown] == [20, 2] and set.union(*shown) == set(range(22))
    assert "1 to 20 of 22" in first and "?prices=2" in first
