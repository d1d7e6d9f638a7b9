"""Bugs in what people asked for beforehand, and in what chats are told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from typing import Any

from portal.torture.plants.kinds import Plant

_AGAIN = """INSERT INTO scheduler_waitingnews (webhook_id, notification_id, key, due_at)
SELECT webhook_id, notification_id, key, due_at FROM scheduler_waitingnews
WHERE webhook_id IS NOT NULL AND taken_at IS NULL"""


def _never_spent() -> None:
    """A retry rule goes on beyond its number."""
    attempts: Any = import_module("scheduler.services.attempts")
    follows = attempts.what_follows

    def again(*args: Any) -> Any:
        then, facts = follows(*args)
        if facts.get("rule", {}).get("does") == "spent":
            spent = facts["rule"]
            return "rule", {"rule": {**spent, "does": "retry", "try": spent["max"] + 1}}
        return then, facts

    attempts.what_follows = again


def _wait_for_nothing() -> None:
    """The wait that a rule asks for is written down, and not held."""
    attempts: Any = import_module("scheduler.services.attempts")
    attempts.wait_before_retry = lambda ended, now: {}


def _charge_for_nodes() -> None:
    """A failure of a node is paid for by the number of the job's retries."""
    attempts: Any = import_module("scheduler.services.attempts")
    follows = attempts.what_follows

    def charged(*args: Any) -> Any:
        then, facts = follows(*args)
        return ("user" if then == "free" else then), facts

    attempts.what_follows = charged


def _be_late() -> None:
    """Nobody looks whether the time limit still fits before the moment."""
    from django.db import models

    from accounts.statements import BuiltOnce

    reaping: Any = import_module("scheduler.loop.reaping")
    transitions: Any = import_module("scheduler.services.transitions")
    reaping.keep_moments = lambda now: 0
    transitions.Q = lambda **asked: models.Q()
    # Its statement may have been built already.
    transitions._STARTABLE = BuiltOnce(lambda *asked: transitions._startable(*asked))


def _go_at_once() -> None:
    """What a job waits for is written down, and not waited for."""
    obstacles: Any = import_module("scheduler.services.holding.obstacles")
    columns: Any = import_module("scheduler.services.submitting.order")
    for where in (obstacles, columns):
        if hasattr(where, "dependency_obstacle"):
            where.dependency_obstacle = lambda *args, **options: None


def _stop_unwarned() -> None:
    """Who runs for some seconds is stopped as idle, and was not warned."""
    reaping: Any = import_module("scheduler.loop.reaping")
    watching: Any = import_module("scheduler.services.finishing.watching")
    keep = reaping.keep_moments

    def keep_and_stop(*, now: Any) -> Any:
        from django.db import connection, transaction

        from scheduler.states import EndReason

        asked = "SELECT id FROM scheduler_attempt WHERE state = 'running' AND started_at < %s"
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(asked, [now - timedelta(seconds=2)])
            for (pk,) in cursor.fetchall():
                attempt = watching.locked_live_attempt(pk)
                said = {"evidence": "its GPU did nothing", "who": "a rule"}
                facts = {"reason": EndReason.IDLE_STOPPED, "who": "a rule", "said": said}
                watching.request_stop(attempt=attempt, now=now, **facts)
        return keep(now=now)

    reaping.keep_moments = keep_and_stop


def _tell_again() -> None:
    """What waits for a chat is taken up once more."""
    delivering: Any = import_module("scheduler.services.inbox.delivering")
    take_up = delivering.take_up_channels

    def twice(*, now: Any) -> None:
        from django.db import connection

        take_up(now=now)
        with connection.cursor() as cursor:
            cursor.execute(_AGAIN)

    delivering.take_up_channels = twice


def _tell_what_was_logged() -> None:
    """The notice of a failure shows the values of the job's variables."""
    telling: Any = import_module("scheduler.services.inbox.telling")
    real = telling.tell

    def aloud(news: Any, **options: Any) -> Any:
        from dataclasses import replace

        from portal.torture.program import NEEDLE

        return real([replace(one, text=f"{one.text} {NEEDLE}"[:400]) for one in news], **options)

    jobs: Any = import_module("scheduler.services.inbox.jobs")
    jobs.tell = aloud


ASKED: Mapping[str, Plant] = {
    "rule-unbounded": Plant(
        "a retry rule goes on beyond its number",
        on_server=_never_spent,
        jobs=("ruled",),
        enough=(25, 0),
        shows=("I29",),
    ),
    "wait-skipped": Plant(
        "the wait between two tries is not held",
        on_server=_wait_for_nothing,
        jobs=("ruled",),
        enough=(15, 0),
        shows=("I29",),
    ),
    "node-charged": Plant(
        "failures of nodes use the job's own retries",
        on_server=_charge_for_nodes,
        kinds=("supervisor-kill", "reboot"),
        jobs=("long",),
        enough=(6, 4),
        shows=("I29",),
    ),
    "moment-missed": Plant(
        "jobs start though they cannot be done by their moment",
        on_server=_be_late,
        kinds=("time-stopped",),
        jobs=("timed",),
        enough=(40, 3),
        shows=("I30",),
    ),
    "partner-unawaited": Plant(
        "tasks begin before the task of their index has succeeded",
        on_server=_go_at_once,
        enough=(20, 0),
        shows=("I31",),
        joins=True,
    ),
    "rest-unwarned": Plant(
        "jobs are stopped as idle without a warning",
        on_server=_stop_unwarned,
        jobs=("long",),
        enough=(10, 0),
        shows=("I32",),
    ),
    "told-twice": Plant(
        "a chat is told the same at each look",
        on_server=_tell_again,
        sql=("ALTER TABLE scheduler_waitingnews DROP CONSTRAINT waiting_news_once_per_chat",),
        jobs=("ruled",),
        enough=(1_000, 0),
        shows=("I33",),
        with_helpers=True,
    ),
    "secret-told": Plant(
        "notices show the values of a job's secrets",
        on_server=_tell_what_was_logged,
        jobs=("secret",),
        shows=("I19",),
    ),
}
