"""What somebody looks for in the audit, read from the address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta

from accounts.errors import Invalid
from accounts.trail import Key, Wanted
from portal.templatetags.wording import action_said, actions_like

MAX_CHARS = 200
PARAMETERS = ("actor", "action", "object", "text", "from", "to", "sort", "after", "format")
ORDERS = ("-at", "at")
_TEXTS = ("actor", "action", "object", "text")


@dataclass
class AuditQuery:
    """The wishes; `problems` by parameter: a wrong one is named and not used."""

    wanted: Wanted
    texts: dict[str, str]
    first: str = ""
    last: str = ""
    after: Key | None = None
    oldest_first: bool = False
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether everything is asked for."""
        return self.wanted == Wanted()


def parse_audit_query(given: Mapping[str, str]) -> AuditQuery:
    """`?actor=&action=&object=&text=&from=&to=&sort=&after=`; days are whole ones in UTC.

    An action may be written as the page says it, or with some of its words: `webhook`.
    """
    problems: dict[str, str] = {}
    texts = {name: given.get(name, "").strip() for name in _TEXTS}
    texts["action"] = action_said(texts["action"])
    for name, text in texts.items():
        if len(text) > MAX_CHARS or "\x00" in text:
            problems[name] = f"Use at most {MAX_CHARS} plain characters."
            texts[name] = ""
    first, last = (_day(given.get(name, ""), name, problems) for name in ("from", "to"))
    if first and last and last < first:
        problems["to"] = "The last day is before the first; swap them."
        last = None
    after = None
    if given.get("after"):
        try:
            after = Key.parse(given["after"][:80])
        except Invalid as refused:
            problems["after"] = refused.detail
    if given.get("sort", "") not in ("", *ORDERS):
        problems["sort"] = f"There is no order {given['sort'][:40]!r}; choose from -at, at."
    actions = actions_like(texts["action"])
    wanted = Wanted(
        **{**texts, "action": "" if actions else texts["action"]},
        actions=actions,
        since=_midnight(first) if first else None,
        until=_midnight(last + timedelta(days=1)) if last else None,
    )
    return AuditQuery(
        wanted,
        texts,
        first.isoformat() if first else "",
        last.isoformat() if last else "",
        after,
        given.get("sort") == "at",
        problems,
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _day(text: str, name: str, problems: dict[str, str]) -> date | None:
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if not 2000 <= day.year <= 2999 or len(text) != 10:
            raise ValueError
    except ValueError:
        problems[name] = f"{text[:20]!r} is not a day; write it like 2026-11-20."
        return None
    return day
