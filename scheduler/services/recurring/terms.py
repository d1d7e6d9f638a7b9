"""What a schedule says, checked: each refusal names its field and what to write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from accounts.models import User
from scheduler.models import JobSchedule, TemplateVersion
from scheduler.services.composing.allowing import refuse_outside
from scheduler.services.errors import Invalid
from scheduler.services.submitting.quotes import check_only
from scheduler.spec import JobSpec, SpecInvalid, SpecProblem
from scheduler.spec.recurring.dues import read_zone
from scheduler.spec.recurring.rules import read_time_rule
from scheduler.spec.recurring.words import Overlap
from scheduler.spec.text import clean_name

# From, to.
BOUNDS: Mapping[str, tuple[int, int]] = {
    "most_open": (1, 20),
    "late_within_s": (0, 86_400),
    "pause_after": (0, 100),
}
_UNITS = {"most_open": "jobs", "late_within_s": "seconds", "pause_after": "failures"}
# What a job of a schedule cannot have: field, and what to do instead.
_ALIEN = {
    "begin": "the rule of time says when it begins; leave it out",
    "finish_by": "is one moment, and the job comes again; leave it out",
    "depends_on": "jobs that are there now are over by then; leave it out",
    "hold": "a held job would wait for you each time; leave it out, and pause the schedule",
}


@dataclass(frozen=True, slots=True)
class Terms:
    """The fields of `JobSchedule` that people write, but for the job itself."""

    name: str
    rule: str
    zone: str = "UTC"
    overlap: str = Overlap.SKIP
    most_open: int = 3
    late_within_s: int = 3600
    pause_after: int = 5
    starts_at: datetime | None = None
    ends_at: datetime | None = None


def terms_of(schedule: JobSchedule) -> Terms:
    """As they stand."""
    return Terms(**{name: getattr(schedule, name) for name in Terms.__dataclass_fields__})


def checked_terms(terms: Terms, *, now: datetime) -> Terms:
    """As they are kept; raises Invalid for the first that cannot be."""
    name = _read("name", clean_name, terms.name)
    rule = _read("rule", read_time_rule, terms.rule)
    _read("zone", read_zone, terms.zone)
    if terms.overlap not in set(Overlap):
        raise Invalid(f"overlap: choose one of {', '.join(Overlap)}.", field="overlap")
    for field, (least, most) in BOUNDS.items():
        if not least <= getattr(terms, field) <= most:
            words = f"{field}: write {least} to {most} {_UNITS[field]}."
            raise Invalid(words, field=field)
    if terms.ends_at is not None and terms.ends_at <= (terms.starts_at or now):
        words = "ends_at: lies before the schedule begins; choose a later moment."
        raise Invalid(words, field="ends_at")
    return Terms(**{**asdict(terms), "name": name, "rule": rule.text})


def check_job_of(
    actor: User, spec: JobSpec, template: TemplateVersion | None, now: datetime
) -> None:
    """Raises SpecInvalid for a job that could not be submitted again and again, or not now."""
    problems = [
        SpecProblem(field, words) for field, words in _ALIEN.items() if getattr(spec, field)
    ]
    if problems:
        raise SpecInvalid(problems)
    if template is not None:
        refuse_outside(template, spec)
    check_only(actor=actor, spec=spec, now=now)


def refuse_queued_group(terms: Terms, group: str) -> None:
    """Raises Invalid where the next job of a schedule would cancel those that it lets queue."""
    if group and terms.overlap == Overlap.QUEUE:
        words = (
            f"overlap: of group {group}, which its job names, one waits at most, so none queue; "
            "choose skip or replace, or leave group out of the job."
        )
        raise Invalid(words, field="overlap")


def _read(field: str, read: Callable[[str], Any], value: str) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise Invalid(f"{field}: {error}.", field=field) from None
