"""Another time limit, tier or size for a job, and who would wait for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.jobs import Number
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson


def change(
    job: Number,
    time_limit: Annotated[str, typer.Option(help="From the start of an attempt, like 6h.")] = "",
    tier: Annotated[str, typer.Option(help="Of a job that waits.")] = "",
    nodes: Annotated[int, typer.Option(min=0, help="The most of an elastic job.")] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say who would wait.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a job more time, an elastic one another size, or a waiting one another limit or tier;
    says who starts later."""
    asked = {"time_limit": time_limit, "tier": tier, "nodes": nodes}
    body: dict[str, Any] = {name: value for name, value in asked.items() if value}
    with Api(load_config()) as api:
        answer = api.post(f"/jobs/{job}/change/", body | {"dry_run": dry_run})
    if as_json:
        print_json(answer)
        return
    impact = answer["impact"]
    later = [
        [one["job"] or "another team's", one["was_at"], one["then_at"] or "unknown"]
        for one in impact["delayed"]
    ]
    print_table(("STARTS LATER", "WAS", "THEN"), later, "Nobody starts later.")
    if impact["consent"] and not impact["may"]:
        print_line(f"It takes the word of: {impact['consent']}.")
    if not dry_run:
        print_line(f"Job {job} is changed.")
