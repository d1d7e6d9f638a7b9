"""When each regular task last ran, kept beside the broker: what a health page asks about workers.

A note in the broker and no row: tasks run every few seconds, and a database that is slow or down
must not be asked to say that the worker is well.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import redis
from django.conf import settings

logger = logging.getLogger(__name__)

KEY = "trainyard:tasks"
# What loading the demonstration is at, forgotten by itself when its worker dies.
PROGRESS, PROGRESS_S = "trainyard:demo", 60
# Under this name stands when the first note was made, as if it were a task.
BEGAN = "began"
TIMEOUT_S = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a task's last run, and whether it succeeded."""

    at: datetime
    succeeded: bool


def note_run(task: str, *, succeeded: bool, now: datetime) -> None:
    """Say that a task has ended; a broker that is away is told nothing."""
    try:
        with _broker() as client:
            client.hsetnx(KEY, BEGAN, f"{now.timestamp():.0f} ok")
            client.hset(KEY, task, f"{now.timestamp():.0f} {'ok' if succeeded else 'failed'}")
    except (redis.RedisError, OSError, ValueError):
        logger.info("the broker is away; the end of %s is not noted", task)


def read_runs() -> dict[str, Run] | None:
    """By name of task; None when the broker does not answer within half a second."""
    try:
        with _broker() as client:
            noted = client.hgetall(KEY)
    except (redis.RedisError, OSError, ValueError):
        return None
    return {task.decode(): _read(said.decode()) for task, said in noted.items()}


def note_progress(words: str) -> None:
    """Say what a long task does now: its transaction shows nothing before it ends."""
    try:
        with _broker() as client:
            client.set(PROGRESS, words, ex=PROGRESS_S)
    except (redis.RedisError, OSError, ValueError):
        logger.info("the broker is away; progress is not noted")


def clear_progress() -> None:
    """The long task is over."""
    try:
        with _broker() as client:
            client.delete(PROGRESS)
    except (redis.RedisError, OSError, ValueError):
        logger.info("the broker is away; progress ends by itself")


def read_progress() -> str:
    """What the long task says it does; empty where nothing is known."""
    try:
        with _broker() as client:
            return (client.get(PROGRESS) or b"").decode()
    except (redis.RedisError, OSError, ValueError):
        return ""


def _broker() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
    )


def _read(said: str) -> Run:
    at, _, word = said.partition(" ")
    return Run(datetime.fromtimestamp(int(at), UTC), word == "ok")
