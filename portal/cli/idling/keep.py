"""Say that a job is still needed, though its GPUs do little."""

from __future__ import annotations

from typing import Annotated

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.jobs import Number
from portal.cli.output import print_json, print_line
from portal.cli.session import AsJson


def keep(
    job: Number,
    hours: Annotated[int, typer.Option(min=1, help="For how many hours.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="What for, in one line.")],
    as_json: AsJson = False,
) -> None:
    """Keep a job that was warned because its GPUs do little; leads read the reason."""
    with Api(load_config()) as api:
        found = api.post(f"/jobs/{job}/keep/", {"hours": hours, "reason": reason})
    if as_json:
        print_json(found)
        return
    kept = (found["idle"] or {}).get("kept")
    until = f" until {kept['until'][:16].replace('T', ' ')} UTC" if kept else ""
    print_line(f"Job {job} is kept{until}: nothing follows if its GPUs do little.")
