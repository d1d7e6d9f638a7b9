"""Pausing and resuming waiting lines."""

from __future__ import annotations

from django.db import transaction

from accounts.models import User
from accounts.services.audit import Subject, record
from scheduler import events
from scheduler.models import Queue
from scheduler.services.nodes import require_operator


@transaction.atomic
def pause_queue(*, actor: User, queue: Queue) -> Queue:
    """Jobs may still be submitted; none is started until it is resumed."""
    return _set_paused(actor, queue, True)


@transaction.atomic
def resume_queue(*, actor: User, queue: Queue) -> Queue:
    """Let its jobs start again."""
    return _set_paused(actor, queue, False)


def _set_paused(actor: User, queue: Queue, is_paused: bool) -> Queue:
    require_operator(actor)
    before = {"is_paused": queue.is_paused}
    Queue.objects.filter(pk=queue.pk).update(is_paused=is_paused)
    queue.refresh_from_db()
    about = Subject("queue", str(queue.pk), f"{queue.pool.name}/{queue.name}")
    record(
        actor,
        "queue.pause" if is_paused else "queue.resume",
        about,
        before=before,
        after={"is_paused": is_paused},
    )
    events.publish_on_commit(f"queue:{queue.pool.name}")
    events.wake_scheduler_on_commit()
    return queue
