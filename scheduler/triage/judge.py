"""From reports and log to one finding. Reasons first, then the table, then the exit code.

1. A reason the node or the scheduler gave stands; its detail makes the class more precise, but
   never moves it from the platform to the user or back.
2. For a program that ended by itself, the log is read: the signature nearest to the root wins.
3. Without one, the exit code says what it can; else the answer is `unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler.states import END_RULES, INFRASTRUCTURE, PAUSES, EndReason, FailureClass
from scheduler.triage.following import FOLLOWING
from scheduler.triage.model import Evidence, Failure, Finding
from scheduler.triage.programs import TABLE
from scheduler.triage.reading import UNCAUGHT, Hit, read_hits, words_in
from scheduler.triage.signatures import HARDWARE, PLACES, RESOURCES, Signature

MAX_EVIDENCE = 3
MAX_EVIDENCE_CHARS = 300
_PEER_GONE = frozenset({EndReason.NODE_LOST, EndReason.DEVICE_FAILED})
_QUIET = PAUSES | {
    EndReason.COMPLETED,
    EndReason.CANCELLED_BY_USER,
    EndReason.CANCELLED_BY_ADMIN,
    EndReason.RESIZED,
    EndReason.SESSION_IDLE,
    EndReason.IDLE_STOPPED,
    EndReason.SUPERSEDED,
}
# Of a process that was within its own limit.
_SHORT_NODE = "the node ran out of memory"
# The server itself stopped the program for these and knows why.
_KNOWN_CAUSE = (EndReason.NODE_DRAINED, EndReason.DEVICE_FAILED)

# What to do about a finding that has no signature of the table: by its own name.
ADVICE: Mapping[str, str] = {
    "crash": "The program crashed in native code. Run it with PYTHONFAULTHANDLER=1 to see where.",
    "command_missing": "A command does not exist on the node or may not be run. Check its name.",
    "shared_memory_full": "The program met a bus error, mostly when shared memory or a disk ran "
    "out. Use fewer loader workers.",
    "killed": "Something sent the program a kill signal; the node's memory limit did not. Look "
    "for a `kill` or a timeout in the job itself.",
    "memory_limit": "Ask for more memory, load less at a time, or use fewer loader workers.",
    "time_limit": "Clone the job with a longer limit; go on from its last checkpoint.",
    "booking_ended": "Clone the job into another booking, or without one; go on from its last "
    "checkpoint.",
    "finish_by_reached": "Clone the job with a later moment, or keep it when late; go on from its "
    "last checkpoint.",
    "finish_by_missed": "Clone the job with a shorter time limit, with a later moment, or so that "
    "it is kept when late.",
    "max_cost_reached": "Clone the job with a higher price, or ask for fewer or cheaper GPUs; go "
    "on from its last checkpoint.",
    "max_cost_spent": "Clone the job with a higher price, or ask for fewer or cheaper GPUs.",
    "dependency_never": "Look why what it waited for did not come about.",
    "budget_spent": "Ask for a larger budget; it waits again and goes on from its checkpoint.",
    "preempted": "Nothing to do: it waits again in its old place and goes on from its checkpoint.",
    "node_lost": "Nothing to do: the job goes to another node, free of charge.",
    "node_out_of_memory": "Nothing to do: the job goes to another node, free of charge. The "
    "operator should see what uses the node's memory beside its jobs.",
    "node_drained": "Nothing to do: it waits again in its old place.",
    "device_failed": "Nothing to do: the job goes to another card, free of charge.",
    "start_failed": "Nothing to do for you; the operator finds the node's message here.",
    "start_timeout": "Nothing to do for you; the operator should look at the node.",
    "node_disk_full": "A disk of the node is full. The operator has to make room.",
    "code_differs": "Nothing to do: the next attempt takes one commit on all its nodes.",
    "setup_failed": "Correct what the message names and submit again.",
    "infeasible": "Ask for less a node, or for another pool.",
    "peer_node_lost": "Another rank's node was lost and took the job along. Nothing to do.",
    "peer_device_failed": "Another rank's card failed and took the job along. Nothing to do.",
    "peer_finished_early": "Another rank ended with exit code 0 while this one still needed it. "
    "Let every rank do the same number of steps, and wait for each other at the end.",
    "unknown": "The log holds no message known here. Read its last lines; if they are empty, let "
    "the program print what it does.",
    "": "",
}


_ADVICE_OF = {one.name: one.advice for one in (*TABLE, UNCAUGHT)}


def advice_of(signature: str) -> str:
    """What to do about a finding of this name; empty for one that is no longer known."""
    return _ADVICE_OF.get(signature) or ADVICE.get(signature, "")


def judge(failure: Failure) -> Finding:
    """The class of a failure with its evidence; `unknown` when nothing speaks for any."""
    reason = failure.reason
    if reason in _QUIET:
        return Finding(FailureClass.NONE, "", (), "", True)
    if reason is EndReason.EXIT_CODE:
        return _from_program(failure)
    if reason is EndReason.SETUP_FAILED:
        return _from_setup(failure)
    return _from_node(failure)


def _from_node(failure: Failure) -> Finding:
    rule_class = END_RULES[failure.reason].failure
    name = str(failure.reason)
    told = _told(failure)
    if failure.reason is EndReason.OUT_OF_MEMORY:
        name = "memory_limit"
    elif failure.reason is EndReason.NODE_LOST and _SHORT_NODE in failure.detail:
        name = "node_out_of_memory"
    elif rule_class in INFRASTRUCTURE and failure.reason not in _KNOWN_CAUSE:
        found = _first(failure.detail, (*HARDWARE, *PLACES, *RESOURCES))
        if found is not None and found.name == "disk_full":
            rule_class, name = FailureClass.INFRA_STORAGE, "node_disk_full"
        elif found is not None and found.failure in INFRASTRUCTURE:
            return Finding(found.failure, found.name, told, found.advice, True)
    return Finding(rule_class, name, told, ADVICE[name], True)


def _from_setup(failure: Failure) -> Finding:
    """The detail may quote the user's own tools, so it confirms nothing."""
    found = _first(failure.detail, TABLE)
    if found is None:
        advice = ADVICE["setup_failed"]
        return Finding(FailureClass.USER_CONFIG, "setup_failed", _told(failure), advice, True)
    return Finding(found.failure, found.name, _told(failure), found.advice, False)


