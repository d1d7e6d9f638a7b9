"""Operators are told of nodes in trouble, in the transaction of the node's event.

Once for each trouble, and not more often where one comes and goes or takes many nodes along: a
switch that fails loses hundreds of them within a minute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from accounts.permissions import people_who_can
from scheduler.models import Node
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind, Trouble


@dataclass(frozen=True, slots=True)
class _Rule:
    """`words` go on from the node's name; of all nodes together or of each, once in `span`."""

    words: str
    span: timedelta
    of_all: bool = False


_RULES: Mapping[str, _Rule] = {
    # It takes a quarter of an hour of silence, so one node cannot come and go within the span.
    "lost": _Rule("was lost", timedelta(minutes=10), of_all=True),
    "node_quarantined": _Rule("is out of service", timedelta(hours=1), of_all=True),
    "device_quarantined": _Rule("has a GPU out of service", timedelta(hours=1)),
    "identity_copied": _Rule("speaks from two machines", timedelta(hours=1)),
    "log_conflict": _Rule("sent other bytes of a log than before", timedelta(hours=1)),
}


def tell_of_trouble(node: Node, kind: str, detail: str, *, now: datetime) -> None:
    """Tell every operator, if the event is trouble; nothing is asked for any other."""
    rule = _RULES.get(kind)
    if rule is None:
        return
    # What stands in brackets differs from time to time: by how many seconds a clock is off.
    what = hashlib.sha256(detail.partition(" (")[0].encode()).hexdigest()[:12]
    when = int(now.timestamp() // rule.span.total_seconds())
    # A copy is somebody's doing, and each wants an answer of its own.
    is_wave = rule.of_all and node.trouble != Trouble.COPIED
    whose = "all" if is_wave else str(node.pk)
    more = "Others with the same trouble at this time are not told one by one."
    text = ". ".join(part.rstrip(".") for part in (detail, more if is_wave else "") if part)
    tell(
        [
            News(
                person_id=person.pk,
                kind=NoticeKind.NODE_TROUBLE,
                subject="nodes" if is_wave else f"node:{node.pk}",
                title=f"Node {node.name} {rule.words}",
                text=text and f"{text[:1].upper()}{text[1:]}.",
                path=f"/cluster/nodes/{node.name}/",
                key=f"{kind}:{whose}:{what}:{when}",
            )
            for person in people_who_can("operate", None)
        ],
        now=now,
    )
