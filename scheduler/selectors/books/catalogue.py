"""All reports by slug, who may open which, and the one way to open one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from accounts.errors import Forbidden, Invalid, NotFound
from accounts.models import User
from scheduler.selectors.books.frame import Ask, Report, Sheet, Who
from scheduler.selectors.books.months import Shelf
from scheduler.selectors.books.scope import Scope, scope_of
from scheduler.selectors.books.slugs import (
    attempts,
    audits,
    budgets,
    devices,
    lines,
    quotas,
    rates,
    statements,
    summaries,
    units,
    usage,
    waste,
)
from scheduler.selectors.books.slugs.wasted import use
from scheduler.selectors.books.spans import SPAN

_FOUND = (
    *summaries.REPORTS,
    *statements.REPORTS,
    *attempts.REPORTS,
    *devices.REPORTS,
    *waste.REPORTS,
    *use.REPORTS,
    *budgets.REPORTS,
    *quotas.REPORTS,
    *rates.REPORTS,
    *units.REPORTS,
    *usage.REPORTS,
    *audits.REPORTS,
)
_ORDER = (
    "period-summary",
    "team-statement",
    "job-cost",
    "capacity",
    "idle-waste",
    "use-and-waste",
    "budget-actual",
    "rate-variance",
    "adjustments",
    "restatements",
    "quota-use",
    "unit-cost",
    "audit-extract",
    "usage-lines",
    "segments",
)
REPORTS: dict[str, Report] = {
    slug: next(report for report in _FOUND if report.slug == slug) for slug in _ORDER
}


# Its figures are as of now, whichever month is opened.
_OF_NOW = frozenset({"budget-actual"})


def month_opened(slug: str, last_closed: str) -> str:
    """The month a report opens with where none is named: the last closed one, and empty, for the
    one of now, where figures are as of now."""
    return "" if slug in _OF_NOW else last_closed


def may_open(scope: Scope, report: Report) -> bool:
    """Whether a viewer has figures of their own in a report."""
    return (
        Who.OWN in report.who
        or (Who.BOOKS in report.who and scope.is_all)
        or (Who.TEAMS in report.who and bool(scope.teams))
        or (Who.OPERATORS in report.who and scope.is_operator)
    )


def reports_for(viewer: User, scope: Scope | None = None) -> list[Report]:
    """The reports a viewer may open from the index, in its order; `scope`: read already."""
    scope = scope or scope_of(viewer)
    return [r for r in REPORTS.values() if not r.is_trail and may_open(scope, r)]


def report_named(slug: str) -> Report:
    """Raises NotFound for a slug that is none."""
    if slug not in REPORTS:
        raise NotFound("There is no such report.")
    return REPORTS[slug]


def open_report(
    viewer: User, slug: str, ask: Ask, shelf: Shelf | None = None, *, is_whole: bool = False
) -> tuple[Report, Sheet]:
    """The report as the viewer may see it: the same figures for page, API and every file.

    `shelf`: the months, where they are read already. `is_whole`: all rows will be read, for a file
    whose memory must not grow with them.

    Raises NotFound for a slug, month, team or project that is none or foreign, Forbidden for a
    report that is not the viewer's, Invalid for a filter or an order it does not know.
    """
    report = report_named(slug)
    scope = scope_of(viewer, shelf)
    if not may_open(scope, report):
        raise Forbidden("This report is for those who keep the books or lead teams.")
    for name in ask.filters:
        if name != "sort" and name not in report.takes:
            if name in SPAN:
                raise Invalid("This report counts whole months; choose a month.", field=name)
            known = ", ".join(sorted(report.takes)) or "none"
            raise Invalid(f"This report is not narrowed by {name}; known: {known}.", field=name)
    if ask.sort:
        names = {column.name for column in report.columns}
        if report.is_streamed:
            raise Invalid("This report comes in the order of the ledger only.", field="sort")
        if ask.sort.removeprefix("-") not in names:
            raise Invalid(f"Sort by one of {', '.join(sorted(names))}.", field="sort")
    if report.slug == "segments" and not (ask.attempt or ask.day or ask.team or ask.project):
        raise Invalid("Name an attempt, a day, a team or a project.", field="attempt")
    with lines.unmapped() if is_whole else nullcontext():
        return report, report.open(_with_path(ask), scope)


def _with_path(ask: Ask) -> Ask:
    """With the project as `team/project` where its slug came beside its team's."""
    is_bare = ask.team and ask.project and "/" not in ask.project
    return replace(ask, project=f"{ask.team}/{ask.project}") if is_bare else replace(ask)
