"""What happened, as rows and as hints: for the history of jobs and nodes, and for who watches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import F, QuerySet

from accounts.models import User
from accounts.permissions import managed_for
from accounts.services.audit import record
from accounts.statements import ChangedOnce
from scheduler import events
from scheduler.models import Attempt, Job, JobEvent, Node, NodeEvent
from scheduler.services.gathering import Step, afterwards
from scheduler.services.inbox.operating import tell_of_trouble
from scheduler.services.rows.adding import add_objects, add_rows


def record_event(
    job: Job,
    kind: str,
    *,
    now: datetime,
    actor: User | None = None,
    attempt: Attempt | None = None,
    came_from: str = "",
    to: str = "",
    detail: Mapping[str, object] | None = None,
    audited: Mapping[str, object] | None = None,
) -> None:
    """One line of the job's history; `audited`: what the audit has in place of `detail`."""
    event = JobEvent(
        job=job,
        attempt=attempt,
        at=now,
        actor=actor,
        kind=kind,
        from_state=came_from,
        to_state=to,
        detail=dict(detail or {}),
    )
    afterwards(Step.RECORD, _write, [event])
    told = detail if audited is None else audited
    audit_act_on(job, kind, now=now, actor=actor, came_from=came_from, to=to, detail=told)


def audit_act_on(
    job: Job,
    kind: str,
    *,
    now: datetime,
    actor: User | None,
    came_from: str = "",
    to: str = "",
    detail: Mapping[str, object] | None = None,
) -> None:
    """What somebody does to another person's job goes into the audit too."""
    if actor is None or actor.pk == job.owner_id:
        return
    before, after = None, None
    if to:
        before, after = {"state": str(came_from)}, {"state": str(to)}
        if detail and "reason" in detail:
            after["reason"] = str(detail["reason"])
    elif detail and {"was", "is"} <= detail.keys():
        of = kind.removesuffix("_changed")
        before, after = {of: str(detail["was"])}, {of: str(detail["is"])}
    elif detail and {"instead_of", "reason"} <= detail.keys():  # of a stop that is under way
        before, after = {"reason": str(detail["instead_of"])}, {"reason": str(detail["reason"])}
    giver = managed_for(actor, job.project)
    said = str((detail or {}).get("because", ""))
    record(
        actor,
        f"job.{kind}",
        job,
        before=before,
        after=after,
        on_behalf_of=giver,
        reason=said,
        now=now,
    )


def _write(lines: Sequence[JobEvent]) -> None:
    add_objects(lines)


def record_node_event(
    node: Node,
    kind: str,
    *,
    now: datetime,
    actor: User | None = None,
    came_from: str = "",
    to: str = "",
    detail: str = "",
) -> None:
    """One line of the node's history; what a person did goes into the audit too, and of what
    nobody did operators are told if it is trouble."""
    NodeEvent.objects.create(
        node=node,
        at=now,
        actor=actor,
        kind=kind,
        from_state=came_from,
        to_state=to,
        detail={"reason": detail} if detail else {},
    )
    if actor is not None:
        states = ({"state": str(came_from)}, {"state": str(to)}) if to else (None, None)
        record(
            actor,
            f"node.{kind}",
            node,
            before=states[0],
            after=states[1],
            reason=detail,
            now=now,
        )
    else:
        tell_of_trouble(node, kind, detail, now=now)


def record_node_moves(
    moved: Mapping[int, str], kind: str, *, now: datetime, to: str, detail: str = ""
) -> None:
    """A line each for many nodes that nobody moved by hand: the state each came from, by its key.

    Equals `record_node_event` for each.
    """
    told = {"reason": detail} if detail else {}
    rows = [(node, now, kind, came_from, to, told) for node, came_from in moved.items()]
    add_rows(NodeEvent, ("node", "at", "kind", "from_state", "to_state", "detail"), rows)


def tell_of_job(job: Job, pool_name: str = "") -> None:
    """Hint at a changed job to its page, its project's lists and its pool's queue."""
    events.publish_on_commit(f"job:{job.pk}")
    events.publish_on_commit(f"project:{job.project_id}")
    events.publish_on_commit(f"queue:{pool_name or job.pool.name}")


def tell_of_node(node_id: int) -> None:
    """Hint at a changed node to people and to its own held sync."""
    events.publish_on_commit("nodes")
    events.publish_on_commit(f"node:{node_id}")


def change_desired(node_ids: Iterable[int]) -> None:
    """What these nodes should run has changed: raise their revision and wake their sync."""
    if ids := sorted(set(node_ids)):
        afterwards(Step.LOCK_NODES, lock_nodes, ids)
        afterwards(Step.CALL_NODES, _raise_revisions, ids)


def lock_nodes(node_ids: Iterable[int]) -> None:
    """Lock these rows in the order of their ids, as everybody does who changes several."""
    ids = set(node_ids)
    if len(ids) > 1 and connection.features.has_select_for_update:
        rows = Node.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk")
        list(rows.values_list("pk"))


def _raise_revisions(node_ids: Sequence[int]) -> None:
    ids = sorted(set(node_ids))
    _RAISED.change(ids)
    for node_id in ids:
        tell_of_node(node_id)


def _raised(nodes: Sequence[int]) -> tuple[QuerySet[Node], dict[str, Any]]:
    return Node.objects.filter(pk__in=nodes), {"desired_revision": F("desired_revision") + 1}


_RAISED = ChangedOnce(_raised)
