"""Which retry rule an end meets, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from signal import Signals

from scheduler.spec.retrying.patterns import is_in
from scheduler.spec.retrying.rules import RetryRule
from scheduler.spec.units import format_duration
from scheduler.states import END_RULES, FAILURE_WORDS, EndReason, FailureClass

LINES = 200
_BY_PROGRAM = (EndReason.EXIT_CODE, EndReason.OUT_OF_MEMORY, EndReason.SETUP_FAILED)
# Of these the exit code is the node's doing: only a rule that names their class is meant.
_BY_CLASS = (
    *(EndReason.TIME_LIMIT, EndReason.NODE_LOST, EndReason.DEVICE_FAILED),
    *(EndReason.START_FAILED, EndReason.START_TIMEOUT),
)


@dataclass(frozen=True, slots=True)
class End:
    """How an attempt ended. `exit_code` as a shell shows it, or -9 for a signal; `last_lines`: the
    last LINES of its log by rank, asked only where a rule wants them."""

    reason: EndReason
    failure: FailureClass
    exit_code: int | None
    last_lines: Callable[[], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Met:
    """The rule that decides, its place counted from one, and what of the end it met."""

    number: int
    rule: RetryRule
    why: str


def is_asked(reason: EndReason) -> bool:
    """Whether rules have a say: not where it ended well, nor by people, nor had to give way."""
    return reason in _BY_PROGRAM or reason in _BY_CLASS


def is_free(reason: EndReason) -> bool:
    """Whether the platform pays for the next attempt, which no rule's maximum is spent on."""
    return END_RULES[reason].retry_free


def first_met(rules: Sequence[RetryRule], end: End) -> Met | None:
    """The first rule that the end meets in all its conditions; None for none."""
    if not is_asked(end.reason):
        return None
    for number, rule in enumerate(rules, start=1):
        why = _met(rule, end)
        if why:
            return Met(number, rule, " and ".join(why))
    return None


def _met(rule: RetryRule, end: End) -> list[str]:
    """What of the end each condition met; empty as soon as one is not met."""
    if end.reason in _BY_CLASS and not rule.failures:
        return []
    code, found = _as_shell(end.exit_code), []
    if rule.exits:
        if code is None or not any(first <= code <= last for first, last in rule.exits):
            return []
        found.append(f"exit code {code}")
    if rule.signals:
        number = (code or 0) - 128
        if number not in rule.signals:
            return []
        found.append(f"signal {Signals(number).name}")
    if rule.failures:
        if end.failure not in rule.failures:
            return []
        found.append(FAILURE_WORDS[end.failure][0])
    if rule.log or rule.log_pattern:
        if not any(_holds(rule, line) for line in end.last_lines()):
            return []
        # Not which: whoever reads this may have no right to read the log.
        found.append("a line of its log")
    return found


def _holds(rule: RetryRule, line: str) -> bool:
    return is_in(rule.log_pattern, line) if rule.log_pattern else rule.log in line


def _as_shell(code: int | None) -> int | None:
    return 128 - code if code is not None and code < 0 else code


def rule_words(rule: RetryRule) -> str:
    """What it asks for and what follows, for people."""
    said = []
    if rule.exits:
        codes = [str(a) if a == b else f"{a} to {b}" for a, b in rule.exits]
        said.append(f"exit code {_either(codes)}")
    if rule.signals:
        said.append(f"signal {_either([Signals(one).name for one in rule.signals])}")
    if rule.failures:
        said.append(_either([FAILURE_WORDS[FailureClass(one)][0] for one in rule.failures]))
    if rule.log:
        said.append(f"“{rule.log}” in its log")
    if rule.log_pattern:
        said.append(f"a line of its log like {rule.log_pattern}")
    return f"{' and '.join(said)}: {then_words(rule)}"


def then_words(rule: RetryRule) -> str:
    """What follows from an end that it meets."""
    if rule.stops:
        return "not tried again"
    often = {1: "once", 2: "twice"}.get(rule.most, f"{rule.most} times")
    if not rule.wait_s:
        return f"tried again, {often} at most"
    growing = f", twice as long each time up to {format_duration(rule.longest_s)}"
    grows = growing if rule.longest_s > rule.wait_s else ""
    return f"tried again after {format_duration(rule.wait_s)}{grows}, {often} at most"


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
