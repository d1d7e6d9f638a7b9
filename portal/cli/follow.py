"""Logs as they grow, and waiting for a job's end."""

from __future__ import annotations

import math
import time
from contextlib import closing
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import typer

from portal.cli.client import Api, Patience, not_ours
from portal.cli.config import load_config
from portal.cli.exits import (
    CANCELLED,
    OK,
    TIMED_OUT,
    USER_FAILURE,
    Failure,
    code_of_end,
)
from portal.cli.output import LogWriter, print_json, print_line, say
from portal.cli.session import AsJson

HOLD_LOG_S = 20
HOLD_JOB_S = 60
SET_EVERY_S = 2.0
_HEADERS = {"x-log-attempt", "x-log-next", "x-log-complete"}

Number = Annotated[int, typer.Argument(min=1, metavar="JOB", help="The job's number.")]


def logs(
    job: Number,
    is_followed: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the job ends.")
    ] = False,
    rank: Annotated[int, typer.Option(min=0, help="Which node's output, from 0.")] = 0,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt; the latest by default.")
    ] = None,
    tail: Annotated[
        int | None, typer.Option(min=1, max=5000, help="Only the last so many lines.")
    ] = None,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="End with the exit code that mirrors the job's.")
    ] = False,
    is_raw: Annotated[
        bool, typer.Option("--raw", help="Let all escape sequences through to the terminal.")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Print {"line": n, "text": "…"} for each line; with -f as they come, from 1 again '
            "where another attempt follows.",
        ),
    ] = False,
) -> None:
    """Print a job's log; -f goes on as it grows."""
    with Api(load_config()) as api:
        place = _tail(api, job, attempt, rank, tail) if tail else _Place(attempt)
        writer = LineWriter(place.line) if as_json else LogWriter(is_raw=is_raw)
        with closing(writer):
            if is_followed:
                stays = attempt is not None
                follow(api, job, rank=rank, place=place, stays=stays, writer=writer)
            else:
                _print_all(api, job, rank, place, writer)
        if exit_status:
            finish(until_end(api, job), quiet=True)


