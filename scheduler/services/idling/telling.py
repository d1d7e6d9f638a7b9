"""What owners of jobs are told of GPUs that do little; nobody else is."""

from __future__ import annotations

from datetime import datetime

from scheduler.models import IdleRule, IdleWarning, Job
from scheduler.services.inbox.telling import News, tell
from scheduler.states import IDLE_ACT_DONE, IdleAct, NoticeKind


def tell_of_warning(job: Job, rule: IdleRule, warning: IdleWarning, *, now: datetime) -> None:
    """Tell the owner what was seen and what follows when; of an array once an hour."""
    follows = ""
    if warning.act_at is not None:
        done = IDLE_ACT_DONE[IdleAct(warning.act)]
        follows = (
            f" It is {done} at {warning.act_at:%Y-%m-%d %H:%M} UTC unless they work again, or you "
            "say on its page that you still need it."
        )
    ends = "" if warning.act_at is None else f" and is {IDLE_ACT_DONE[IdleAct(warning.act)]} soon"
    is_task = job.job_set_id is not None
    text = f"By {rule.name}: {warning.evidence}.{follows}"
    about = f"set:{job.job_set_id}" if is_task else f"job:{job.pk}"
    told = f"{rule.pk}:{now:%Y%m%d%H}" if is_task else str(warning.pk)
    tell([_news(job, f"{job.name} does little{ends}", text, f"idle:{about}:{told}")], now=now)


def tell_of_pause(job: Job, rule: IdleRule, warning: IdleWarning, *, now: datetime) -> None:
    """Tell the owner that it is being paused; of a stop its end tells."""
    text = f"By {rule.name}: {warning.evidence}. Resume it to let it go on in its old place."
    title = f"{job.name} is paused: its GPUs did little"
    tell([_news(job, title, text, f"idle:{warning.pk}:paused")], now=now)


def _news(job: Job, title: str, text: str, key: str) -> News:
    is_task = job.job_set_id is not None
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_IDLE,
        subject=f"set:{job.job_set_id}" if is_task else f"job:{job.pk}",
        title=title,
        text=text,
        path=f"/jobs/{job.pk}/",
        key=key,
    )
