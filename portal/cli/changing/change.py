"""Another time limit, tier, size or other GPUs for a job, and who would wait for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.jobs import Number
from portal.cli.output import moment, print_json, print_line, print_table
from portal.cli.session import AsJson


def change(
    job: Number,
    time: Annotated[
        str, typer.Option("--time", "--time-limit", help="From the start of an attempt, like 6h.")
    ] = "",
    tier: Annotated[str, typer.Option(help="Of a job that waits.")] = "",
    nodes: Annotated[
        str, typer.Option(help="The most of an elastic job; of one that waits any, or 2..8.")
    ] = "",
    gpus: Annotated[
        int | None,
        typer.Option(
            "--gpus", "-g", "--gpus-per-node", min=0, help="Per node, of a job that waits; 0: none."
        ),
    ] = None,
    gpu_model: Annotated[
        str | None, typer.Option(help="Of a job that waits; any for whatever comes.")
    ] = None,
    pool: Annotated[str, typer.Option(help="Of a job that waits, or pools: best,next.")] = "",
    finish_by: Annotated[
        str,
        typer.Option(help="Has to be finished by: 2026-12-31T08:00Z, +6h from now, or none."),
    ] = "",
    finish_by_policy: Annotated[
        str, typer.Option(help="When late: keep (goes on) or cancel (never starts too late).")
    ] = "",
    max_cost: Annotated[
        str, typer.Option(help="All its attempts cost no more, such as 12.50, or none.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say who would wait.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a job more time, an elastic one another size, or a waiting one another limit, tier,
    pool or GPUs, or another moment to be finished by or highest price; says who starts later."""
    asked = {"time_limit": time, "tier": tier, "nodes": nodes, "pool": pool}
    asked |= {"finish_by": finish_by, "finish_by_policy": finish_by_policy}
    asked |= {"max_cost": max_cost}
    body: dict[str, Any] = {name: value for name, value in asked.items() if value}
    if gpus is not None:
        body["gpus_per_node"] = gpus
    if gpu_model is not None:
        body["gpu_model"] = "" if gpu_model == "any" else gpu_model
    with Api(load_config()) as api:
        answer = api.post(f"/jobs/{job}/change/", body | {"dry_run": dry_run})
    if as_json:
        print_json(answer)
        return
    _show(answer["impact"])
    if not dry_run:
        print_line(f"Job {job} is changed.")


def _show(impact: dict[str, Any]) -> None:
    """All that the change means."""
    _show_starts(impact)
    if finish := impact.get("finish"):
        print_line(finish["sentence"])
    if more := impact["more_cost"]:
        print_line(f"It costs {more} more at most.")
    if cost := impact["most_cost"]:
        was = f", instead of {cost['was']}" if cost["was"] else ""
        print_line(f"It may cost {cost['then'] or 'nobody knows what'} at most{was}.")
    if highest := impact.get("highest"):
        print_line(highest)
    if impact["consent"] and not impact["may"]:
        print_line(f"It takes the word of: {impact['consent']}.")


def _show_starts(impact: dict[str, Any]) -> None:
    """When the job and those behind it start at the latest, before and after."""
    if own := impact["own"]:
        then, was = _at(own["then_at"]), _at(own["was_at"])
        print_line(f"Its own start at the latest: {then}; as it is: {was}.")
    later = [
        [one["job"] or "another's", _at(one["was_at"]), _at(one["then_at"])]
        for one in impact["delayed"]
    ]
    print_table(("STARTS LATER", "WAS", "THEN"), later, "Nobody starts later.")
    if more := impact["delayed_count"] - len(later):
        print_line(f"And {more} more.")
    for job in impact.get("stopped", ()):
        print_line(f"Stops {_named(job)} at once.")
    if more := impact.get("stopped_count", 0) - len(impact.get("stopped", ())):
        print_line(f"And {more} more.")
    for one in impact.get("resized", ()):
        print_line(f"Restarts {_named(one['job'])} with {one['nodes']} nodes.")


def _named(job: int | None) -> str:
    return "another's job" if job is None else f"job {job}"


def _at(when: str | None) -> str:
    return moment(when) if when else "unknown"
