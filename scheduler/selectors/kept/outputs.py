"""Output files of a job, for who may read its log."""

from __future__ import annotations

from dataclasses import dataclass

from accounts.errors import Conflict, Forbidden, NotFound
from accounts.models import User
from accounts.permissions import can
from scheduler.models import Job, OutputFile
from scheduler.states import day_words


@dataclass(frozen=True, slots=True)
class Outputs:
    """A job's files by rank and name; `size` and `count` are of those that are whole.

    `away`: names of the nodes that are not heard and still have some of them.
    """

    files: tuple[OutputFile, ...]
    size: int
    count: int
    is_arriving: bool
    away: tuple[str, ...] = ()


def outputs_of(viewer: User, job: Job) -> Outputs:
    """All files, also those that are not kept and why.

    Raises Forbidden for people who may see the job but not its log.
    """
    _check_reader(viewer, job)
    files = tuple(
        job.outputs.select_related("placement__attempt", "placement__node").order_by("rank", "name")
    )
    whole = [one for one in files if one.completed_at and not one.pruned_at]
    arriving = any(one.word == "arriving" for one in files)
    away = sorted({one.placement.node.name for one in files if one.word == "away"})
    return Outputs(files, sum(one.size for one in whole), len(whole), arriving, tuple(away))


def get_output(viewer: User, job: Job, number: int) -> OutputFile:
    """A file that is whole; raises Forbidden, NotFound, or Conflict with why it is not there."""
    _check_reader(viewer, job)
    found = job.outputs.filter(pk=number).first()
    if found is None:
        raise NotFound("This job has no such file.")
    if found.pruned_at is not None:
        raise Conflict(f"It was pruned on {day_words(found.pruned_at)}.", code="output_pruned")
    if found.completed_at is None:
        reason = found.problem or "it has not arrived completely"
        raise Conflict(f"It is not kept: {reason}.", code="output_missing")
    return found


def _check_reader(viewer: User, job: Job) -> None:
    if not can(viewer, "view", job.project) or not can(viewer, "read_log", job.project):
        raise Forbidden("Your role may see this job, but not the files it made.")
