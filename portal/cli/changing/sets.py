"""Arrays: list them, show, cancel or rerun one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import (
    ago,
    moment,
    money,
    print_json,
    print_line,
    print_listed,
    print_waiters,
)
from portal.cli.requesting.cancels import say_cancel
from portal.cli.session import AsJson, Reason, because

app = typer.Typer(help="List arrays; show, cancel or rerun one.", invoke_without_command=True)
SetNumber = Annotated[int, typer.Argument(min=1, metavar="SET", help="The array's number.")]
_SET_HEADS = ("SET", "STATE", "NAME", "PROJECT", "TASKS", "DONE", "FAILED", "SINCE")


@app.callback()
def list_sets(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List arrays you may see, newest first; show, cancel or rerun one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found, is_cut = api.first("/sets/", limit)
    empty = "There are no arrays."
    print_listed(found, _SET_HEADS, _set_cells, empty, as_json=as_json, is_cut=is_cut)


def _set_cells(one: dict[str, Any]) -> list[object]:
    first = [one[name] for name in ("id", "state", "name", "project", "size", "finished")]
    return [*first, one["counts"].get("failed", 0), ago(one["created_at"])]


@app.command("show")
def show_set(number: SetNumber, as_json: AsJson = False) -> None:
    """How far an array is, when it is likely to be done, what it has cost."""
    with Api(load_config()) as api:
        one = api.get(f"/sets/{number}/")
    if as_json:
        print_json(one)
        return
    counts = ", ".join(f"{count} {state}" for state, count in one["counts"].items() if count)
    print_line(f"Array {number} {one['name']!r}, tasks {one['range']}: {counts}.")
    if one["done_at"]:
        print_line(f"Likely done at about {moment(one['done_at'])}.")
    else:
        print_line(f"No estimate: {one['done_why']}.")
    if one["cost"] is not None:
        print_line(f"Cost so far: {money(one['cost'], one['currency'])}.")
    if one.get("group"):
        print_line(f"Of its group {one['group']} the newest counts.")
    print_waiters(one)
    print_line(f"Its tasks: trainyard jobs --all --set {number}")


@app.command("cancel")
def cancel_set(
    number: SetNumber,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    """End every task of an array that has not ended, or propose it where that takes two people."""
    with Api(load_config()) as api:
        done = api.post(f"/sets/{number}/cancel/", because(reason))
    if as_json:
        print_json(done)
        return
    if "outcome" in done:
        say_cancel(done)
        return
    print_line(f"Array {number}: {done['tasks']} tasks are cancelled or asked to stop.")


@app.command("rerun")
def rerun_set(number: SetNumber, as_json: AsJson = False) -> None:
    """Run the failed tasks of an array again, as a new array."""
    with Api(load_config()) as api:
        made = api.post(f"/sets/{number}/rerun/")
    if as_json:
        print_json(made)
        return
    print_line(f"Array {made['id']} runs {made['size']} failed tasks of array {number} again.")
