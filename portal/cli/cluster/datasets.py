"""Data sets and the nodes that hold them."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List data sets; tell of one and of its copies (operators).", invoke_without_command=True
)
Name = Annotated[str, typer.Argument(help="The data set, such as imagenet-2012.")]
_HEADS = ("DATA SET", "MIB", "NODES THAT HOLD IT")


@app.callback()
def list_datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List data sets; tell of one and of its copies (operators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        _say(api.everything("/datasets/"), as_json)


@app.command("set")
def set_size(
    name: Name,
    size: Annotated[str, typer.Argument(help="How large it is: 150GiB.")],
    as_json: AsJson = False,
) -> None:
    """Tell of a data set, or that its size has changed (operators)."""
    with Api(load_config()) as api:
        told = api.post("/datasets/", {"name": name, "size": size})
        _say(api.everything("/datasets/", begun=told), as_json)


@app.command()
def copy(
    name: Name,
    node: Annotated[str, typer.Argument(help="The node that holds it.")],
    held: Annotated[str, typer.Option(help="How much of it; 0 for nothing any more.")] = "",
    as_json: AsJson = False,
) -> None:
    """Say that a node holds it, or how much of it (operators)."""
    with Api(load_config()) as api:
        path = f"/datasets/{quote(name, safe='')}/copies/"
        told = api.post(path, {"node": node, "held": held or None})
        _say(api.everything("/datasets/", begun=told), as_json)


@app.command()
def remove(name: Name, as_json: AsJson = False) -> None:
    """Forget a data set and its copies (operators)."""
    with Api(load_config()) as api:
        left = api.post(f"/datasets/{quote(name, safe='')}/remove/")
        _say(api.everything("/datasets/", begun=left), as_json)


def _say(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [[one["name"], one["size_mib"], _nodes(one)] for one in found]
    print_table(_HEADS, rows, "There are no data sets.")
    if rows:
        print_line("Jobs name them with --datasets.")


def _nodes(one: dict[str, Any]) -> str:
    held = [
        copy["node"] if copy["held_mib"] is None else f"{copy['node']} ({copy['held_mib']} MiB)"
        for copy in one["copies"]
    ]
    return " ".join(held)
