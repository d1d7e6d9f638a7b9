"""What the command line makes of its words before it calls the portal."""

from __future__ import annotations

import json

import httpx
import pytest
from typer.testing import CliRunner

from portal.cli.__main__ import app, run
from portal.cli.composing.convert import read_batch


class Portal:
    """Answers as the portal does for a script that says what `said` does."""

    def __init__(self, **said: str) -> None:
        self.spec = {"name": "job", "script": "echo \U0001f600\n", **said}

    def post(self, path: str, body: object) -> dict[str, object]:
        return {"spec": self.spec, "remarks": [], "lost": 0}

    def everything(self, path: str) -> list[dict[str, object]]:
        return [{"path": "vision/digits", "may_submit": True}]


AT = "2026-12-31T08:00:00Z"
_NAMED = {"name": "mine", "project": "v/d"}


@pytest.mark.parametrize(
    ("said", "held", "expected"),
    [
        ({}, (), {"name": "run", "project": "vision/digits"}),
        ({}, ("name", "project"), {}),
        ({}, ("project",), {"name": "run"}),
        (_NAMED, ("name", "project"), _NAMED),
    ],
)
def test_a_template_names_what_the_script_does_not(monkeypatch, said, held, expected):
    monkeypatch.delenv("TRAINYARD_PROJECT", raising=False)
    raw = read_batch("/x/run.sbatch", b"", Portal(**said), even_if_lost=False, held=held)
    assert json.loads(raw) == {"script": "echo \U0001f600\n", **expected}
    assert "\U0001f600".encode() in raw


@pytest.mark.parametrize(
    ("begin", "until", "said"),
    [
        ("0001-01-01", "+2h", "--from: '0001-01-01' is no time"),
        ("soon", "+2h", "--from: 'soon' is no time"),
        ("9999-12-30T00:00Z", "+9d", "--until: '+9d' is no time"),
        ("+1h", "0001-01-01", "--until: '0001-01-01' is no time"),
        ("+1h", "", "--until: '' is no time"),
    ],
)
def test_a_booking_beyond_the_calendar_names_its_option(capsys, begin, until, said):
    assert run(["bookings", "add", "v/d", "--from", begin, "--until", until]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--days", "999999999"), ("--hours", "nan"), ("--hours", "inf")])
def test_a_request_for_no_time_that_is_known_is_refused(words):
    said = CliRunner().invoke(app, ["requests", "ask", "v/d", "1", "--why", "w", *words])
    assert said.exit_code == 2 and words[0] in said.output


@pytest.mark.parametrize(("begin", "typed"), [("+2h", "+2h"), ("+1d 2h", "+1d2h"), (AT, None)])
def test_a_begin_that_counts_from_now_goes_along_as_it_was_typed(portal_is, begin, typed):
    sent = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        job = {"id": 7, "name": "true", "state": "held", "pool": "default"}
        return httpx.Response(201, json=job)

    portal_is(answer)
    words = ["submit", "-p", "v/d", "--key", "k", "--begin", begin, "--script", __file__]
    assert run(words) == 0
    assert sent[0].headers.get("Idempotency-Begin") == typed
    assert json.loads(sent[0].content)["begin"].endswith("Z")


def test_a_moment_goes_along_as_it_was_typed_and_a_dry_run_says_what_helps(portal_is, capsys):
    sent = []
    finish = {"finish_by": AT, "sentence": "It is expected to end 5 h after it."}
    helps = {"fix": "limit:3600", "words": "a time limit of 1h", "end_p50_at": AT, "cost_p50": None}
    quote = {"tasks": 1, "gpus": 1, "pool": "default", "free_gpus": 0, "total_gpus": 4}
    quote |= {"jobs_ahead": 2, "estimate": None, "worst_case_cost": None, "unit_price": None}
    quote |= {"limits": [], "budgets": [], "currency": "EUR"}
    quote |= {"finish": finish, "remedies": [helps]}

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if "dry_run" in str(request.url):
            return httpx.Response(200, json=quote)
        return httpx.Response(201, json={"id": 7, "name": "t", "state": "held", "pool": "default"})

    portal_is(answer)
    words = ["submit", "-p", "v/d", "--finish-by", "+8h", "--finish-by-policy", "cancel"]
    assert run([*words, "--script", __file__]) == 0
    assert sent[0].headers.get("Idempotency-Finish-By") == "+8h"
    asked = json.loads(sent[0].content)
    assert asked["finish_by"].endswith("Z") and asked["finish_by_policy"] == "cancel"
    assert run([*words, "--dry-run", "--script", __file__]) == 0
    out = capsys.readouterr().out
    assert finish["sentence"] in out and "With a time limit of 1h it is likely: done about" in out
    assert run([*words[:-3], "later", "--script", __file__]) == 0
    assert json.loads(sent[2].content)["finish_by"] == "later"
    assert run(["submit", "-p", "v/d", "--finish-by", "+soon", "--script", __file__]) != 0
    assert "--finish-by +soon" in capsys.readouterr().err


def test_a_highest_price_goes_along_and_what_it_means_is_said(portal_is, capsys):
    sent, means = [], "Its highest price, 12.50 EUR, is enough for 3h from now."
    impact = {"own": None, "delayed": [], "delayed_count": 0, "more_cost": None, "most_cost": None}
    impact |= {"consent": "", "may": True, "highest": means}

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if "change" in str(request.url):
            return httpx.Response(200, json={"impact": impact, "job": {}})
        return httpx.Response(201, json={"id": 7, "name": "t", "state": "held", "pool": "default"})

    portal_is(answer)
    assert run(["submit", "-p", "v/d", "--max-cost", "12.5", "--script", __file__]) == 0
    assert run(["change", "7", "--max-cost", "none", "--dry-run"]) == 0
    told = [json.loads(one.content) for one in sent]
    assert told[0]["max_cost"] == "12.5" and told[1] == {"max_cost": "none", "dry_run": True}
    assert means in capsys.readouterr().out


def test_a_group_goes_along_is_asked_for_and_what_it_ends_is_said(portal_is, capsys):
    sent, means = [], "As the newest of its group eval/main it cancels job 6."
    quote = {"worst_case_cost": None, "currency": "EUR", "estimate": None, "limits": []}
    quote |= {"budgets": [], "tasks": 1, "gpus": 1, "group": means, "pool": "default"}
    quote |= {
        "free_gpus": 1,
        "total_gpus": 1,
        "jobs_ahead": 0,
        "is_paused": False,
        "unit_price": None,
    }

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if request.method == "GET":
            return httpx.Response(200, json={"items": [], "next_cursor": None})
        return httpx.Response(200, json=quote)

    portal_is(answer)
    words = ["submit", "-p", "v/d", "--group", "eval/main", "--group-policy", "stop", "--dry-run"]
    assert run([*words, "--script", __file__]) == 0
    assert means in capsys.readouterr().out
    told = json.loads(sent[0].content)
    assert (told["group"], told["group_policy"]) == ("eval/main", "stop")
    assert run(["jobs", "--group", "eval/main"]) == 0
    assert sent[1].url.params["group"] == "eval/main"


def test_an_array_says_of_which_group_it_is(portal_is, capsys):
    shown = {"name": "many", "range": "0-1", "counts": {"queued": 2}, "done_at": None, "id": 4}
    shown |= {"done_why": "nothing is known", "cost": None, "currency": "EUR", "group": "eval"}
    portal_is(lambda _: httpx.Response(200, json=shown))
    assert run(["sets", "show", "4"]) == 0
    assert "Of its group eval the newest counts." in capsys.readouterr().out
