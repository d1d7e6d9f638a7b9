"""Operators are told of nodes in trouble, in the transaction of the node's event.

Once for each trouble, not more often where one comes and goes, and not of every node where one
takes many along: a switch that fails loses hundreds of them within a minute.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

from accounts.permissions import people_who_can
from scheduler.models import Node, Notification
from scheduler.services.inbox.telling import News, tell
from scheduler.states import NoticeKind

# By kind of event, what goes on from the node's name.
_WORDS: Mapping[str, str] = {
    "lost": "was lost",
    "node_quarantined": "is out of service",
    "device_quarantined": "has a GPU out of service",
    "identity_copied": "speaks from two machines",
    "log_conflict": "sent other bytes of a log than before",
}
# A trouble is told again after this; of so many nodes meanwhile.
_SPAN_S = 3600
MOST_OF_A_WAVE = 5
_LAST = " Others with the same trouble within the hour are not told one by one."


def tell_of_trouble(node: Node, kind: str, detail: str, *, now: datetime) -> None:
    """Tell every operator, if the event is trouble; nothing is asked for any other.

    The key is this node's alone: two nodes in trouble at once never wait for each other here.
    """
    if kind not in _WORDS:
        return
    people = list(people_who_can("operate", None).order_by("pk").values_list("pk", flat=True))
    # What stands in brackets differs from time to time: by how many seconds a clock is off.
    what = hashlib.sha256(detail.partition(" (")[0].encode()).hexdigest()[:12]
    wave = f"{kind}:{what}:{int(now.timestamp()) // _SPAN_S}:"
    told = Notification.objects.filter(person__in=people[:1], key__startswith=wave).count()
    if told >= MOST_OF_A_WAVE:
        return
    text = f"{detail[:1].upper()}{detail[1:]}." if detail else ""
    if told == MOST_OF_A_WAVE - 1:
        text = f"{text}{_LAST}".lstrip()
    tell(
        [
            News(
                person_id=person,
                kind=NoticeKind.NODE_TROUBLE,
                subject=f"node:{node.pk}",
                title=f"Node {node.name} {_WORDS[kind]}",
                text=text,
                path=f"/cluster/nodes/{node.name}/",
                key=f"{wave}{node.pk}",
            )
            for person in people
        ],
        now=now,
    )
