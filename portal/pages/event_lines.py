"""Events of jobs and nodes, and what becomes of a node that was resumed, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portal.templatetags.measures import size_bytes
from scheduler.models import JobEvent, Node, NodeEvent
from scheduler.states import IDLE_ACT_DONE, EndReason, NodeState, dates_in_words, end_sentence

WORDS: Mapping[str, str] = {
    "submitted": "Submitted",
    "assigned": "Placed on its nodes",
    "running": "Running",
    "stop_requested": "Asked to stop",
    "checkpoint": "Checkpoint confirmed",
    "checkpoint_unread": "The last checkpoint could not be read in time",
    "log_incomplete": "The end of a log did not arrive",
    "resumed": "Resumed from a checkpoint",
    "starts_anew": "Starts anew",
    "code_differs": "Its ranks run different code",
    "paused": "Paused",
    "ended": "Ended",
    "cancelled": "Cancelled",
    "held": "Held",
    "released": "Released",
    "limit_changed": "Time limit changed",
    "tier_changed": "Tier changed",
    "nodes_changed": "Most nodes changed",
    "request_changed": "Asks for something else",
    "moved_to_pool": "Went to another of its pools, where its turn came",
    "finish_by_changed": "Has to be finished by another moment",
    "max_cost_changed": "Another highest price",
    "finish_at_risk": "Expected to be finished too late",
    "finish_missed": "Not finished by its moment",
    "turn_changed": "Its owner put their waiting jobs in another order",
    "took_over": "The newest of its group",
    "requeued": "Waits again in its old place",
    "room_ordered": "Others are stopped to make room for it",
    "resize_ordered": "To go on with another number of nodes",
    "idle_warned": "Its GPUs do little; its owner was warned",
    "idle_worked": "Its GPUs work again",
    "idle_kept": "Still needed, though its GPUs do little",
    "idle_lifted": "Warned no more: the rule for GPUs that do little was changed",
    "room_lost": "The room that was made for it could not be kept",
    "retried": "Waits for another attempt",
    "enrolled": "Enrolled",
    "enrolled_again": "Enrolled again",
    "log_conflict": "Sent other bytes of a log than before; what was stored stays",
    "identity_copied": "Two machines speak in its name",
    "placed": "Place told",
    "labelled": "Labels told",
    "drain": "Drain asked for",
    "drained": "Drained",
    "resume": "Takes work again",
    "retire": "Retired",
    "silent": "Fell silent",
    "agent_refused": "Its agent was refused",
    "heard_again": "Heard again",
    "counted": "Said, after the database was put back, what runs there",
    "lost": "Given up as lost",
    "token_offered": "A new token waits for its agent",
    "token_renewed": "Its agent uses the new token",
    "said_off": "Said to be without power",
    "powered_off": "Given up: two people know that it has no power",
    "quarantine": "Quarantined by an operator",
    "node_quarantined": "Taken out of service",
    "node_returned": "Back in service",
    "device_quarantined": "GPU taken out of service",
    "device_check": "GPU is to be checked",
    "device_check_failed": "GPU did not pass its check",
    "device_returned": "GPU back in service",
    "device_cut": "GPU cut into slots",
    "device_made_whole": "GPU whole again",
}
# Said by the line itself already, or of no use to people.
_UNSAID = frozenset({"fence", "attempt", "end_reason", "facts", "who_id"})


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event: what happened, what its facts add, and who did it (empty: Trainyard itself)."""

    event: JobEvent | NodeEvent
    words: str
    detail: str
    who: str

    @property
    def said_by(self) -> str:
        """Who did it, where the detail does not name them."""
        return "" if f"by {self.who}" in self.detail else self.who


def event_line(event: JobEvent | NodeEvent, facts: Mapping[str, object]) -> EventLine:
    """An event as a line, with those of its facts that its reader may see; a kind without words
    here shows its own name."""
    words = WORDS.get(event.kind, event.kind.replace("_", " ").capitalize())
    who = event.actor.get_full_name() if event.actor else ""
    reason = str(facts.get("reason", ""))
    if reason in set(EndReason):
        detail = end_sentence(reason, {"who": who or "Trainyard", **facts})
    elif event.kind == "idle_warned":
        detail = _warned(facts)
    elif event.kind == "checkpoint":
        words, detail = _saved(words, facts)
    elif event.kind == "moved_to_pool":
        detail = f"from {facts.get('from')} to {facts.get('to')}"
    else:
        detail = ", ".join(
            _fact(key, value)
            for key, value in facts.items()
            if key not in _UNSAID and isinstance(value, str | int | float) and value != ""
        )
    return EventLine(event, words, detail, who)


def _fact(key: str, value: str | float) -> str:
    if key == "bytes":
        return size_bytes(value)
    if key == "step" and isinstance(value, int):
        return f"step {value:,}"
    said = dates_in_words(value) if isinstance(value, str) else value
    return f"{key.replace('_', ' ')}: {said}"


def _warned(facts: Mapping[str, object]) -> str:
    """By which rule, what was seen, what follows when."""
    seen = f": {facts['evidence']}" if "evidence" in facts else ""
    then = {str(act): done for act, done in IDLE_ACT_DONE.items()}.get(str(facts.get("then")), "")
    follows = f"; {then} at {facts['at']}" if "at" in facts else ""
    return dates_in_words(f"By {facts.get('by')}{seen}{follows}")


def _saved(words: str, facts: Mapping[str, object]) -> tuple[str, str]:
    """Of the last one also how many there were, and the newest, which may be a little younger."""
    step, size, times = (facts.get(name) for name in ("step", "bytes", "times"))
    newest = facts.get("newest_step", step)
    more = []
    if isinstance(times, int) and times > 1:
        words, step, size = "Newest checkpoint", newest, facts.get("newest_bytes", size)
        more = [f"{times:,} told, one a minute at most"]
    elif newest != step:
        more = [f"the newest is of step {newest:,}"]
    said = [f"step {step:,}"] if isinstance(step, int) else []
    said += [size_bytes(size)] if isinstance(size, int) else []
    return words, ", ".join([*said, *more])


def still_out(node: Node) -> str:
    """What a node that was just resumed waits for; empty: it takes work again."""
    if node.state == NodeState.READY:
        return ""
    if node.state == NodeState.QUARANTINED:
        return f"Node {node.name} returns by itself once this is over: {node.state_reason}."
    well = " and well" if node.trouble or node.own_trouble else ""
    return f"Node {node.name} takes work again once it is heard{well}."
