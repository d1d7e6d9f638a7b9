"""What people read of a state and of an end: its word, its sentence, and what work it cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from scheduler.states.ends import END_RULES, PAUSES, EndReason
from scheduler.states.moves import LIVE_JOB_STATES, JobState

if TYPE_CHECKING:
    from decimal import Decimal

# Characters of the word that somebody gives who ends, holds or pauses a job.
MOST_REASON = 200
# As `decimal` names it.
_HALF_UP = "ROUND_HALF_UP"
_WHO = re.compile(r"\{who\}[.:]")
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC", re.ASCII)
# How the audit named a budget once: the account by its key, days for programs.
_RAW_BUDGET = re.compile(
    r"(org|team:\d+|project:\d+) (\d{4}-\d\d-\d\d) - (\d{4}-\d\d-\d\d)", re.ASCII
)
_ISO = re.compile(r"(?<![\w-])(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d(?::\d\d)?))?(?![\w-])", re.ASCII)
_STOPS = (".", "!", "?", "…")
TIMES_OUT = frozenset(
    {EndReason.TIME_LIMIT, EndReason.FINISH_BY_REACHED, EndReason.MAX_COST_REACHED}
)
_ARRAY_NEVER = "Its dependency can never be met: it waited for {awaited}, and {found}."
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_ENDLESS = timedelta(days=50 * 365)
_LEAST = timedelta(microseconds=1)
_UNITS = {"d": "d", "h": "h", "m": "min", "s": "s"}


def end_sentence(reason: EndReason | str, facts: Mapping[str, object]) -> str:
    """What page, API and CLI print for an ended attempt: why, and what work it cost."""
    limit = str(facts.get("limit", ""))
    said = {**facts, "limit": _in_words(limit) or limit} if limit else facts
    words = END_RULES[EndReason(reason)].sentence
    if reason == EndReason.DEPENDENCY_NEVER and "set" in facts:
        words = _ARRAY_NEVER
    if reason == EndReason.BOOKING_ENDED and facts.get("because"):
        words = words.replace("is over.", "was ended early by {who}.")
    ruled = rule_sentence(facts)
    if reason == EndReason.TIME_LIMIT and facts.get("goes_on"):
        words = words.partition(" Clone")[0]
    sentence = fill(words, said)
    return " ".join(part for part in (sentence, ruled, loss_sentence(facts)) if part)


def rule_name(facts: Mapping[str, object]) -> str:
    """The job's own retry rule that decided: `rule 2 (exit code 75)`; empty for none."""
    rule = facts.get("rule")
    return f"rule {rule['number']} ({rule['why']})" if isinstance(rule, Mapping) else ""


def rule_sentence(facts: Mapping[str, object]) -> str:
    """What the job's own retry rule makes of an end; empty where none has a say."""
    rule = facts.get("rule")
    if not isinstance(rule, Mapping):
        return ""
    name = f"R{rule_name(facts)[1:]}"
    if rule["does"] == "retry":
        return f"{name} tries it again, {rule['try']} of {rule['max']}."
    if rule["does"] == "stop":
        return f"{name} does not let it be tried again."
    often = "once" if rule["max"] == 1 else f"{rule['max']} times"
    return f"{name} has tried it again {often}, as often as it may."


def loss_sentence(facts: Mapping[str, object]) -> str:
    """What was lost since the last confirmed checkpoint and where the job goes on, if it does.

    Empty where nothing is known: a program that ends for good may keep its work elsewhere.
    """
    if "lost" not in facts:
        return ""
    lost, step = _in_words(str(facts["lost"])), facts.get("checkpoint_step")
    if facts.get("goes_on"):
        where = "it starts anew" if step is None else f"it resumes from step {step}"
        if node := facts.get("checkpoint_on"):
            where = f"its last checkpoint, step {step}, lies on node {node}, so it starts anew"
        return f"{f'Lost {lost} of work' if lost else 'No work was lost'}; {where}."
    if step is None:
        return ""
    return f"The last checkpoint, step {step}, was taken {lost or 'right'} before the end."


