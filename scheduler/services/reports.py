"""What nodes report of their attempts: news is taken in once, everything else changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from accounts.statements import BuiltOnce
from scheduler.models import Attempt, Job, Node, Placement
from scheduler.services import transitions
from scheduler.services.attempts import keep_reports, read_log_sizes, settle
from scheduler.services.checkpoints.confirming import take_in_checkpoint, tells_news
from scheduler.services.gathering import Step, afterwards, gathering
from scheduler.services.holding.following import lock_sets_over
from scheduler.services.nodes.devices.given_up import keep_out
from scheduler.services.nodes.identity import refuse_attempts_of_others
from scheduler.services.rows.possible import possible
from scheduler.services.rows.updating import update_row
from scheduler.services.stopping import request_stop
from scheduler.services.timeline.late_logs import is_awaited, note_size, told_size
from scheduler.services.timeline.node_times import ran_until, sane, take_late
from scheduler.services.timeline.releasing import release_devices
from scheduler.services.verdicts import blame_who_failed
from scheduler.states import AttemptState, EndReason
from scheduler.tallies import Tally, tally
from scheduler.wire.messages import AttemptReport

_MAX_PATCH = 256 * 1024
_NOT_UP = ("", AttemptState.ASSIGNED, AttemptState.STARTING)
# What decides whether a report is news.
_TOLD = (
    *"node attempt rank reported ended_at ran_until ran_told_at".split(),
    *"log_size log_expected log_pruned_at checkpoint_pending".split(),
    *(f"attempt__{name}" for name in "job state master_port assigned_at ended_at".split()),
    *(f"attempt__{name}" for name in "code_commit checkpoint_step checkpoint_problem".split()),
    *(f"attempt__{name}" for name in "resume_from resume_step resume_problem".split()),
)
# Large, and of no account for what follows from a report; read all the same where they are asked.
_UNREAD = ("standing", "triage", "code_patch")
_RANK = (
    *(field.name for field in Placement._meta.concrete_fields),
    "node__name",
    "node__drain_requested_at",
)


@dataclass(frozen=True, slots=True)
class Told:
    """What one node says of its attempts, and when it was heard.

    `clock_ahead_s`: the node's clock less the server's.
    """

    node: Node
    reports: Sequence[AttemptReport]
    heard_at: datetime
    clock_ahead_s: float = 0.0


# One report that is news.
_News = tuple[Told, AttemptReport]


def _known_here(fences: Sequence[int], *nodes: int) -> QuerySet[Placement]:
    here = Placement.objects.filter(node_id__in=nodes, attempt_id__in=fences)
    return here.select_related("attempt").only(*_TOLD).order_by()


def _locked(fences: Sequence[int]) -> QuerySet[Attempt]:
    attempts = Attempt.objects.select_for_update().filter(pk__in=fences)
    return attempts.defer(*_UNREAD).order_by("pk")


def _jobs(ids: Sequence[int]) -> QuerySet[Job]:
    return Job.objects.filter(pk__in=ids).select_related("pool").defer("spec").order_by()


def _ranks_of(fences: Sequence[int]) -> QuerySet[Placement]:
    ranks = Placement.objects.filter(attempt_id__in=fences).select_related("node")
    return ranks.only(*_RANK).order_by("rank")


_KNOWN, _LOCKED = BuiltOnce(_known_here), BuiltOnce(_locked)
_JOBS, _RANKS = BuiltOnce(_jobs), BuiltOnce(_ranks_of)


def report_attempts(
    *, node: Node, reports: Sequence[AttemptReport], now: datetime, clock_ahead_s: float = 0.0
) -> set[int]:
    """Take in what a node says of its attempts; returns the fences it may forget.

    Reports are repeated until forgotten, late, or about attempts that were given up: only news
    about a live attempt on this very node changes anything, and once the end of a program whose
    node was not heard meanwhile. `clock_ahead_s`: the node's clock less the server's. Raises
    AttemptOfAnother.
    """
    return report_together([Told(node, reports, now, clock_ahead_s)], now=now)[0]


@transaction.atomic(savepoint=False)
def report_together(told: Sequence[Told], *, now: datetime) -> list[set[int]]:
    """`report_attempts` for different nodes, in the order they were heard, with one transaction.

    Equals one call for each, but for what nobody can have seen between them: an attempt whose ranks
    begin or end together makes one move, and who spoke first is told to forget it as well.
    """
    fences = sorted({report.fence for one in told for report in one.reports})
    if not fences:
        return [set() for _ in told]
    nodes = [one.node.pk for one in told]
    # Few sizes make few statements.
    nodes += nodes[-1:] * ((1 << (len(nodes) - 1).bit_length()) - len(nodes))
    known = {(one.node_id, one.attempt_id): one for one in _KNOWN.read(fences, *nodes)}
    forget, news = [], list[_News]()
    for one in told:
        over, new = _sorted_out(one, known, now)
        forget.append(over)
        news += ((one, report) for report in new)
    ended = set[int]()
    with gathering():
        if run_on := _given_up_and_alive(told, known):
            afterwards(Step.KEEP_OUT, keep_out, run_on, now=now)
        if news:
            ended = _take_in(sorted(news, key=lambda one: one[1].fence), now)
    for one, over in zip(told, forget, strict=True):
        said = {report.fence for report in one.reports if report.state is AttemptState.ENDED}
        over |= {fence for fence in ended & said if not _is_given_up(known[one.node.pk, fence])}
    return forget


def _sorted_out(
    told: Told, known: Mapping[tuple[int, int], Placement], now: datetime
) -> tuple[set[int], list[AttemptReport]]:
    """The fences of what is over, and the reports that are news."""
    forget: set[int] = set()
    news = []
    here = {report.fence: known.get((told.node.pk, report.fence)) for report in told.reports}
    if unknown := {fence for fence, placement in here.items() if placement is None}:
        refuse_attempts_of_others(unknown)
    for report in map(possible, told.reports):
        placement = here[report.fence]
        if placement is None or placement.attempt.state == AttemptState.ENDED:
            if report.state is not AttemptState.ENDED:
                tally(Tally.STALE_NODE)
            else:
                if placement is None or not is_awaited(placement, report, now):
                    forget.add(report.fence)
                if placement is not None and placement.rank == report.rank:
                    note_size(placement, report)
                    take_late(placement, report, told.clock_ahead_s, now)
        elif placement.rank == report.rank and _is_news(placement, report):
            news.append(report)
    return forget, news


def _given_up_and_alive(
    told: Sequence[Told], known: Mapping[tuple[int, int], Placement]
) -> list[Placement]:
    """Ranks that ended here without their node's word, of which it says now that they run."""
    alive = [
        known.get((one.node.pk, report.fence))
        for one in told
        for report in one.reports
        if report.state is not AttemptState.ENDED
    ]
    return [one for one in alive if one is not None and _is_given_up(one)]


