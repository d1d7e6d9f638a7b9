"""Nodes and pools."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List nodes; drain, quarantine, resume, cut cards or renew the token of one (operators).",
    invoke_without_command=True,
)
Name = Annotated[str, typer.Argument(help="The node's name.")]
_HEADS = ("NODE", "STATE", "POOL", "GPUS", "HELD", "MODEL", "SEEN", "JOBS")


@app.callback()
def list_nodes(
    context: typer.Context,
    pool: Annotated[str | None, typer.Option(help="Only this pool's nodes.")] = None,
    as_json: AsJson = False,
) -> None:
    """List nodes; drain, quarantine, resume, cut cards or renew the token of one (operators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        nodes = api.everything("/nodes/", pool=pool)
    if as_json:
        print_json(nodes)
        return
    print_table(_HEADS, [_cells(node) for node in nodes], "There are no nodes.")


def _cells(node: dict[str, Any]) -> list[object]:
    jobs = sorted({device["job"] for device in node["devices"] if device["job"]})
    models = sorted({device["model"] for device in node["devices"]})
    simulated = " (simulated)" if node["is_simulated"] else ""
    return [
        node["name"],
        node["state"],
        node["pool"],
        node["total"],
        node["held"],
        ", ".join(models) + simulated,
        ago(node["last_seen_at"]),
        " ".join(str(job) for job in jobs),
    ]


@app.command()
def drain(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; shown to people.")] = "",
    stop_jobs: Annotated[
        bool, typer.Option("--stop-jobs", help="They save, stop and queue again in their place.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Let a node's jobs end, or stop them now, and give it no more (operators)."""
    body: dict[str, Any] = {"reason": reason} if reason else {}
    if stop_jobs:
        body["stop_jobs"] = True
    _act(name, "drain", body, as_json)


@app.command()
def quarantine(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; shown to people.")],
    as_json: AsJson = False,
) -> None:
    """Start nothing new on a node until it is resumed; what runs goes on (operators)."""
    _act(name, "quarantine", {"reason": reason}, as_json)


@app.command()
def cut(
    name: Name,
    index: Annotated[int, typer.Argument(help="The GPU's number on the node.")],
    slots: Annotated[int, typer.Argument(help="How many equal slots; 1 makes it whole.")],
    isolation: Annotated[str, typer.Option(help="timeslice, or mps if it runs there.")] = "",
    as_json: AsJson = False,
) -> None:
    """Offer a card nobody holds as equal slots, each a GPU part of its own (operators)."""
    body: dict[str, Any] = {"action": "cut", "slots": slots}
    if isolation:
        body["isolation"] = isolation
    with Api(load_config()) as api:
        node = api.post(f"/nodes/{quote(name, safe='')}/gpus/{index}/", body)
    if as_json:
        print_json(node)
        return
    here = [device for device in node["devices"] if device["index"] == index]
    for device in here:
        print_line(f"GPU {device['name']} of {node['name']}: {device['model']}.")


@app.command()
def resume(name: Name, as_json: AsJson = False) -> None:
    """Let a drained or quarantined node take jobs again (operators)."""
    _act(name, "resume", {}, as_json)


@app.command("renew-token")
def renew_token(name: Name, as_json: AsJson = False) -> None:
    """Have a node's token replaced at its next call (operators)."""
    _act(name, "renew-token", {}, as_json)


def _act(name: str, action: str, body: dict[str, Any], as_json: bool) -> None:
    with Api(load_config()) as api:
        node = api.post(f"/nodes/{quote(name, safe='')}/{action}/", body)
    if as_json:
        print_json(node)
        return
    print_line(f"Node {node['name']} is {node['state']}.")