def _in_words(spelled: str) -> str:
    """`3m10s`, as specs spell it, as people read it: `3 min 10 s`; empty for no time at all."""
    parts = re.findall(r"(\d+)([dhms])", spelled)
    return " ".join(f"{count} {_UNITS[unit]}" for count, unit in parts if int(count))


def shown_state(state: JobState | str, end_reason: str = "", *, unreachable: bool = False) -> str:
    """The word people see: the state, made more precise by its reason."""
    if unreachable and state in LIVE_JOB_STATES:
        return "unreachable"
    if state == JobState.FAILED and end_reason in TIMES_OUT:
        return "timed out"
    if state == JobState.QUEUED and end_reason == EndReason.PREEMPTED:
        return "preempted"
    if state == JobState.HELD and end_reason in PAUSES:
        return "paused"
    return str(state)


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "?"


def span_words(seconds: float) -> str:
    """A duration as everything here says it, in two units at most: `42 s`, `2 min 5 s`, `35 min`,
    `9 h 12 min`, `3 d 4 h`. Cut, not rounded; less than nothing is `0 s`. `page.js` does the same.
    """
    whole = max(0, int(seconds))
    if whole < _MINUTE_S:
        return f"{whole} s"
    if whole < 10 * _MINUTE_S:
        return _two_units(whole, _MINUTE_S, "min", 1, "s")
    if whole < _HOUR_S:
        return f"{whole // _MINUTE_S} min"
    if whole < 2 * _DAY_S:
        return _two_units(whole, _HOUR_S, "h", _MINUTE_S, "min")
    return _two_units(whole, _DAY_S, "d", _HOUR_S, "h")


def rough_span(seconds: float) -> str:
    """The same in whole minutes where there is one: what is expected, or is to stay while time goes
    by."""
    return span_words(seconds if seconds < _MINUTE_S else seconds // _MINUTE_S * _MINUTE_S)


def whole_span(seconds: int) -> str:
    """A duration to the second, with all its units: `1 h 30 min 5 s`; for what is asked for."""
    sizes = ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min"), (1, "s"))
    left, parts = max(0, seconds), []
    for size, unit in sizes:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts) or "0 s"


def _two_units(seconds: int, large_s: int, large: str, small_s: int, small: str) -> str:
    count, rest = seconds // large_s, seconds % large_s // small_s
    return f"{count} {large} {rest} {small}" if rest else f"{count} {large}"


def hours_words(gpu_seconds: float | Decimal, places: int | None = None) -> str:
    """GPU-hours as everything here says them: `12.3`, below one `0.17`, below a tenth the first two
    digits, `0.014`.

    `places`: so many decimals, as a whole column has them (`hour_places`). What is not nothing is
    never told as nothing: `< 0.001`.
    """
    hours = _exact(gpu_seconds) / _HOUR_S
    step = _exact(1).scaleb(-(_places(hours) if places is None else places))
    rounded = hours.quantize(step, _HALF_UP)
    if hours and not rounded:
        return f"< {step:f}" if hours > 0 else f"> −{step:f}"
    return f"{rounded + 0:,f}".replace("-", "−")


def hour_places(gpu_seconds: Iterable[float | Decimal | None]) -> int:
    """The decimals of a column of GPU-hours: as many as its smallest figure needs, three at most
    beside one of an hour or more."""
    found = [_exact(each) / _HOUR_S for each in gpu_seconds if each]
    needed = max(map(_places, found), default=1)
    return min(needed, 3) if any(abs(hours) >= 1 for hours in found) else needed


def _places(hours: Decimal) -> int:
    """One from an hour on, two below, below a tenth as many as its first two digits take."""
    if not hours or abs(hours) >= 1:
        return 1
    digits = hours.quantize(_exact(1).scaleb(hours.adjusted() - 1), _HALF_UP)
    if abs(digits) >= 1:
        return 1
    return max(2, -int(digits.normalize().as_tuple().exponent))


def _exact(value: float | Decimal) -> Decimal:
    from decimal import Decimal  # not for supervisors: each is a fork with all that is loaded

    return Decimal(value)


