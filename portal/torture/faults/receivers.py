"""Harm to those who are told, and to who tells them: webhooks and chats (fault 17)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from portal.embedded.programs import BACKGROUND
from portal.torture.faults.hand import Fault, Hand
from portal.torture.people.receiving import Receiver

# News are looked for every ten seconds here, or later where the worker was hurt as well.
_TRIES, _EACH_S = 44, 0.5
# There are three receivers.
_ONE_EACH = ("receiver", 3)


def _hear_one(hand: Hand, receiver: Receiver) -> bool:
    """Wait for a call; whether one came."""
    for _ in range(_TRIES):
        if receiver.hits or hand.over.is_set():
            break
        hand.nap(_EACH_S)
    return receiver.hits > 0


@contextmanager
def _whoever_is_free(hand: Hand) -> Iterator[Receiver | None]:
    """One that no other fault has meanwhile; None where each has one."""
    for receiver in hand.dice.sample(hand.receivers, len(hand.receivers)):
        if receiver.has_fault.acquire(blocking=False):
            try:
                yield receiver
            finally:
                receiver.has_fault.release()
            return
    yield None


def _in_mood(hand: Hand, mood: str) -> str:
    with _whoever_is_free(hand) as receiver:
        if receiver is None:
            return ""
        with receiver.in_mood(mood):
            if _hear_one(hand, receiver):
                hand.nap(hand.dice.uniform(0.5, 4.0))
                return receiver.name
    return ""


def hang(hand: Hand) -> str:
    """It takes a call and says nothing, for longer than its caller waits."""
    return _in_mood(hand, "hangs")


def refuse(hand: Hand) -> str:
    """It answers 500."""
    return _in_mood(hand, "refuses")


def be_busy(hand: Hand) -> str:
    """It answers 429 and says when to come again."""
    return _in_mood(hand, "busy")


def drop(hand: Hand) -> str:
    """It has taken a call, and hangs up before it says so."""
    return _in_mood(hand, "drops")


def kill_the_sender(hand: Hand) -> str:
    """The worker dies while a call is on its way, or is taken and not noted yet."""
    with _whoever_is_free(hand) as receiver:
        if receiver is None:
            return ""
        with receiver.in_mood("hangs"):
            if not _hear_one(hand, receiver):
                return ""
            return BACKGROUND if hand.kill(hand.yard.pid_of(BACKGROUND)) else ""


FAULTS = (
    Fault("receiver-hangs", 17, hang, *_ONE_EACH),
    Fault("receiver-refuses", 17, refuse, *_ONE_EACH),
    Fault("receiver-busy", 17, be_busy, *_ONE_EACH),
    Fault("receiver-drops", 17, drop, *_ONE_EACH),
    Fault("sender-kill", 17, kill_the_sender, *_ONE_EACH),
)
