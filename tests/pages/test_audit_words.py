"""No row of the audit shows a word of the code, whatever kind of change it tells of."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from accounts.services.audit import Subject, record, written
from portal.reports.diffs import told_changes
from portal.templatetags.acts import ACTION_WORDS
from portal.templatetags.wording import action_said, action_words, actions_like
from tests.pages.audited import KINDS

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accounts", "scheduler", "portal")
# What services call, by themselves or through a step of their own.
WRITERS = frozenset({"record", "_recorded", "_record", "_proposed", "_note", "record_of", "note"})
RAW = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\b(?:None|True|False)\b")


def states() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every kind, as often as its field with the most codes needs."""
    for action, fields in KINDS.items():
        for n in range(max((len(codes) for codes in fields.values()), default=1)):
            yield action, {name: codes[n % len(codes)] for name, codes in fields.items()}


@pytest.mark.parametrize("action", KINDS)
def test_every_code_of_every_kind_is_said_in_words(action):
    told = [
        f"{one.field}: {one.before} → {one.after}"
        for kind, state in states()
        if kind == action
        for one in (
            *told_changes(action, "", written(state)),
            *told_changes(action, written(state), written(dict.fromkeys(state))),
        )
    ]
    # A side that is not there is shown as nothing at all.
    said = [line.replace(": None → ", ": → ").removesuffix(" → None") for line in told]
    assert [line for line in said if RAW.search(line)] == []


def test_every_action_has_words_that_lead_back_to_it():
    assert KINDS.keys() - ACTION_WORDS.keys() == set()
    for action, said in ACTION_WORDS.items():
        assert action_said(said.lower()) == action and action_words(action) == said


def test_words_without_a_noun_of_their_own_find_what_has_them():
    assert "policy.pause_webhook" in actions_like("webhook")
    assert actions_like("quota") == actions_like("quota.set") == actions_like("") == ()
    assert action_said("team: note") == "team.note" and action_words("team.note") == "team: note"


def test_changes_are_said_as_the_pages_say_them():
    was = written({"idle": "none", "recovery": "rates", "unreachable": "platform", "refund_s": 0})
    now = written({"idle": "by_use", "recovery": "cost", "unreachable": "team", "refund_s": 3600})
    assert [
        (one.field, one.before, one.after) for one in told_changes("share.propose", was, now)
    ] == [
        ("idle time is paid by", "nobody: the cluster bears it", "by GPU time used"),
        ("teams pay", "by rates", "by cost"),
        ("credited before a preemption", "0 s", "1 h"),
        ("held by a silent node: paid by", "the cluster", "the team that holds it"),
    ]
    was, now = (
        written({"name": "fair", "preempts": None, "head_patience_s": 600.0}),
        written({"name": "las", "preempts": True, "head_patience_s": None}),
    )
    assert [
        (one.field, one.before, one.after) for one in told_changes("pool.policy", was, now)
    ] == [
        ("patience", "10 min", "as the cluster says"),
        ("who is next", "smallest share first", "least run first"),
        ("may stop others", "as the cluster says", "yes"),
    ]


def test_ranges_rules_of_time_and_whole_nodes_are_said_in_words():
    rules = {"gpus_per_node": "1..8", "time_limit": "..12h", "nodes": "2..", "script": "locked"}
    told = {
        "template.create": ({"rules": rules}, "GPUs per node 1 to 8; nodes 2 at least; "
                            "script locked; time limit 12h at most"),
        "schedule.create": ({"rule": "30 2 * * mon-fri"}, "at 02:30, Monday to Friday"),
        "schedule.change": ({"rule": "7,9,30 2,5 3 * *"}, "7,9,30 2,5 3 * *"),
        "booking.plan": ({"gpus_per_node": 0}, "all, whole nodes"),
        "booking.edit": ({"gpus_per_node": 4}, "4"),
    }  # fmt: skip
    for action, (state, words) in told.items():
        (one,) = told_changes(action, "", written(state))
        assert one.after == words, action


def test_an_end_that_stands_for_none_is_said_so():
    ends = [f"{year}-01-01T00:00:00+00:00" for year in (2027, 2126)]
    told = [told_changes("budget.set", "", written({"valid_until": end})) for end in ends]
    assert [(one.field, one.after) for (one,) in told] == [
        ("until", "2027-01-01 00:00"),
        ("until", "no end"),
    ]


class Rows(HTMLParser):
    """What is read of each row, but for what programs are called by."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[str] = []
        self.is_row, self.is_code = False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr" and str(dict(attrs).get("id") or "").startswith("e"):
            self.rows.append("")
            self.is_row = True
        self.is_code = tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.is_row &= tag != "tr"
        self.is_code = False

    def handle_data(self, data: str) -> None:
        if self.is_row and not self.is_code:
            self.rows[-1] += data


@pytest.mark.django_db
def test_no_row_of_the_page_shows_a_word_of_the_code(client, root):
    subjects = {
        "share": Subject("poolterms", "1", "default: idle by_use, platform hybrid"),
        "policy": Subject("schedulingrule", "1", "scheduling by las"),
        "delegation": Subject("delegation", "1", "3 for 4: approve_requests"),
    }
    for action, state in states():
        noun = action.partition(".")[0]
        about = subjects.get(noun, Subject(noun, "1", ""))
        record(root, action, about, before=dict.fromkeys(state), after=state)
        record(root, action, about, after=state)
    client.force_login(root)
    address, seen = "/audit/", []
    while address:
        text = client.get(address).content.decode()
        reader = Rows()
        reader.feed(text)
        seen += reader.rows
        following = re.search(r'rel="next" href="([^"]+)"', text)
        address = following[1].replace("&amp;", "&") if following else ""
        if address:
            address = f"/audit/{address}" if address.startswith("?") else address
    assert len(seen) >= 2 * len(list(states()))
    assert [row for row in seen if RAW.search(row)] == []


def test_every_kind_that_is_written_is_here():
    named, nouns = set(), set()
    for text in filter(
        str, map(_source, (path for room in ROOMS for path in (ROOT / room).rglob("*.py")))
    ):
        for part in _given(text):
            if isinstance(part, ast.JoinedStr) and isinstance(part.values[0], ast.Constant):
                nouns.add(str(part.values[0].value).partition(".")[0])
            elif isinstance(part, ast.Constant) and re.fullmatch(
                r"[a-z_]+\.[a-z_]*[a-z]", str(part.value)
            ):
                named.add(part.value)
    assert len(named) > 90 and len(nouns) > 8
    assert named - KINDS.keys() == set()
    known = {kind.partition(".")[0] for kind in KINDS}
    assert {noun for noun in nouns if noun.isidentifier()} - known == set()


def _source(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text if "audit" in text and "/migrations/" not in str(path) else ""


def _given(text: str) -> Iterator[ast.AST]:
    """What is handed to those who write events."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in WRITERS:
                yield from (part for given in node.args for part in ast.walk(given))
