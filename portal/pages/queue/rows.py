"""Rows of the waiting line: who stands there, and how it is drawn.

There are hundreds, so they are joined as text and not rendered one by one; whatever somebody named
is escaped where it is put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from html import escape

from django.template.defaultfilters import pluralize
from django.utils.safestring import SafeString

from portal.reports.links import links_to
from portal.templatetags.moments import clock, since
from portal.templatetags.portal import gpu_count, name
from scheduler.models import Job
from scheduler.selectors.queues import QueueRow, start_window
from scheduler.states import Tier

_TIERS = {int(tier): tier.name.lower() for tier in Tier}
_TURNS = (
    ("has_earlier", "first", "go first of yours", "First"),
    ("has_earlier", "earlier", "go earlier", "Earlier"),
    ("has_later", "later", "go later", "Later"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the page: one job that may be named, or a run of others of one tier.

    Of one's own jobs `has_earlier` and `has_later` say whether others of one's own stand there.
    """

    first: int
    last: int
    row: QueueRow
    tier: str
    jobs: int
    gpus: int
    teams: frozenset[int] = frozenset()
    has_earlier: bool = False
    has_later: bool = False


def lines_of(rows: Iterable[QueueRow]) -> list[Line]:
    """Neighbouring jobs of other teams in the same tier become one line."""
    lines: list[Line] = []
    for row in rows:
        tier = _TIERS[row.tier]
        last = lines[-1] if lines else None
        if row.job is None and last and last.row.job is None and last.tier == tier:
            lines[-1] = Line(
                last.first,
                row.position,
                last.row,
                tier,
                last.jobs + 1,
                last.gpus + row.gpus,
                last.teams | {row.team},
            )
        else:
            at = row.position
            lines.append(Line(at, at, row, tier, 1, row.gpus, frozenset({row.team})))
    return lines


def with_turns(lines: list[Line], owner: int) -> list[Line]:
    """The same, saying of one person's jobs which of them could go before which."""
    mine: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        if line.row.job is not None and line.row.job.owner_id == owner:
            mine.setdefault(line.tier, []).append(at)
    found = list(lines)
    for places in mine.values():
        for at in places:
            it, is_first, is_last = lines[at], at == places[0], at == places[-1]
            # Equals `replace`, which asks each of hundreds of lines for its fields.
            whole = (it.first, it.last, it.row, it.tier, it.jobs, it.gpus, it.teams)
            found[at] = Line(*whole, has_earlier=not is_first, has_later=not is_last)
    return found


@dataclass(frozen=True, slots=True)
class _Drawing:
    """How rows of one page are drawn. `with_turns`: with the column of one's own order; `outside`:
    the name of the scope that hides the others, if the page is narrowed; `owner`: whose jobs say
    when they start. What many rows have in common is drawn once: `since` when, `gpus`, `name`."""

    now: datetime
    with_turns: bool
    outside: str
    owner: int
    job: Callable[[object], str]
    before: Callable[[object], str]
    since: Callable[[datetime], str]
    gpus: Callable[[str, int], str]
    name: Callable[[str], str]

    def of(self, line: Line) -> str:
        """A row of the table."""
        job = line.row.job
        return self._others(line) if job is None else self._one(line, job)

    def _one(self, line: Line, job: Job) -> str:
        yielded = ' <span class="tag">let others go first</span>' if job.yielded_from else ""
        place = f"{line.first:,}" if line.first else "–"
        nodes = f'<span class="sub">{job.nodes} nodes × {job.gpus_per_node}</span>'
        return (
            f'<tr id="queued-{job.pk}"><td class="num" data-l="place">{place}</td>'
            f'<th scope="row" class="two first"><a class="jn" href="{self.job(job.pk)}">'
            f'{name(job.name)}</a><span class="sub"><span class="id">#{job.pk}</span> '
            f"{self.name(job.owner.get_full_name())}, {escape(job.project.path)}{yielded}</span>"
            "</th>\n"
            f'<td class="nw">{self.gpus(job.gpu_model, job.gpus)}'
            f"{nodes if job.nodes > 1 else ''}</td>"
            f'<td data-l="tier">{line.tier}</td><td class="nw" data-l="waits">'
            f'{self.since(line.row.queued_at)}</td><td class="full left why-cell">'
            f'{escape(line.row.sentence)} <a class="nw" href="{self.before(job.pk)}" '
            f'aria-label="Who went before #{job.pk}">Who went before</a>'
            f"{self._start(job) if job.owner_id == self.owner else ''}</td>"
            f"{self._turns(line, job) if self.with_turns else ''}</tr>\n"
        )

    def _start(self, job: Job) -> str:
        """When it starts; the head of the page says as of when."""
        p50, p90 = start_window(job)
        if p90 is None:
            return '<span class="sub">Start unknown</span>'
        until = f" to {clock(p90, self.now, '%H:%M')}" if p50 != p90 else ""
        first = clock(p50 or p90, self.now, "%H:%M")
        return f'<span class="sub">Starts {first}{until}</span>'

    def _turns(self, line: Line, job: Job) -> str:
        buttons = [
            f'<button class="btn sm" name="turn" value="{turn}:{job.pk}" '
            f'aria-label="Let #{job.pk} {words}">{label}</button>'
            for has, turn, words, label in _TURNS
            if getattr(line, has)
        ]
        lead = " " if line.has_later and not line.has_earlier else ""
        return f'<td class="nw">{lead}{" ".join(buttons)}</td>'

    def _others(self, line: Line) -> str:
        until = f" – {line.last:,}" if line.last != line.first else ""
        if self.outside:
            whose = f"outside {escape(self.outside)}"
        elif len(line.teams) == 1:
            whose = "of another team"
        else:
            whose = f"of {len(line.teams)} other teams"
        return (
            f'<tr class="muted"><td class="num nw" data-l="place">{line.first:,}{until}</td>'
            f'<td class="full left">{line.jobs:,} job{pluralize(line.jobs)} {whose}</td>'
            f"<td>{line.gpus:,} GPU{pluralize(line.gpus)}</td>"
            f'<td data-l="tier">{line.tier}</td><td class="nw" data-l="waits">'
            f"{self.since(line.row.queued_at)}{', the first' if line.jobs > 1 else ''}</td>"
            f'<td class="full left"></td>{"<td></td>" if self.with_turns else ""}</tr>'
        )


def _gpus(model: str, count: int) -> str:
    return escape(gpu_count(model, count))


def draw_rows(
    lines: Iterable[Line], now: datetime, *, with_turns: bool, outside: str, owner: int
) -> SafeString:
    """The rows of a table for one page, as HTML."""
    links = links_to("jobs:detail"), links_to("jobs:before")
    alike = cache(partial(since, now=now)), cache(_gpus), cache(name)
    drawing = _Drawing(now, with_turns, outside, owner, *links, *alike)
    return SafeString("".join(f"\n{drawing.of(line)}\n" for line in lines))
