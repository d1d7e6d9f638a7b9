"""What owners of jobs, and who watches them, are told of GPUs that do little."""

from __future__ import annotations

from datetime import datetime

from scheduler.models import IdleRule, IdleWarning, Job
from scheduler.services.inbox.telling import News, tell
from scheduler.services.inbox.watching import Watchers
from scheduler.states import IDLE_ACT_DONE, IdleAct, NoticeKind, moment_words


def tell_of_warning(
    job: Job, rule: IdleRule, warning: IdleWarning, watchers: Watchers, *, now: datetime
) -> None:
    """Tell the owner, and who watches, what was seen and what follows when; of an array once an
    hour. `watchers` are those of all who are warned in this look."""
    follows, keep, kept = "", "", ""
    if warning.act_at is not None:
        done = IDLE_ACT_DONE[IdleAct(warning.act)]
        follows = f" It is {done} at {moment_words(warning.act_at)} unless they work again, or "
        keep = "you say on its page that you still need it."
        kept = "its owner says that it is still needed."
    ends = "" if warning.act_at is None else f" and is {IDLE_ACT_DONE[IdleAct(warning.act)]} soon"
    title = f"{job.name} does little{ends}"
    is_task = job.job_set_id is not None
    text = f"By {rule.name}: {warning.evidence}.{follows}"
    about = f"set:{job.job_set_id}" if is_task else f"job:{job.pk}"
    told = f"{rule.pk}:{now:%Y%m%d%H}" if is_task else str(warning.pk)
    news = _news(job, title, text + keep, text + kept, f"idle:{about}:{told}")
    tell([news, *watchers.told(job, news)], now=now)


def tell_of_pause(
    job: Job, rule: IdleRule, warning: IdleWarning, watchers: Watchers, *, now: datetime
) -> None:
    """Tell the owner, and who watches, that it is being paused; of a stop its end tells."""
    text = f"By {rule.name}: {warning.evidence}."
    resume = f"{text} Resume it to let it go on in its old place."
    title = f"{job.name} is paused: its GPUs did little"
    news = _news(job, title, resume, text, f"idle:{warning.pk}:paused")
    tell([news, *watchers.told(job, news)], now=now)


def _news(job: Job, title: str, text: str, for_others: str, key: str) -> News:
    is_task = job.job_set_id is not None
    return News(
        person_id=job.owner_id,
        kind=NoticeKind.JOB_IDLE,
        subject=f"set:{job.job_set_id}" if is_task else f"job:{job.pk}",
        title=title,
        text=text,
        path=f"/jobs/{job.pk}/",
        key=key,
        for_others=for_others,
    )
