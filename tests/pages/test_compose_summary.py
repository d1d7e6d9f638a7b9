"""The summary beside the form of a job: what was typed, as it will be read."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def test_it_says_what_a_number_alone_and_a_moment_mean(client, alice, project, yard):
    client.force_login(alice)
    client.cookies["zone"] = "Europe/Berlin"
    data = {"name": "digits", "project": project.path, "command": "python train.py"}
    data |= {"nodes": "1", "gpus_per_node": "1", "cpus": "1", "tier": "normal", "pool": "default"}
    data |= {"processes": "node", "signal": "SIGTERM", "grace": "30s"}
    data |= {"memory": "16", "time_limit": "90", "begin": "2090-12-31 08:00"}
    text = client.post(reverse("jobs:submit") + "?part=summary", data).content.decode()
    assert "1 CPU and 16 MiB of memory per node" in text and "up to 1 min 30" in text
    assert "31 Dec 2090, 09:00" in text and "In Europe/Berlin" in text
    # A command is not optional: without one a script is needed.
    page = client.get(reverse("jobs:submit")).content.decode()
    assert "Command</label>" in page and "a number alone is MiB" in page