def wait(
    job: Number,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Give up after so many seconds.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a job has ended; the exit code says how."""
    with Api(load_config()) as api:
        finish(until_end(api, job, timeout_s=timeout_s), as_json=as_json)


def finish(
    job: dict[str, Any], *, as_json: bool = False, is_compact: bool = False, quiet: bool = False
) -> None:
    """Say how the job ended and leave with the exit code that mirrors it."""
    if as_json:
        print_json(job, is_compact=is_compact)
    elif not quiet:
        sentence = (job["end"] or {}).get("sentence", "")
        print_line(f"Job {job['id']} {job['shown_state']}. {sentence}")
    raise typer.Exit(code_of_end(job))


def until_end(api: Api, number: int, *, timeout_s: float | None = None) -> dict[str, Any]:
    """The job once it is final; raises Failure (exit code 124) when `timeout_s` pass before."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    patience = Patience()
    job: dict[str, Any] | None = None
    while True:
        left, asked = _left_s(deadline), time.monotonic()
        try:
            wait_s = min(HOLD_JOB_S, left)
            job = api.get(f"/jobs/{number}/", wait_s=wait_s, within_s=left)
        except Failure as failure:
            patience.bear(failure, most_s=_left_s(deadline))
            if not _left_s(deadline):
                heard = f"Job {number} was {job['state']} when it was last heard of" if job else ""
                words = heard or f"Nothing was heard of job {number} for {timeout_s:g} s"
                raise Failure(f"{words}: {failure.what}", code=TIMED_OUT) from None
            continue
        patience.renew()
        if job["is_final"]:
            return job
        if not _left_s(deadline):
            raise Failure(
                f"Job {number} is still {job['state']} after {timeout_s:g} s.", code=TIMED_OUT
            )
        _rest(asked, min(1.0, max(0.1, _left_s(deadline))))


def _left_s(deadline: float | None) -> float:
    """Seconds until then, 0 afterwards; without an end where there is none."""
    return math.inf if deadline is None else max(0.0, deadline - time.monotonic())


def _rest(asked: float, most_s: float = 1.0) -> None:
    """Wait where a call was answered at once with nothing new, as one too many to be held is."""
    if time.monotonic() - asked < 1:
        time.sleep(most_s)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where to read on: a byte of an attempt's log, and the line it lies in. No attempt: the
    latest."""

    attempt: int | None = None
    offset: int = 0
    line: int = 1


class LineWriter:
    """Log bytes to standard output as JSON, an object for each line once it is whole."""

    def __init__(self, line: int = 1) -> None:
        self._line = line
        self._held = bytearray()

    def write(self, raw: bytes) -> None:
        """Print the lines that `raw` completes; the rest waits."""
        self._held += raw
        if b"\n" in raw:
            *lines, self._held = self._held.split(b"\n")
            for line in lines:
                self._print(line)

    def end(self) -> None:
        """The log has ended: what waits is its last line."""
        if self._held:
            self._print(self._held)
        self._held, self._line = bytearray(), 1

    def close(self) -> None:
        """A line that is not whole is none yet."""

    def _print(self, line: bytearray) -> None:
        text = line.decode("utf-8", "replace")
        print_json({"line": self._line, "text": text}, is_compact=True)
        self._line += 1


def follow(
    api: Api,
    number: int,
    *,
    writer: LogWriter | LineWriter,
    rank: int = 0,
    place: _Place = _Place(),
    stays: bool = False,
) -> None:
    """Print the log from `place` on as it grows, until the job has ended and all was printed.

    A server that goes away for a while is waited for; the offset makes sure that nothing is lost
    or printed twice. When the job is tried again, the next attempt's log follows, unless this
    `stays` with the attempt it began with.
    """
    patience = Patience()
    current, offset = place.attempt, place.offset
    while True:
        asked = time.monotonic()
        try:
            reply = _piece(api, number, current, rank, offset, wait_s=HOLD_LOG_S)
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        current = current or int(reply.headers["X-Log-Attempt"]) or None
        writer.write(reply.content)
        offset = int(reply.headers["X-Log-Next"])
        if reply.headers["X-Log-Complete"] != "1":
            if not reply.content:
                _rest(asked)
            continue
        writer.end()
        following = None if stays else _next_attempt(api, number, current or 0, patience)
        if following is None:
            return
        say(f"Attempt {current} has ended; attempt {following} follows.")
        current, offset = following, 0


def _next_attempt(api: Api, number: int, current: int, patience: Patience) -> int | None:
    """The attempt after `current`, None when the job ended with it."""
    wait_s = 0
    while True:
        asked = time.monotonic()
        try:
            job = api.get(f"/jobs/{number}/", wait_s=wait_s)
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        latest = job["attempt"] or 0
        if latest > current:
            return current + 1
        if job["is_final"]:
            return None
        if wait_s:
            _rest(asked)
        wait_s = 2


def _print_all(
    api: Api, number: int, rank: int, place: _Place, writer: LogWriter | LineWriter
) -> None:
    offset, current = place.offset, place.attempt
    while True:
        reply = _piece(api, number, current, rank, offset)
        current = current or int(reply.headers["X-Log-Attempt"]) or None
        offset = int(reply.headers["X-Log-Next"])
        writer.write(reply.content)
        if reply.headers["X-Log-Complete"] == "1":
            writer.end()
            return
        if not reply.content:
            return


def _piece(
    api: Api, number: int, attempt: int | None, rank: int, offset: int, *, wait_s: float = 0
) -> httpx.Response:
    """Log bytes from there on; Failure (exit code 69) where they are not from a portal's log."""
    query: dict[str, Any] = {"attempt": attempt, "rank": rank, "offset": offset}
    reply = api.get_raw(f"/jobs/{number}/log/raw/", wait_s=wait_s, **query)
    if not reply.headers.keys() >= _HEADERS:
        raise not_ours(reply)
    return reply


def _tail(api: Api, number: int, attempt: int | None, rank: int, count: int) -> _Place:
    """Where the last `count` lines begin. Their bytes are read from there: an answer holds no more
    than so many lines, and no line without its end."""
    page = api.get(f"/jobs/{number}/log/", attempt=attempt, rank=rank, tail=count)
    if "offset" not in page:
        raise Failure(
            f"{api.config.server} does not say where the last lines begin: it is older than this.",
            remedy=f"Leave --tail out: trainyard logs {number} | tail -n {count}",
        )
    return _Place(page["attempt"], page["offset"], page["first_line"])


def until_set_end(api: Api, number: int) -> dict[str, Any]:
    """The array once all its tasks have ended; asked for every few seconds."""
    patience = Patience()
    while True:
        try:
            one: dict[str, Any] = api.get(f"/sets/{number}/")
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        if one["finished"] == one["size"]:
            return one
        time.sleep(SET_EVERY_S)


def finish_set(one: dict[str, Any], *, as_json: bool, is_compact: bool = False) -> None:
    """Say how the array ended: 0 if all tasks succeeded, 1 if one failed, 130 if cancelled."""
    if as_json:
        print_json(one, is_compact=is_compact)
    else:
        counts = ", ".join(f"{count} {state}" for state, count in one["counts"].items() if count)
        print_line(f"Array {one['id']} has ended: {counts}.")
    raise typer.Exit({"succeeded": OK, "failed": USER_FAILURE}.get(one["state"], CANCELLED))
