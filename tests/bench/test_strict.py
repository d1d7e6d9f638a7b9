"""A page beyond its budget fails the command that is told to be strict."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management.base import CommandError

from portal.management.commands.bench import Command

OVER = {"page": "queue:list researcher", "measure": "p95_ms", "value": 181.0, "budget": 150}
BREACH = "queue:list researcher: p95_ms is 181.0, 150 allowed"


def answered(figures: dict[str, Any], *, is_strict: bool) -> tuple[dict[str, Any], str]:
    """What it printed, and why it failed."""
    printed = StringIO()
    try:
        Command(stdout=printed).answer(figures, is_strict=is_strict)
    except CommandError as refused:
        return json.loads(printed.getvalue()), str(refused)
    return json.loads(printed.getvalue()), ""


def test_a_breach_fails_and_the_figures_are_printed_all_the_same():
    figures = {"over_budget": [OVER], "not_opened": ["nodes:detail"]}
    printed, refused = answered(figures, is_strict=True)
    assert printed == figures
    assert refused.splitlines()[1:] == [BREACH, "nodes:detail: was not opened"]


@pytest.mark.parametrize(
    ("figures", "is_strict"),
    [({"over_budget": [OVER]}, False), ({"over_budget": [], "not_opened": []}, True), ({}, True)],
)
def test_only_a_breach_fails_and_only_where_asked_for(figures, is_strict):
    assert answered(figures, is_strict=is_strict) == (figures, "")


def test_both_benchmarks_of_pages_can_be_strict():
    parser = Command().create_parser("manage.py", "bench")
    assert [parser.parse_args([name, "--strict"]).strict for name in ("client", "pages")] == [
        True,
        True,
    ]
    assert not parser.parse_args(["pages"]).strict
