"""Taking a demonstration out again: its rows and all that hang on them, and nothing else.

Append-only rows go too, as one piece of tail: the ledger and the audit then end where they ended
before. That is possible only while nobody else has written behind them. One transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.apps import apps
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.db.models import Q

from accounts.models import AuditEvent, AuditHead, AuditSeal, DemoMark, Project, Team, User
from accounts.services.audit import Subject, record
from scheduler.models import (
    Job,
    LedgerEntry,
    LedgerHead,
    Node,
    Period,
    Pool,
    Queue,
    UsageEntry,
    UsageLine,
)
from scheduler.services.demo.closure import Rows, chunks, closure, delete, let_go, references
from scheduler.services.demo.guards import unguarded
from scheduler.services.errors import Conflict, NotFound
from scheduler.services.timeline.wasted_days import sum_again

# Their triggers refuse what only this service may do, and only inside its transaction.
_GUARDED = (
    "accounts_auditevent accounts_auditseal scheduler_devicesegment scheduler_ledgerentry "
    "scheduler_periodclose scheduler_statement scheduler_statementline scheduler_usageline"
).split()


@dataclass(frozen=True, slots=True)
class Removed:
    """How many rows went, and how many audit events stay because others came after them."""

    rows: int
    kept_events: int


@transaction.atomic
def remove_demo(*, by: User | None = None, now: datetime | None = None) -> Removed:
    """Delete the demonstration, and look whether anything of it is left. `by`: who asked, on
    record.

    Raises NotFound where there is none, Conflict where real work hangs on it. Audit events of
    others behind the demonstration's keep all of them there: a log with holes is none.
    """
    mark = DemoMark.objects.select_for_update().first()
    if mark is None:
        raise NotFound("There is no demonstration here.")
    rows = closure(_roots(mark))
    _refuse_real_work(mark, rows)
    later = AuditEvent.objects.filter(pk__gt=mark.before["event"])
    kept = later.count() if _has_foreign_events(mark, rows) else 0
    with unguarded(_GUARDED):
        let_go(rows)
        count = delete(rows)
        if not kept:
            count += later.delete()[0]
            count += AuditSeal.objects.filter(until_id__gt=_sealed_before(mark)).delete()[0]
        _restore_heads(mark, with_audit=not kept)
        mark.delete()
    _refuse_leftovers(rows)
    sum_again()
    if kept or by is not None:
        about = Subject("demo", "", f"demonstration of {mark.seeded_at:%Y-%m-%d}")
        record(by, "demo.remove", about, after={"rows": count}, now=now)
    return Removed(count, kept)


def _refuse_leftovers(rows: Rows) -> None:
    """Raises Conflict if one of these rows is still there, or any that points at one."""
    for model, all_ids in rows.items():
        for ids in chunks(all_ids):
            if model._base_manager.filter(pk__in=ids).exists():
                raise Conflict(f"Rows of {model._meta.verbose_name_plural} are left over.")
    for model, field in references(rows.keys()):
        for ids in chunks(rows[field.related_model]):
            if model._base_manager.filter(**{f"{field.attname}__in": ids}).exists():
                raise Conflict(f"{model._meta.verbose_name_plural} point at rows that are gone.")


def _roots(mark: DemoMark) -> Rows:
    """What the mark names, and the groups that give rights on its teams."""
    roots: Rows = {apps.get_model(label): set(ids) for label, ids in mark.roots.items() if ids}
    named = Q(pk__in=[])
    for team in roots.get(Team, set()):
        named |= Q(name__startswith=f"team:{team}:")
    groups = set(Group.objects.filter(named).values_list("pk", flat=True))
    for group in Group.objects.filter(pk__in=roots.get(Group, set())):
        # A role of the organisation that somebody real has been given since stays.
        if not group.user_set.exclude(pk__in=roots.get(User, set())).exists():
            groups.add(group.pk)
    roots[Group] = groups
    return roots


def _refuse_real_work(mark: DemoMark, rows: Rows) -> None:
    """Raises Conflict with what hangs on the demonstration and is not of it."""
    users, projects = rows.get(User, set()), rows.get(Project, set())
    pools, periods = rows.get(Pool, set()), rows.get(Period, set())
    for ids in chunks(rows.get(Job, set())):
        jobs = Job.objects.filter(pk__in=ids)
        mixed = jobs.exclude(owner__in=users, project__in=projects, pool__in=pools).first()
        if mixed is not None:
            raise Conflict(
                f"Job {mixed.pk} belongs to the demonstration only in part: people, projects and "
                "nodes of both are mixed in it. Remove is refused."
            )
    real = rows.get(Node, set()) - set(mark.roots.get(Node._meta.label, []))
    if real:
        name = Node.objects.get(pk=min(real)).name
        raise Conflict(f"Node {name} was enrolled into the demonstration's pool; retire it first.")
    head = mark.before["heads"][LedgerHead._meta.label]
    entries = rows.get(LedgerEntry, set())
    behind = LedgerEntry.objects.filter(number__gt=head["number"] if head else 0)
    others = set(behind.values_list("pk", flat=True)) ^ entries
    if others or _foreign_accounts(behind, rows.get(Team, set())):
        raise Conflict(
            "The ledger holds entries of others behind those of the demonstration; a chain cannot "
            "lose its middle. Remove is refused."
        )
    lines = rows.get(UsageLine, set())
    if any(
        UsageLine.objects.filter(pk__in=ids).exclude(period__in=periods).exists()
        for ids in chunks(lines)
    ) or any(
        UsageEntry.objects.filter(pk__in=ids).exclude(project__in=projects).exists()
        for ids in chunks(rows.get(UsageEntry, set()))
    ):
        raise Conflict("Work of others was priced by the demonstration's prices.")


def _foreign_accounts(entries: models.QuerySet[LedgerEntry], teams: set[Any]) -> bool:
    for debit, credit in entries.values_list("debit", "credit").distinct():
        for account in (debit, credit):
            team = account.partition("/")[0].removeprefix("team:")
            if team != account and team.isdigit() and int(team) not in teams:
                return True
    return False


def _has_foreign_events(mark: DemoMark, rows: Rows) -> bool:
    """Whether anybody has changed something else since."""
    own = (
        Q(pk__lte=mark.before.get("last_event", 0))
        | Q(actor__in=rows.get(User, set()))
        | Q(team__in=rows.get(Team, set()))
        | Q(action__startswith="demo.")
    )
    for model in (Node, Pool, Queue):
        ids = [str(pk) for pk in rows.get(model, set())]
        own |= Q(subject_kind=model._meta.model_name, subject_id__in=ids)
    return AuditEvent.objects.filter(pk__gt=mark.before["event"]).exclude(own).exists()


def _sealed_before(mark: DemoMark) -> int:
    head = mark.before["heads"][AuditHead._meta.label]
    return int(head["until_id"]) if head else 0


def _restore_heads(mark: DemoMark, *, with_audit: bool) -> None:
    """The chains end where they ended before."""
    restored: Sequence[type[models.Model]] = (
        (LedgerHead, AuditHead) if with_audit else (LedgerHead,)
    )
    for head in restored:
        known = mark.before["heads"][head._meta.label]
        if known is None:
            head._default_manager.all().delete()
        else:
            head._default_manager.filter(pk=known["id"]).update(**known)
