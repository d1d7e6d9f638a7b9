"""The summary beside the form of a job: what was typed, as it will be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

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


def quoted(limits=(), budgets=(), **guess) -> str:
    """The part about time and money, of a quote made up; all figures are the same if not said."""
    usual: dict[str, Any] = {
        "starts_now": True,
        "start_p50_at": None,
        "start_p90_at": None,
        "why": "",
    }
    usual |= {"last_start_p90_at": None, "basis": "the time limit", "run_p50_s": 60}
    usual |= {"run_p90_s": 60, "cost_p50": 1, "cost_p90": 1}
    quote = {"estimate": SimpleNamespace(**usual | guess), "limits": limits, "budgets": budgets}
    quote |= {"unit_price": 60, "worst_case_cost": 1, "currency": "EUR", "tasks": 1}
    quote |= {"group": "", "finish": None, "remedies": (), "highest": ""}
    return render_to_string(
        "quotas/_quote.html", {"quote": SimpleNamespace(**quote), "now": timezone.now()}
    )


def test_two_figures_are_explained_where_there_are_two():
    assert "half end within" not in quoted()
    assert "Run time by the time limit." in quoted()
    assert "Run time from 7 runs of all jobs." in quoted(basis="7 runs of all jobs")
    text = quoted(run_p90_s=90, basis="7 runs of all jobs")
    assert "Of 7 runs of all jobs half end within" in text and "1 min 30 s.</span>" in text


def test_what_is_left_after_it_has_a_line_of_its_own():
    limit = {"whose": "team vision", "scope": "any GPU in all pools", "after": 1, "maximum": None}
    limit |= {"borrowed": 0, "is_over": False}
    budget = {"whose": "team vision", "unit": "EUR", "after": 3, "left": 5, "is_over": False}
    budget |= {"commits_at": "submit"}
    text = quoted([SimpleNamespace(**limit)], [SimpleNamespace(**budget)])
    assert "<b>1 GPU</b>" in text and "any GPU in all pools, without a limit" in text
    assert (
        "<b>3.00 EUR left</b>" in text and "5.00 without it; committed now, at the submit" in text
    )
    limit |= {"after": 9, "maximum": 8, "is_over": True, "borrowed": 1}
    budget |= {"after": -2, "left": 5, "is_over": True}
    text = quoted([SimpleNamespace(**limit)], [SimpleNamespace(**budget)])
    assert "9 of 8 GPUs</b>, 1 borrowed" in text and "it waits until fewer are held" in text
    assert "2.00 EUR more than there is" in text and "it would be refused" in text
    limit |= {"borrowed": 5, "guaranteed": 4}
    warns = budget | {"enforcement": "warn"}
    text = quoted([SimpleNamespace(**limit)], [SimpleNamespace(**warns)])
    assert "9 of 8 GPUs</b>, 5 above the 4 guaranteed" in text
    assert "committed now, at the submit; it only warns" in text and "refused" not in text
    text = quoted([], [SimpleNamespace(**budget | {"after": -6, "left": -4})])
    assert "4.00 EUR over already" in text and "6.00 over with it; it would be refused" in text
    text = quoted([], [SimpleNamespace(**budget | {"after": None, "left": None})])
    assert "no price set" in text and "without it" not in text