def _is_given_up(placement: Placement) -> bool:
    """Whether it ended without its node's word, which has not come since either."""
    return placement.ended_at is not None and placement.ran_told_at is None


def _is_news(placement: Placement, report: AttemptReport) -> bool:
    if placement.ended_at is not None:
        return placement.checkpoint_pending and not report.checkpoint_pending
    return (
        placement.reported != report.state
        or (report.master_port is not None and placement.attempt.master_port is None)
        or bool(report.code_commit and not placement.attempt.code_commit)
        or tells_news(placement, report)
    )


def _take_in(news: Sequence[_News], now: datetime) -> set[int]:
    """Under the attempts' row locks, so that the last two ranks to end see each other.

    Everything is written down first and judged afterwards, attempt by attempt. Returns the fences
    of those that have ended for good, which nobody need report again.
    """
    fences = list(dict.fromkeys(report.fence for _, report in news))
    locked = {attempt.pk: attempt for attempt in _LOCKED.read(fences)}
    jobs = {job.pk: job for job in _JOBS.read([one.job_id for one in locked.values()])}
    over = {report.fence for _, report in news if report.state is AttemptState.ENDED}
    lock_sets_over(jobs[one.job_id] for one in locked.values() if one.pk in over)
    ranks: dict[int, list[Placement]] = {fence: [] for fence in locked}
    for placement in _RANKS.read(list(locked)):
        ranks[placement.attempt_id].append(placement)
    touched: dict[int, Placement] = {}
    for told, report in news:
        attempt = locked[report.fence]
        if attempt.state == AttemptState.ENDED:
            continue
        attempt.job = jobs[attempt.job_id]
        of_all = ranks[attempt.pk]
        mine = next(p for p in of_all if p.node_id == told.node.pk)
        if mine.ended_at is not None and not mine.checkpoint_pending:
            continue
        touched[mine.pk] = mine
        if mine.rank == 0:
            take_in_checkpoint(attempt, report, clock_ahead_s=told.clock_ahead_s, now=now)
        if mine.ended_at is None:
            _apply(attempt, mine, report, of_all, told, now)
        elif not report.checkpoint_pending:
            mine.checkpoint_pending = False
    keep_reports(touched.values())
    read_log_sizes(touched.values())
    judged = dict.fromkeys(placement.attempt_id for placement in touched.values())
    for fence in judged:
        settle(locked[fence], ranks[fence], now=now)
    # Who was ended by another hand meanwhile may lack a part of its log.
    return {fence for fence in judged if locked[fence].state == AttemptState.ENDED}


