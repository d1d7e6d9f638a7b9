"""Rules for jobs whose GPUs do little: leads set those of their projects, operators of pools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.models import Project, User
from accounts.permissions import can, managed_for
from accounts.services.audit import record
from scheduler.conf import load_conf
from scheduler.models import IdleRule, Pool
from scheduler.services.errors import Forbidden, Invalid, NotFound
from scheduler.states import IdleAct

# From, to: minutes of notice below these would be none, and a window has to be readable.
BOUNDS: Mapping[str, tuple[int, int]] = {
    "below_percent": (1, 50),
    "first_minutes": (0, 1440),
    "warn_minutes": (10, 720),
    "act_minutes": (10, 2880),
    "keep_hours": (1, 168),
}
_UNITS = {"below_percent": "per cent", "keep_hours": "hours"}


@dataclass(frozen=True, slots=True)
class IdleTerms:
    """What a rule says; the fields of `IdleRule`."""

    act: str
    below_percent: int = 5
    first_minutes: int = 30
    warn_minutes: int = 60
    act_minutes: int | None = None
    keep_hours: int = 24


@transaction.atomic
def set_idle_rule(
    *, actor: User, owner: Project | Pool, terms: IdleTerms, now: datetime | None = None
) -> IdleRule:
    """Put these terms in force for a project or pool; what was warned of before is lifted.

    Raises NotFound for a project that is not the actor's to see, Forbidden for who may not set it,
    Invalid for terms that cannot be, by field.
    """
    check_terms(actor, owner, terms)
    return _write(actor, owner, {"is_on": True, **asdict(terms)}, now or timezone.now())


@transaction.atomic
def end_idle_rule(
    *, actor: User, owner: Project | Pool, now: datetime | None = None
) -> IdleRule | None:
    """Switch the rule off, if there is one; refuses what `set_idle_rule` refuses."""
    check_may_set(actor, owner)
    if not _rules_of(owner).exists():
        return None
    return _write(actor, owner, {"is_on": False}, now or timezone.now())


def check_may_set(actor: User, owner: Project | Pool) -> None:
    """Raises NotFound or Forbidden unless the actor may set the rule."""
    if isinstance(owner, Pool):
        if not can(actor, "operate", None):
            raise Forbidden("Operators decide what happens to GPUs of a pool that do little.")
        return
    if not can(actor, "view", owner):
        raise NotFound("There is no such project.")
    if not can(actor, "manage_project", owner):
        raise Forbidden("Leads of the team decide what happens to its GPUs that do little.")


def check_terms(actor: User, owner: Project | Pool, terms: IdleTerms) -> None:
    """Raises what `set_idle_rule` raises; writes nothing."""
    check_may_set(actor, owner)
    if terms.act not in set(IdleAct):
        raise Invalid(f"act: choose one of {', '.join(IdleAct)}.", field="act")
    if terms.act != IdleAct.TELL and terms.act_minutes is None:
        raise Invalid(
            f"act_minutes: write after how many minutes of notice to {terms.act} a job.",
            field="act_minutes",
        )
    if terms.act == IdleAct.TELL and terms.act_minutes is not None:
        raise Invalid(
            "act_minutes: nothing follows where a job is only told; leave it empty, or choose "
            "pause or stop.",
            field="act_minutes",
        )
    for field, (least, most) in _bounds().items():
        figure = getattr(terms, field)
        if figure is not None and not least <= figure <= most:
            unit = _UNITS.get(field, "minutes")
            raise Invalid(f"{field}: write {least} to {most} {unit}.", field=field)


def _bounds() -> dict[str, tuple[int, int]]:
    """A window may not reach back beyond the readings that are kept one by one."""
    kept = load_conf().sample_retention_s // 60
    least, most = BOUNDS["warn_minutes"]
    return {**BOUNDS, "warn_minutes": (least, max(least, min(most, kept // 2)))}


def _rules_of(owner: Project | Pool) -> QuerySet[IdleRule]:
    rules = IdleRule.objects.all()
    return rules.filter(pool=owner) if isinstance(owner, Pool) else rules.filter(project=owner)


def _write(
    actor: User, owner: Project | Pool, wanted: Mapping[str, object], now: datetime
) -> IdleRule:
    usual = {"act": IdleAct.TELL, "version": 0, "set_at": now}
    by = {"pool": owner} if isinstance(owner, Pool) else {"project": owner}
    rules = IdleRule.objects.select_for_update()
    rule, _ = rules.get_or_create(**by, defaults=usual)
    before = {name: getattr(rule, name) for name in wanted}
    changed = [name for name, value in wanted.items() if before[name] != value]
    if not changed:
        return rule
    for name in changed:
        setattr(rule, name, wanted[name])
    rule.version += 1
    rule.set_at, rule.set_by = now, actor
    rule.save()
    giver = None if isinstance(owner, Pool) else managed_for(actor, owner)
    record(
        actor,
        "pool.idle_rule" if isinstance(owner, Pool) else "project.idle_rule",
        owner,
        before={name: before[name] for name in changed},
        after={name: wanted[name] for name in changed},
        on_behalf_of=giver,
        now=now,
    )
    return rule