def day_words(day: date) -> str:
    """A day as everything here says it: `25 Nov 2026`; of a moment the day in its own zone."""
    return f"{day:%-d %b %Y}"


def is_endless(end: datetime, now: datetime) -> bool:
    """Whether an end that had to be given stands for none: nothing is planned so far ahead."""
    return end - now > _ENDLESS


def until_words(end: datetime, now: datetime) -> str:
    """`until 20 Nov 2026`, or `without end`."""
    return "without end" if is_endless(end, now) else f"until {day_words(end)}"


def span_days(first: date, last: date) -> tuple[str, str]:
    """The days at both ends of a span, each without what the other says: `23`, `29 Nov 2026`; for
    one day the same twice."""
    until = day_words(last)
    if first == last or first.year != last.year:
        return day_words(first), until
    return f"{first:%-d}" if first.month == last.month else f"{first:%-d %b}", until


def period_days(begin: datetime, end: datetime) -> tuple[str, str]:
    """The first and the last day of a period, in UTC: it ends right before `end`. `no end` where
    that stands for none."""
    first, last = (at.astimezone(UTC).date() for at in (begin, max(begin, end - _LEAST)))
    if is_endless(end, begin):
        return day_words(first), "no end"
    return span_days(first, last)


def budget_words(whose: str, begin: datetime, end: datetime) -> str:
    """Whose budget it is and of when, as the audit names it: `vision, 1 Nov – 31 Dec 2026`."""
    return f"{whose}, {' – '.join(dict.fromkeys(period_days(begin, end)))}"


def raw_owner(label: str) -> str:
    """The key of the account in the name that an older event has of a budget; empty for none."""
    found = _RAW_BUDGET.fullmatch(label)
    return found[1] if found else ""


def budget_in_words(label: str, names: Mapping[str, str]) -> str:
    """The name that an event has of a budget; an older one as `budget_words` says it, with `names`
    of accounts by their keys. An account that is gone keeps its key."""
    found = _RAW_BUDGET.fullmatch(label)
    if found is None:
        return label
    try:
        begin, end = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in found.groups()[1:])
    except ValueError:
        return label
    whose = "the organisation" if found[1] == "org" else names.get(found[1], found[1])
    return budget_words(whose, begin, end)


def moment_words(at: datetime) -> str:
    """A moment as sentences say it, in UTC: `31 Dec 2026, 08:00 UTC`."""
    return f"{at.astimezone(UTC):%-d %b %Y, %H:%M} UTC"


def span_of(begin: datetime, end: datetime) -> str:
    """From when to when, as sentences say it, in UTC."""
    return f"{moment_words(begin).removesuffix(' UTC')} to {moment_words(end)}"


def stamp(at: datetime) -> str:
    """A moment as facts keep it, for programs: `2026-12-31 08:00 UTC`; `dates_in_words` says it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def dates_in_words(text: str) -> str:
    """A text with every stamp in it as people read it."""
    return _STAMP.sub(_said_stamp, text) if " UTC" in text else text


def days_in_words(text: str) -> str:
    """The same of days and moments without a zone, as the audit keeps them; names that have one
    within them stay."""
    return _ISO.sub(_said_day, text)


def _said_stamp(found: re.Match[str]) -> str:
    words = _said_day(found)
    return words if words == found[0] else f"{words} UTC"


def _said_day(found: re.Match[str]) -> str:
    try:
        words = day_words(date.fromisoformat(found[1]))
    except ValueError:
        return found[0]
    return f"{words}, {found[2]}" if found[2] else words


def fill(sentence: str, facts: Mapping[str, object]) -> str:
    """The sentence with its facts; a slot without one shows "?". Who did it is followed by the word
    they gave (`because`): `Cancelled by Lena: it writes to the wrong bucket.`"""
    said = {
        name: dates_in_words(value) if isinstance(value, str) else value
        for name, value in facts.items()
    }
    if because := str(facts.get("because") or ""):
        said["because"] = because if because.endswith(_STOPS) else f"{because}."
        sentence = _WHO.sub("{who}: {because}", sentence)
    return sentence.format_map(_Gaps(said))
