"""What a terminal shows: no number is cut, and nothing of a log is held back."""

from __future__ import annotations

import io
from contextlib import closing, redirect_stdout

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.cli.client import Api, Patience
from portal.cli.config import Config, load_config
from portal.cli.exits import NOT_ALLOWED, UNREACHABLE, Failure
from portal.cli.follow import _next_attempt
from portal.cli.output import JOB_HEADS, LogWriter, expected_start, harmless, print_table

pytestmark = pytest.mark.once
LONG = "llama3-8b-sft-lr3e-5-warmup500-seed42"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [200, 100, 80, 60, 20])
def test_no_number_and_no_state_is_cut(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    why = "Needs 8 GPUs of any model; 3 of 16 in pool default are free."
    place = "research/language-models"
    rows = [(n, "unreachable", LONG, place, "alice", "2x8", "3h05m", why) for n in (48213, 48215)]
    with redirect_stdout(Terminal()) as screen:
        print_table(JOB_HEADS, rows, "none")
    shown = screen.getvalue()
    for word in ("48213", "48215", "unreachable", "2x8", "3h05m", "JOB", "SINCE"):
        assert word in shown
    assert (LONG in shown) == (columns == 200)


@given(st.lists(st.sampled_from(["\x1b", "[", "3", "1m", "]0;t", "\x07", "\\", "a", "\n", "é"])))
def test_a_log_in_pieces_shows_what_it_shows_at_once(pieces):
    with redirect_stdout(Terminal()) as screen, closing(LogWriter()) as writer:
        for raw in "".join(pieces).encode():
            writer.write(bytes([raw]))
    assert screen.getvalue() == harmless("".join(pieces))


def test_what_follows_a_stray_escape_is_shown():
    with redirect_stdout(Terminal()) as screen:
        LogWriter().write(b"x\x1b\nlast lines\nof log\n")
    assert screen.getvalue() == "x\nlast lines\nof log\n"


def api(answer) -> Api:
    found = Api(Config("https://portal.example.org", "ty_x"))
    found._http = httpx.Client(
        base_url="https://portal.example.org", transport=httpx.MockTransport(answer)
    )
    return found


@pytest.mark.parametrize("headers", [{"Location": "https://there/"}, {}])
def test_an_answer_that_leads_elsewhere_is_none(headers):
    where = headers.get("Location", "another address")
    with pytest.raises(Failure, match=where) as refused:
        api(lambda _: httpx.Response(301, headers=headers)).get("/jobs/")
    assert refused.value.code == UNREACHABLE


def test_the_next_attempt_is_waited_for_through_an_outage(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _s: None)
    answers = [503] * 8 + [{"attempt": 1, "is_final": False}, {"attempt": 2, "is_final": False}]

    def answer(_request: httpx.Request) -> httpx.Response:
        said = answers.pop(0)
        return httpx.Response(said) if isinstance(said, int) else httpx.Response(200, json=said)

    assert _next_attempt(api(answer), 7, 1, Patience()) == 2


def test_the_environment_is_enough(tmp_path, monkeypatch):
    folder = tmp_path / "trainyard"
    folder.mkdir()
    (folder / "config.json").write_text("{broken")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("TRAINYARD_SERVER", "https://portal.example.org/")
    with pytest.raises(Failure, match="cannot be read"):
        load_config()
    monkeypatch.setenv("TRAINYARD_TOKEN", "ty_x")
    assert load_config() == Config("https://portal.example.org", "ty_x")
    monkeypatch.delenv("TRAINYARD_TOKEN")
    (folder / "config.json").unlink()
    with pytest.raises(Failure) as refused:
        load_config()
    assert refused.value.code == NOT_ALLOWED


def test_an_expected_start_is_said_as_the_page_says_it():
    noon = 1_774_958_400
    assert expected_start(noon, noon + 60) == (
        "Expected start: 2026-03-31 12:00 UTC if jobs end as usual, "
        "2026-03-31 12:01 UTC if they run to their limits."
    )
    assert expected_start(noon, noon) == (
        "Expected start: 2026-03-31 12:00 UTC if jobs run to their time limits."
    )
    assert expected_start(None, None) == ""