def _apply(
    attempt: Attempt,
    mine: Placement,
    report: AttemptReport,
    placements: Sequence[Placement],
    told: Told,
    now: datetime,
) -> None:
    _note_facts(attempt, report)
    if report.code_commit and report.code_commit[:64] != attempt.code_commit:
        _judge_code(attempt, mine, report, now)
    if mine.rank == 0 and report.master_port is not None and attempt.master_port is None:
        attempt.master_port = report.master_port
        update_row(Attempt, attempt.pk, {"master_port": report.master_port})
        transitions.change_desired(p.node_id for p in placements if p.rank > 0)
    mine.reported = report.state
    if report.started_at is not None and mine.started_at is None:
        mine.started_at = sane(report.started_at - told.clock_ahead_s, attempt.assigned_at, now)
    if report.state is AttemptState.ENDED:
        # Which rank ended first tells why: of many heard together too.
        mine.ended_at = mine.ran_told_at = told.heard_at
        mine.ran_until = ran_until(report, attempt.assigned_at, told.clock_ahead_s, now)
        mine.exit_code = report.exit_code
        mine.end_reason = report.end_reason or EndReason.START_FAILED
        mine.detail = report.detail[:4000]
        blame_who_failed(attempt, mine, placements)
        mine.log_expected = told_size(report)
        mine.checkpoint_pending = report.checkpoint_pending and mine.rank == 0
        release_devices(mine, now=now)


def _note_facts(attempt: Attempt, report: AttemptReport) -> None:
    if report.code_commit and not attempt.code_commit:
        attempt.code_commit = report.code_commit[:64]
        attempt.code_patch = report.code_patch[:_MAX_PATCH]
        attempt.save(update_fields=["code_commit", "code_patch"])


def _judge_code(attempt: Attempt, mine: Placement, report: AttemptReport, now: datetime) -> None:
    """A rank has other code than was told first: fetched, the attempt ends, and the next one takes
    the first. Of folders, which are people's to keep alike, and of a stop under way it is said."""
    said: dict[str, object] = {"rank": mine.rank, "node": mine.node.name}
    said |= {"commit": report.code_commit[:64], "first": attempt.code_commit}
    reason = EndReason.CODE_DIFFERS
    if attempt.stop_reason == reason:
        return
    if attempt.job.spec["code"]["git_url"] and request_stop(
        attempt=attempt, reason=reason, now=now, because_of=[mine], said=said
    ):
        return
    if mine.reported in _NOT_UP and report.state not in _NOT_UP:
        transitions.record_event(attempt.job, str(reason), now=now, attempt=attempt, detail=said)
