"""Logs as they grow, and waiting for a job's end."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import (
    CANCELLED,
    OK,
    TIMED_OUT,
    TRY_AGAIN,
    UNREACHABLE,
    USER_FAILURE,
    Failure,
    code_of_end,
)
from portal.cli.output import LogWriter, print_json, print_line, say
from portal.cli.session import AsJson

HOLD_LOG_S = 20
HOLD_JOB_S = 60
SET_EVERY_S = 2.0
GIVE_UP_S = 300.0

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
        bool, typer.Option("--json", help='Print {"line": n, "text": "…"} for each line.')
    ] = False,
) -> None:
    """Print a job's log; -f goes on as it grows."""
    with Api(load_config()) as api, closing(LogWriter(is_raw=is_raw)) as writer:
        if as_json or tail:
            after = _print_lines(api, job, attempt, rank, tail, as_json, writer)
            if is_followed and not as_json:
                follow(api, job, attempt=attempt, rank=rank, offset=after, writer=writer)
        elif is_followed:
            follow(api, job, attempt=attempt, rank=rank, writer=writer)
        else:
            _print_all(api, job, attempt, rank, writer)
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


def finish(job: dict[str, Any], *, as_json: bool = False, quiet: bool = False) -> None:
    """Say how the job ended and leave with the exit code that mirrors it."""
    if as_json:
        print_json(job)
    elif not quiet:
        sentence = (job["end"] or {}).get("sentence", "")
        print_line(f"Job {job['id']} {job['shown_state']}. {sentence}")
    raise typer.Exit(code_of_end(job))


def until_end(api: Api, number: int, *, timeout_s: float | None = None) -> dict[str, Any]:
    """The job once it is final; raises Failure (exit code 124) when `timeout_s` pass before."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    patience = _Patience()
    while True:
        left = HOLD_JOB_S if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            job: dict[str, Any] = api.get(f"/jobs/{number}/", wait_s=min(HOLD_JOB_S, left))
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        if job["is_final"]:
            return job
        if deadline is not None and time.monotonic() >= deadline:
            raise Failure(
                f"Job {number} is still {job['state']} after {timeout_s:g} s.", code=TIMED_OUT
            )
        if left < 1:
            time.sleep(0.1)


def follow(
    api: Api,
    number: int,
    *,
    attempt: int | None = None,
    rank: int = 0,
    offset: int = 0,
    writer: LogWriter | None = None,
) -> None:
    """Print the log as it grows, until the job has ended and all of it was printed.

    A server that goes away for a while is waited for; the offset makes sure that nothing is lost
    or printed twice. When the job is tried again, the next attempt's log follows.
    """
    if writer is None:
        with closing(LogWriter()) as own:
            follow(api, number, attempt=attempt, rank=rank, offset=offset, writer=own)
        return
    patience = _Patience()
    current = attempt
    while True:
        try:
            reply = api.get_raw(
                f"/jobs/{number}/log/raw/",
                wait_s=HOLD_LOG_S,
                attempt=current,
                rank=rank,
                offset=offset,
            )
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        current = current or int(reply.headers["X-Log-Attempt"]) or None
        writer.write(reply.content)
        offset = int(reply.headers["X-Log-Next"])
        if reply.headers["X-Log-Complete"] != "1":
            continue
        following = None if attempt else _next_attempt(api, number, current or 0, patience)
        if following is None:
            return
        say(f"Attempt {current} has ended; attempt {following} follows.")
        current, offset = following, 0


def _next_attempt(api: Api, number: int, current: int, patience: _Patience) -> int | None:
    """The attempt after `current`, None when the job ended with it."""
    wait_s = 0
    while True:
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
        wait_s = 2


def _print_all(api: Api, number: int, attempt: int | None, rank: int, writer: LogWriter) -> None:
    offset, current = 0, attempt
    while True:
        reply = api.get_raw(f"/jobs/{number}/log/raw/", attempt=current, rank=rank, offset=offset)
        if not reply.content:
            return
        current = current or int(reply.headers["X-Log-Attempt"])
        offset = int(reply.headers["X-Log-Next"])
        writer.write(reply.content)


def _print_lines(
    api: Api,
    number: int,
    attempt: int | None,
    rank: int,
    tail: int | None,
    as_json: bool,
    writer: LogWriter,
) -> int:
    """Print lines, the last `tail` or all; returns the size of the log they came from."""
    first: int | None = None
    current = attempt
    while True:
        last = tail if first is None else None
        page = api.get(
            f"/jobs/{number}/log/",
            attempt=current,
            rank=rank,
            tail=last,
            from_line=None if last else first,
            count=None if last else 5000,
        )
        current = current or page["attempt"]
        for line, text in enumerate(page["lines"], start=page["first_line"]):
            if as_json:
                print_json({"line": line, "text": text}, is_compact=True)
            else:
                writer.write(text.encode() + b"\n")
        if tail or not page["lines"]:
            return int(page["size"])
        first = page["next_line"]


class _Patience:
    """How long to put up with a server that is away: five minutes in a row."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._since: float | None = None
        self._pause_s = 0.5

    def bear(self, failure: Failure) -> None:
        """Wait a moment, or raise the failure when it is no use to wait."""
        if failure.code not in (UNREACHABLE, TRY_AGAIN):
            raise failure
        if self._since is None:
            self._since = time.monotonic()
            say(f"{failure.what} Trying again…")
        if time.monotonic() - self._since > GIVE_UP_S:
            raise failure
        time.sleep(self._pause_s)
        self._pause_s = min(10.0, self._pause_s * 2)


def until_set_end(api: Api, number: int) -> dict[str, Any]:
    """The array once all its tasks have ended; asked for every few seconds."""
    patience = _Patience()
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


def finish_set(one: dict[str, Any], *, as_json: bool) -> None:
    """Say how the array ended: 0 if all tasks succeeded, 1 if one failed, 130 if cancelled."""
    if as_json:
        print_json(one)
    else:
        counts = ", ".join(f"{count} {state}" for state, count in one["counts"].items() if count)
        print_line(f"Set {one['id']} has ended: {counts}.")
    raise typer.Exit({"succeeded": OK, "failed": USER_FAILURE}.get(one["state"], CANCELLED))
