"""What a new job does to the older ones of its group: in the transaction that writes it, so that a
submit which is refused or repeated cancels nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from accounts.models import User
from scheduler.models import Job, JobEvent
from scheduler.services import transitions
from scheduler.services.gathering import gathering
from scheduler.services.holding.following import followers_of
from scheduler.services.holding.moves import cancel_each, reconsider
from scheduler.services.rows.adding import add_objects
from scheduler.services.stopping import request_stop
from scheduler.services.submitting.groups import Members, name_of, named_of
from scheduler.states import EndReason

# Of a longer list the history says how many more.
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Newest:
    """A job that was just written, an array as all its tasks, and its group as it was before."""

    jobs: Sequence[Job]
    members: Members
    policy: str

    @property
    def facts(self) -> dict[str, object]:
        """What is said to those it ends."""
        job = self.jobs[0]
        number = {"newer_set": job.job_set_id} if job.job_set_id else {"newer_job": job.pk}
        return {"newer": name_of(job), **number, "group": job.group_name}


def supersede(written: Sequence[Newest], *, actor: User, now: datetime) -> None:
    """End the older ones, each for the first that came after it, in the order of `written`; a
    constant number of statements, but for those that run: each is asked to stop by itself.

    The members are told: what was written is the newest of them then.
    """
    facts: dict[int, dict[str, object]] = {}
    gone: list[Job] = []
    told: list[JobEvent] = []
    with gathering():
        for one in written:
            leaving, live = one.members.leaving(one.policy), one.members.stopping(one.policy)
            # Who is being cancelled already is not stopped for this one.
            stopped = [job for job in live if _ask_to_stop(job, one, actor, now)]
            facts |= {job.pk: one.facts for job in leaving}
            gone += leaving
            if leaving or stopped:
                told.append(_took_over(one, leaving, stopped, actor, now))
            one.members.fresh = list(one.jobs)
            if one.policy == "stop":
                one.members.begun = live
        if told:
            add_objects(told)
        cancel_each(gone, facts, reason=EndReason.SUPERSEDED, now=now, actor=actor)
    if gone:
        reconsider(followers_of(gone), now=now)


def _ask_to_stop(job: Job, newest: Newest, actor: User, now: datetime) -> bool:
    attempt = newest.members.attempts[job.pk]
    attempt.job = job
    is_asked = request_stop(
        attempt=attempt, reason=EndReason.SUPERSEDED, now=now, actor=actor, said=newest.facts
    )
    if is_asked:
        transitions.tell_of_job(job)
    return is_asked


def _took_over(
    newest: Newest, leaving: Sequence[Job], live: Sequence[Job], actor: User, now: datetime
) -> JobEvent:
    said = {"cancelled": named_of(leaving), "stopped": named_of(live)}
    detail: dict[str, object] = {"group": newest.jobs[0].group_name}
    for verb, names in said.items():
        more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
        detail |= {verb: ", ".join(names[:_SHOWN] + more)} if names else {}
    return JobEvent(job=newest.jobs[0], at=now, actor=actor, kind="took_over", detail=detail)
