"""Which of one's own waiting jobs goes first."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson


def reorder(
    jobs: Annotated[
        list[int] | None, typer.Argument(min=1, metavar="[JOB]...", help="First the next one.")
    ] = None,
    pool: Annotated[str, typer.Option(help="Which pool they wait for.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Say which of your waiting jobs go first; without any, in the order of submit again."""
    with Api(load_config()) as api:
        found = api.post(f"/queue/{quote(pool, safe='')}/order/", {"jobs": jobs or []})
        me = api.get("/me/")["username"]
    if as_json:
        print_json(found)
        return
    mine = [place for place in found["items"] if place["owner"] == me]
    rows = [[place["position"], place["job"], place["name"], place["tier"]] for place in mine]
    print_table(("PLACE", "JOB", "NAME", "TIER"), rows, f"None of your jobs waits for {pool}.")
    if jobs:
        print_line("Jobs that let others go first stand behind them. Nobody else's was passed.")