def _from_program(failure: Failure) -> Finding:
    hits = read_hits(failure.tails, failure.rank)
    gone = next((reason for reason in failure.others if reason in _PEER_GONE), None)
    if hits:
        best = hits[0].signature
        if gone is not None and (best in FOLLOWING or best.name == "link_error"):
            name = f"peer_{gone}"
            return Finding(
                END_RULES[gone].failure, name, _evidence(hits), ADVICE[name], is_confirmed=True
            )
        if best in FOLLOWING and EndReason.COMPLETED in failure.others:
            name = "peer_finished_early"
            return Finding(FailureClass.USER_CODE, name, _evidence(hits), ADVICE[name], True)
        return Finding(best.failure, best.name, _evidence(hits), best.advice, False)
    return _from_exit_code(failure)


def _from_exit_code(failure: Failure) -> Finding:
    code = failure.exit_code or 0
    code = 128 - code if code < 0 else code
    cases = {
        126: (FailureClass.USER_CONFIG, "command_missing"),
        127: (FailureClass.USER_CONFIG, "command_missing"),
        132: (FailureClass.USER_CODE, "crash"),
        134: (FailureClass.USER_CODE, "crash"),
        135: (FailureClass.USER_RESOURCE, "shared_memory_full"),
        136: (FailureClass.USER_CODE, "crash"),
        137: (FailureClass.UNKNOWN, "killed"),
        139: (FailureClass.USER_CODE, "crash"),
    }
    found, name = cases.get(code, (FailureClass.UNKNOWN, "unknown"))
    return Finding(found, name, _told(failure), ADVICE[name], found != FailureClass.UNKNOWN)


def _first(text: str, table: Sequence[Signature]) -> Signature | None:
    low = text[:4000].lower()
    return next((one for one in table if words_in(low, one)), None)


def _told(failure: Failure) -> tuple[Evidence, ...]:
    detail = _short(" ".join(failure.detail[:4000].split()))
    return (Evidence(failure.rank, 0, detail),) if detail else ()


def _evidence(hits: Sequence[Hit]) -> tuple[Evidence, ...]:
    """The best hit and others of its kind, each line once."""
    name = hits[0].signature.name
    found: list[Evidence] = []
    for hit in hits:
        if hit.signature.name == name and len(found) < MAX_EVIDENCE:
            text = _short(hit.line.text)
            found.append(Evidence(hit.line.rank, hit.line.number, text))
    return tuple(found)


def _short(text: str) -> str:
    is_long = len(text) > MAX_EVIDENCE_CHARS
    return text[: MAX_EVIDENCE_CHARS - 1] + "…" if is_long else text
