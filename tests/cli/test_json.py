"""Every command takes `--json`, and prints one document then."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.main import get_command

from portal.cli.__main__ import app, run
from tests.cli.conftest import ROOT

pytestmark = pytest.mark.once


def commands(command: Any, *above: str) -> Iterator[tuple[str, Any]]:
    """All that can be called, with its words."""
    for name, one in getattr(command, "commands", {}).items():
        yield from commands(one, *above, name)
    if not getattr(command, "no_args_is_help", False):
        yield " ".join(above), command


def test_every_command_takes_json():
    without = [
        words
        for words, command in commands(get_command(app))
        if "--json" not in [option for one in command.params for option in one.opts]
    ]
    assert not without


def test_every_command_has_its_row_in_the_readme():
    rows = [
        set(re.findall(r"[a-z][a-z-]*", line.split("|")[1]))
        for line in (ROOT / "portal/cli/README.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `trainyard")
    ]
    missing = [
        words
        for words, _ in commands(get_command(app))
        if not any(set(words.split()) <= row for row in rows)
    ]
    assert rows and not missing


@pytest.mark.parametrize("words", ["nodes --json renew-token n1", "nodes renew-token n1 --json"])
def test_a_group_and_its_command_take_json_alike(portal_is, capsys, words):
    portal_is(lambda _: httpx.Response(200, json={"name": "n1", "state": "ready"}))
    assert run(words.split()) == 0
    assert json.loads(capsys.readouterr().out) == {"name": "n1", "state": "ready"}


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.path.removeprefix("/api/v1")
    if request.method == "DELETE" or "take" in path:
        return httpx.Response(204)
    if "trace" in path:
        return httpx.Response(200, text="submit_s,gpus\n1.5,8\n2,1\n")
    if path == "/secrets/":
        secret = {"id": 3, "name": "hub", "project": None}
        return httpx.Response(200, json={"items": [secret], "next_cursor": None})
    return httpx.Response(200, json={"path": path})


ROWS = [{"submit_s": "1.5", "gpus": "8"}, {"submit_s": "2", "gpus": "1"}]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("session keep 7", {"path": "/sessions/7/keep/"}),
        ("session stop 7", {"path": "/jobs/7/cancel/"}),
        ("session stop 7 --reason idle", {"path": "/jobs/7/cancel/"}),
        ("secrets delete hub", {"id": 3, "name": "hub", "project": None}),
        ("groups remove 4", {"removed": 4}),
        ("roles take ann auditor", {"username": "ann", "role": "auditor"}),
        ("webhooks remove 4", {"id": 4}),
        ("webhooks again 9", {"path": "/webhooks/deliveries/9/again/"}),
        ("simulate forget 2", {"id": 2}),
        ("simulate result 2", ROWS),
        ("simulate trace", ROWS),
        ("simulate trace -o trace.csv", {"file": "trace.csv", "jobs": 2}),
    ],
)
def test_what_is_done_comes_as_one_document(
    portal_is, monkeypatch, tmp_path, capsys, words, expected
):
    monkeypatch.chdir(tmp_path)
    portal_is(answer)
    assert run([*words.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
