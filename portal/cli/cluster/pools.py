"""Pools, and the policies they have of their own."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(help="List pools; show or set who is next in one.", invoke_without_command=True)
_HEADS = ("POOL", "NODES", "GPUS", "FREE", "WAITING", "MODELS")


@app.callback()
def list_pools(context: typer.Context, as_json: AsJson = False) -> None:
    """List pools; show or set who is next in one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        pools = api.everything("/pools/")
    if as_json:
        print_json(pools)
        return
    print_table(_HEADS, [_cells(one) for one in pools], "There are no pools.")


@app.command()
def policy(
    name: Annotated[str, typer.Argument(help="The pool's name.")],
    order: Annotated[
        str, typer.Argument(help="fair, fifo, shortest or las; nothing shows what holds.")
    ] = "",
    patience: Annotated[
        float | None, typer.Option(help="Seconds until nodes are kept for who does not fit.")
    ] = None,
    placement: Annotated[str, typer.Option(help="tight or pack.")] = "",
    preempt: Annotated[
        bool | None, typer.Option("--preempt/--no-preempt", help="Whether jobs are stopped.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the cluster again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show who is next in a pool, or set that in place of the cluster's policy (operators)."""
    body = {"head_patience_s": patience, "placement": placement or None, "preempts": preempt}
    body = {field: value for field, value in body.items() if value is not None}
    if (follow and order) or (body and not order):
        raise Failure("Give an order with its dials, or --follow alone; see --help")
    path = f"/pools/{quote(name, safe='')}/policy/"
    with Api(load_config()) as api:
        if follow:
            found = api.delete(path)
        else:
            found = api.post(path, {"name": order, **body}) if order else api.whole(path)
    if as_json:
        print_json(found)
        return
    _say(found)


def _say(found: dict[str, Any]) -> None:
    dials = found["dials"]
    whose = "by its own policy" if found["has_own"] else "as the cluster is"
    stops = "others may be stopped" if dials["preempts"] else "nobody is stopped"
    print_line(
        f"Pool {found['pool']} is scheduled {whose}: {dials['order']}, {dials['placement']},",
        f"{stops}, patience {dials['head_patience_s']:g} s.",
    )
    if found["may_wait_s"]:
        print_line(f"Who has waited {found['may_wait_s'] / 3600:.1f} hours goes first, as learnt.")


def _cells(one: dict[str, Any]) -> list[object]:
    return [
        one["name"],
        one["nodes"],
        one["total"],
        one["free"],
        one["queued"],
        ", ".join(one["models"]),
    ]
