"""What a chat is sent. Names of jobs and what programs said are other people's text: whatever
stands in them, they call nobody, lead nowhere and end no line.

Chats differ in what they take for markup (Slack's own, Markdown of Mattermost and Rocket.Chat), so
what calls or links in any of them is broken by a space without width; cards of Teams are made of
runs of text that know no markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.models import Dialect

# So many are listed in one message; a card of Teams has 28 KiB at most.
MOST_LISTED = 15
_MOST_CHARS = 240
_GAP = "\u200b"
# A name that is called, a channel, a scheme, a host, Markdown's link and picture.
_LIVE = re.compile(
    r"[@#~]|:(?=//)|\](?=[(\[:])|(?<=\w)\.(?=\w)|(?<=mailto):|(?<=tel):", re.IGNORECASE
)
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_CARD = "http://adaptivecards.io/schemas/adaptive-card.json"


@dataclass(frozen=True, slots=True)
class Line:
    """One piece of news, and its page in the portal."""

    title: str
    text: str
    url: str


def message(dialect: str, lines: Sequence[Line], *, inbox: str) -> str:
    """The body to send: one piece of news, or a list with a link to the `inbox` for the rest."""
    found = _card(lines, inbox) if dialect == Dialect.TEAMS else _text(lines, inbox)
    return json.dumps(found, ensure_ascii=False)


def quiet_text(text: str) -> str:
    """One line that calls nobody and links nowhere, 240 characters at most."""
    line = "".join(char if char.isprintable() else " " for char in text).replace("`", "'")
    line = " ".join(line.split())
    short = line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…"
    return _LIVE.sub(lambda found: found[0] + _GAP, short)


def _text(lines: Sequence[Line], inbox: str) -> dict[str, Any]:
    """Slack's incoming webhooks, which Mattermost and Rocket.Chat take, too."""
    if len(lines) == 1:
        parts = [_escaped(lines[0].title), _escaped(lines[0].text), f"<{lines[0].url}|Open>"]
        text = "\n".join(part for part in parts if part)
    else:
        listed = [
            f"• {' – '.join(filter(None, map(_escaped, (one.title, one.text))))} <{one.url}|Open>"
            for one in lines[:MOST_LISTED]
        ]
        text = "\n".join([_heading(lines), *listed, f"<{inbox}|{_rest(lines)}>"])
    return {"text": text, "unfurl_links": False, "unfurl_media": False}


def _escaped(text: str) -> str:
    return quiet_text(text).translate(_ENTITIES)


def _heading(lines: Sequence[Line]) -> str:
    return f"{len(lines)} pieces of news from Trainyard:"


def _rest(lines: Sequence[Line]) -> str:
    over = len(lines) - MOST_LISTED
    return f"and {over} more: all of them in Trainyard" if over > 0 else "All of them in Trainyard"


def _card(lines: Sequence[Line], inbox: str) -> dict[str, Any]:
    """An adaptive card, as Teams' workflow *When a Teams webhook request is received* takes it."""
    if len(lines) == 1:
        body = [_runs(lines[0].title, lines[0].text)]
        heading, act, url = quiet_text(lines[0].title), "Open", lines[0].url
    else:
        heading = _heading(lines)
        body = [_runs(heading, "")]
        body += [_runs(one.title, one.text, one.url) for one in lines[:MOST_LISTED]]
        act, url = _rest(lines), inbox
    card = {
        "$schema": _CARD,
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "actions": [{"type": "Action.OpenUrl", "title": act, "url": url}],
    }
    content = "application/vnd.microsoft.card.adaptive"
    sent = {"contentType": content, "contentUrl": None, "content": card}
    return {"type": "message", "summary": heading, "attachments": [sent]}


def _runs(title: str, text: str, url: str = "") -> dict[str, Any]:
    first: dict[str, Any] = {"type": "TextRun", "text": quiet_text(title), "weight": "Bolder"}
    if url:
        first["selectAction"] = {"type": "Action.OpenUrl", "url": url}
    more = [{"type": "TextRun", "text": f" – {quiet_text(text)}"}] if text else []
    return {"type": "RichTextBlock", "inlines": [first, *more]}
