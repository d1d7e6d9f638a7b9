"""The `trainyard` command: a thin client of the REST API. See README.md for its exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import typer

from portal.cli import checkpoint, follow, jobs, nodes, session, submit
from portal.cli.changing import sets
from portal.cli.changing.change import change
from portal.cli.changing.turns import reorder
from portal.cli.cluster import bookings, datasets, pools, simulate
from portal.cli.composing import templates
from portal.cli.composing.convert import convert
from portal.cli.exits import OK, READER_GONE, Failure
from portal.cli.idling import rules as idle_rules
from portal.cli.idling.keep import keep
from portal.cli.kept import outputs
from portal.cli.kept.patch import patch
from portal.cli.output import print_failure
from portal.cli.people import (
    address,
    audit,
    channels,
    deputies,
    groups,
    hours,
    quota,
    roles,
    secrets,
    teams,
    usage,
    watching,
    webhooks,
)
from portal.cli.recurring import schedules
from portal.cli.requesting import cancels, requests, rules
from portal.cli.sessions import sessions

app = typer.Typer(
    name="trainyard",
    help="Submit, watch and explain training jobs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    session.login,
    session.whoami,
    address.address,
    submit.submit,
    convert,
    jobs.jobs,
    jobs.queue,
    follow.logs,
    outputs.outputs,
    patch,
    jobs.why,
    follow.wait,
    jobs.cancel,
    jobs.hold,
    jobs.release,
    change,
    reorder,
    jobs.pause,
    jobs.resume,
    keep,
    jobs.clone,
    checkpoint.checkpoint,
    audit.audit,
    quota.quota,
    usage.usage,
    hours.hours,
    watching.watch,
    watching.unwatch,
):
    app.command()(command)
app.add_typer(nodes.app, name="nodes")
app.add_typer(bookings.app, name="bookings")
app.add_typer(pools.app, name="pools")
app.add_typer(idle_rules.app, name="idle")
app.add_typer(datasets.app, name="datasets")
app.add_typer(simulate.app, name="simulate")
app.add_typer(sets.app, name="sets")
app.add_typer(templates.app, name="templates")
app.add_typer(schedules.app, name="schedule")
app.add_typer(sessions.app, name="session")
app.add_typer(roles.app, name="roles")
app.add_typer(groups.app, name="groups")
app.add_typer(teams.app, name="teams")
app.add_typer(deputies.app, name="deputies")
app.add_typer(secrets.app, name="secrets")
app.add_typer(cancels.app, name="cancels")
requests.app.add_typer(rules.app, name="rules")
app.add_typer(requests.app, name="requests")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(channels.app, name="channels")


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    words = list(words)
    behind: list[str] = []
    if "--" in words:
        split = words.index("--")
        words, behind = words[:split], words[split + 1 :]
    try:
        app(words, prog_name="trainyard", obj=behind)
    except Failure as failure:
        print_failure(failure, as_json="--json" in words)
        return failure.code
    except SystemExit as end:  # how the library ends every command, wrong usage too
        return end.code if isinstance(end.code, int) else OK
    return OK


class ReaderGone(Exception):
    """Whoever read what this prints, as `head` does, has gone."""


class _Output(io.FileIO):
    """A file that ends the program when nobody reads it, whoever writes to it.

    A BrokenPipeError would be caught on its way, by libraries that end with 1. The signal that ends
    other tools is no way either: a connection that a server closes would send it as well.
    """

    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except BrokenPipeError:
            # What still waits goes there, rather than nowhere with a complaint.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise ReaderGone from None


def _output(stream: TextIO) -> TextIO:
    """The same stream; what it has no sign for is no reason to end, a reader that has gone is."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    raw = _Output(stream.fileno(), "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=stream.line_buffering,
    )


def main() -> None:
    """The console script."""
    sys.stdout, sys.stderr = _output(sys.stdout), _output(sys.stderr)
    try:
        code = run(sys.argv[1:])
    except ReaderGone:
        code = READER_GONE
    sys.exit(code)


if __name__ == "__main__":
    main()
