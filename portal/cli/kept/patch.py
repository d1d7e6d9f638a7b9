"""What the code of a job was changed by before it ran."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from portal.cli.client import Api, not_ours
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.follow import Number
from portal.cli.output import LogWriter, print_json, say
from portal.cli.session import AsJson

_HEADER = "X-Code-Commit"


def patch(
    job: Number,
    attempt: Annotated[
        int | None, typer.Option(min=1, help="Which attempt; the latest by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the local changes of a job's code, for git apply at its commit."""
    with Api(load_config()) as api:
        number = attempt or api.get(f"/jobs/{job}/")["attempt"]
        if not number:
            raise Failure(f"Job {job} was not started yet, so no code was read.")
        reply = api.get_raw(f"/jobs/{job}/attempts/{number}/patch/")
    if _HEADER not in reply.headers:
        raise not_ours(reply)
    commit = reply.headers[_HEADER]
    if as_json:
        print_json({"attempt": number, "code_commit": commit, "patch": reply.text})
        return
    with closing(LogWriter()) as writer:
        writer.write(reply.content)
    code = f"commit {commit}" if commit else "code of no known commit"
    say(f"Attempt {number} ran {code} with {'these' if reply.content else 'no local'} changes.")
