"""Values of audit events: codes, seconds and empty fields as pages say them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl

from django.utils import timezone

from accounts.models import DelegationScope, OrganisationRole, RateKind, Role
from portal.reports.trail.titles import spelt
from portal.templatetags.measures import device_short_name, mib
from portal.templatetags.wording import change_words, in_words, words
from scheduler.models import (
    AlertAction,
    CommitsAt,
    CostKind,
    Counting,
    Enforcement,
    JobSchedule,
    Recovery,
    Renewal,
    ReportSchedule,
    Threshold,
)
from scheduler.models.money.terms import POLICY_WORDS, Unreachable
from scheduler.spec.recurring.rules import read_time_rule
from scheduler.spec.recurring.spoken import spoken
from scheduler.states import (
    DENY_WORDS,
    IDLE_ACT_WORDS,
    ISOLATION_WORDS,
    KIND_WORDS,
    NOTICE_RULES,
    REQUEST_WORDS,
    EndReason,
    Tier,
    hours_words,
    is_endless,
    whole_span,
)

Say = Callable[[Any], str | None]

# More seconds than these are a moment; terms that hold in every month, as they are kept.
_MOST_S, _FIRST_MONTH = 400 * 86_400, "1970-01"
_RANGE = re.compile(r"(\S*)\.\.(\S*)")


def _low(text: object) -> str:
    """Within a line: `By rates` → `by rates`, but `GPU-hours of budget` stays."""
    said = str(text)
    return said if said[1:2].isupper() else said[:1].lower() + said[1:]


def _coded(choices: Mapping[Any, object], nothing: str | None = None) -> Say:
    """Codes by their words; a code that is not among them, from an older version, by its own.
    `nothing`: what an empty field means."""
    known = {str(code): _low(said) for code, said in choices.items()}

    def say(value: Any) -> str | None:
        if value is None or value == "":
            return nothing if nothing is not None else known.get("")
        return known.get(str(value)) or words(value)

    return say


def _unit(unit: str, nothing: str | None = None) -> Say:
    def say(value: Any) -> str | None:
        return nothing if value is None or value == "" else f"{value} {unit}"

    return say


def _empty(nothing: str) -> Say:
    return lambda value: nothing if value is None or value == "" else None


def _labels(model: Any, field: str) -> dict[Any, object]:
    return dict(model._meta.get_field(field).flatchoices)


def span(value: Any) -> str | None:
    """Seconds as a duration, fractions as texts are kept; None for what is none."""
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return whole_span(int(seconds)) if 0 <= seconds < _MOST_S else None


def _hours(value: Any) -> str | None:
    return hours_words(value) if isinstance(value, int) else None


def _size(value: Any) -> str | None:
    return mib(value) if isinstance(value, int) else None


def _month(value: Any) -> str | None:
    return "the first month" if value == _FIRST_MONTH else None


def _end(value: Any) -> str | None:
    """`no end` where the end stands for none."""
    try:
        is_none = is_endless(datetime.fromisoformat(str(value)), timezone.now())
    except (TypeError, ValueError):
        return None
    return "no end" if is_none else None


def _kept_code(value: Any) -> str | None:
    """Codes without words of their own: `waits_again` → `waits again`."""
    return spelt(words(value)) if isinstance(value, str) and value else None


def _ended(value: Any) -> str | None:
    return "program error" if value == EndReason.EXIT_CODE else _kept_code(value)


def _step(value: Any) -> str | None:
    return in_words(value, "step") if isinstance(value, str) else None


def _about(value: Any) -> str | None:
    """`set:2` → `set 2`."""
    return str(value).replace(":", " ")


def _model(value: Any) -> str | None:
    return device_short_name(value) if isinstance(value, str) and value else None


def _change(value: Any) -> str | None:
    return change_words(value) if isinstance(value, str) else None


def _rule(value: Any) -> str | None:
    """What a template lets a job choose: `1..8` → `1 to 8`, `..12h` → `12h at most`."""
    found = _RANGE.fullmatch(str(value or ""))
    if found is None:
        return _kept_code(value)
    least, most = found.groups()
    if least and most:
        return f"{least} to {most}"
    return f"{most} at most" if most else f"{least} at least"


def _due(value: Any) -> str | None:
    """`30 2 * * mon-fri` → `at 02:30, Monday to Friday`; None where the rule is easier to read."""
    try:
        return _low(spoken(read_time_rule(str(value)))) or None
    except ValueError:
        return None


def _of_each(value: Any) -> str | None:
    return "all, whole nodes" if value == 0 else None


def _outcome(value: Any) -> str | None:
    return in_words(value, "outcome") if isinstance(value, str) and value else None


def _query(value: Any) -> str | None:
    """`scope=team:vision&sort=-ended_at` → `scope team:vision, sort -ended at`."""
    pairs = parse_qsl(str(value or ""), keep_blank_values=True)
    said = (f"{words(name)} {words(text) if name in _CODED else text}" for name, text in pairs)
    return ", ".join(said) or None


def _either(*says: Say) -> Say:
    """The first that has words for it."""
    return lambda value: next((said for say in says if (said := say(value)) is not None), None)


# What of a kept query names columns.
_CODED = frozenset({"sort", "columns", "by", "across", "figure", "group"})
_FOLLOWS = _empty("as the cluster says")
_SETTINGS = _empty("as the server's settings say")
_TERMS = _coded(POLICY_WORDS)

# By field, by `noun.field` or by the whole action, as titles are.
_SAYINGS: Mapping[str, Say] = {
    "below_percent": _unit("%"),
    "decision": _kept_code,
    "device_model": _either(_model, _empty("any other model")),
    "from_month": _month,
    "gpu_model": _either(_model, _empty("any")),
    "gpu_seconds": _hours,
    "held_mib": _size,
    "kinds": _coded({kind: rule.words for kind, rule in NOTICE_RULES.items()}, "everything"),
    "priority_ceiling": _coded({int(tier): tier.name.lower() for tier in Tier}, "any"),
    "role": _coded({**dict(Role.choices), **dict(OrganisationRole.choices)}),
    "size_mib": _size,
    "state": _kept_code,
    "budget.action": _coded(dict(AlertAction.choices)),
    "budget.action_at": _coded(dict(Threshold.choices)),
    "budget.carry_percent": _unit("%"),
    "budget.commits_at": _coded(dict(CommitsAt.choices)),
    "budget.enforcement": _coded(dict(Enforcement.choices)),
    "budget.ledger": _hours,
    "budget.renewal": _coded(dict(Renewal.choices)),
    "budget.spent": _hours,
    "budget.valid_until": _end,
    "quota.borrow_limit": _empty("no limit"),
    "quota.lend_limit": _empty("all"),
    "quota.max_hours": _unit("h", "no limit"),
    "quota.maximum": _empty("no limit"),
    "quota.pool": _empty("all pools"),
    "share.guarantee_percent": _unit("%"),
    "share.idle": _TERMS,
    "share.kind": _coded(dict(CostKind.choices)),
    "share.platform": _TERMS,
    "share.recovery": _coded(dict(Recovery.choices)),
    "share.unreachable": _coded(dict(Unreachable.choices)),
    "asset.months": _unit("months"),
    "policy.kind": _coded(KIND_WORDS, "any kind"),
    "policy.money_limit": _empty("no amount"),
    "policy.most_days": _unit("days"),
    "policy.sla_hours": _unit("h"),
    "policy.name": _kept_code,
    "policy.placement": _either(_kept_code, _SETTINGS),
    "policy.preempts": _SETTINGS,
    "policy.half_life_s": _either(span, _SETTINGS),
    "policy.head_patience_s": _either(span, _SETTINGS),
    "pool.policy.name": _kept_code,
    "pool.policy.placement": _either(_kept_code, _FOLLOWS),
    "pool.policy.preempts": _FOLLOWS,
    "pool.policy.head_patience_s": _either(span, _FOLLOWS),
    "pool.isolation": _coded(ISOLATION_WORDS),
    "idle_rule.act": _coded(IDLE_ACT_WORDS),
    "idle_rule.act_minutes": _unit("min"),
    "idle_rule.first_minutes": _unit("min"),
    "idle_rule.keep_hours": _unit("h"),
    "idle_rule.warn_minutes": _unit("min"),
    "project.file_days": _unit("days", "the default"),
    "project.log_days": _unit("days", "the default"),
    "project.sample_days": _unit("days", "the default"),
    "request.assigned_to": _empty("nobody"),
    "request.by": _step,
    "request.outcome": _outcome,
    "request.policy": _empty("as usual"),
    "request.reason_code": _coded(DENY_WORDS),
    "request.route": _step,
    "request.state": _coded(REQUEST_WORDS),
    "request.step": _step,
    "job.fields": _kept_code,
    "job.reason": _ended,
    "schedule.rule": _due,
    "schedule.overlap": _coded(_labels(JobSchedule, "overlap")),
    "books.for": _coded(_labels(Counting, "act")),
    "bulk_cancel.about": _about,
    "delegation.scope": _coded(dict(DelegationScope.choices)),
    "export.rhythm": _coded(_labels(ReportSchedule, "rhythm")),
    "export.by": _kept_code,
    "rate.kind": _coded(dict(RateKind.choices)),
    "team.cost_centre": _empty("none"),
    "team.parent": _empty("none"),
    "scenario.changes": _change,
    "template.rules": _rule,
    "booking.closed_as": _kept_code,
    "booking.gpus_per_node": _of_each,
    "view.query": _query,
}


def say_of(action: str, field: str) -> Say:
    """How values of this field are said; it answers None for what needs no words of its own."""
    noun, _, verb = action.partition(".")
    for key in (f"{action}.{field}", f"{verb}.{field}", f"{noun}.{field}", field):
        if key in _SAYINGS:
            return _SAYINGS[key]
    return span if field.endswith("_s") else _unsaid


def _unsaid(value: Any) -> None:
    return None
