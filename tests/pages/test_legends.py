"""Pictures of GPUs beside the words that tell what each look of a square means."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from portal.pages.cluster.gpu_map import WAYS
from scheduler.models import Device
from scheduler.states import DeviceHealth
from tests.pages.test_cluster import squares
from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def looks(text: str, of: str) -> set[str]:
    """Classes of the squares in each element of `of`."""
    found = "".join(re.findall(of, text, re.DOTALL))
    return {*re.findall(r'<rect class="sq ([a-z0-9-]+)"', found)}


KEY, ROW = r'<div class="key.*?</div>', r'<svg class="gpu-map.*?</svg>'


@pytest.mark.parametrize("metric", WAYS)
def test_the_legend_of_the_map_names_every_look_that_is_drawn(client, alice, yard, metric):
    Device.objects.filter(node__name="n2", index=0).update(health=DeviceHealth.SUSPECT)
    client.force_login(alice)
    text = client.get(reverse("cluster_map"), {"metric": metric}).content.decode()
    assert {*squares(text)} <= looks(text, KEY)


def test_rows_of_squares_have_a_legend_wherever_they_are(client, alice, root, yard):
    Device.objects.filter(node__name="n2", index=0).update(health=DeviceHealth.QUARANTINED)
    pages = (
        reverse("nodes:list"),
        reverse("nodes:detail", args=["n1"]),
        reverse("nodes:detail", args=["n2"]),
        reverse("jobs:detail", args=[yard.running.pk]),
        reverse("jobs:detail", args=[yard.succeeded.pk]),
    )
    for page in pages:
        client.force_login(alice if "jobs" in page else root)
        text = client.get(page).content.decode()
        assert looks(text, ROW) and looks(text, ROW) <= looks(text, KEY), page


def test_the_style_guide_shows_squares_bars_and_hours_in_each_state(client, root):
    client.force_login(root)
    text = client.get(reverse("styleguide")).content.decode()
    shades = {
        "free",
        "dr",
        "dnb",
        "unread",
        "well",
        "frail",
        *(f"{kind}{n}" for kind in "u" for n in range(6)),
    }
    assert shades | {f"c{n}" for n in range(8)} <= set(squares(text))
    hours = re.search(r'<svg class="weekmap".*?</svg>', text, re.DOTALL)[0]
    assert hours.count("<rect") == 7 * 24
    for kind in ("past", "past sum", "running", "planned", "booking", "maintenance"):
        assert f'<rect class="gb {kind}" x="' in text, kind
