"""What a chat is sent calls nobody, leads nowhere but to the portal, and ends no line."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.services.inbox.chat.wording import Line, message, quiet_text

INBOX = "https://trainyard.example.org/notifications/"
URL = "https://trainyard.example.org/jobs/1/"
HOSTILE = (
    "<!channel> @here",
    "<@U0123> <#C01>",
    "@all @channel",
    "[win](https://evil.example)",
    "[win](//evil.example)",
    "[win][1] ![x](y)",
    "<https://evil.example|Open>",
    "https://evil.example/x",
    "www.evil.example train.py",
    "mailto:a@evil.example",
    "```\n> quoted\n# heading",
    "a\u202eb\u2028c\x07d",
    "~town-square #general",
)


def sent(dialect: str, *lines: Line) -> str:
    return message(dialect, lines, inbox=INBOX)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_other_people_is_live_in_slack_or_mattermost(text):
    shown = json.loads(sent("slack", Line(text, text, URL)))["text"]
    first, second, link = shown.split("\n")
    assert first == second and link == f"<{URL}|Open>"
    assert not re.search(r"[<>`]|[@#~](?!\u200b)|://|\](?=[(\[])|\w\.\w", first)


@given(st.text(max_size=400))
def test_whatever_stands_there_is_one_short_line(text):
    shown = quiet_text(text)
    assert all(char.isprintable() or char == "\u200b" for char in shown)
    assert len(shown.replace("\u200b", "")) <= 240
    assert "://" not in shown and not re.search(r"@(?!\u200b)", shown)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_card_of_teams_is_runs_without_markup_and_links_to_the_portal_alone(text):
    body = json.loads(sent("teams", Line(text, text, URL), Line("b", "", URL)))
    (card,) = [one["content"] for one in body["attachments"]]
    assert {one["type"] for one in card["body"]} == {"RichTextBlock"}
    found = re.findall(r'"url": "([^"]*)"', json.dumps(card))
    assert found == [URL, URL, INBOX]
    assert "://evil" not in json.dumps(card, ensure_ascii=False)


def test_a_long_list_is_cut_and_small_enough():
    lines = [Line("ö" * 500, "€" * 500, URL) for _ in range(60)]
    for dialect in ("slack", "teams"):
        body = sent(dialect, *lines)
        assert "and 45 more" in body and len(body.encode()) < 28 * 1024
