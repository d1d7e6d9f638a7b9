"""Teams and what lies below them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List teams as a tree; make one, or put one below another.", invoke_without_command=True
)
Below = Annotated[str, typer.Option(help="The team above, by its short name.")]
_HEADS = ("TEAM", "NAME", "BELOW")


@app.callback()
def list_teams(context: typer.Context, as_json: AsJson = False) -> None:
    """List teams as a tree; make one, or put one below another."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/teams/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [f"{'  ' * depth}{one['slug']}", one["name"], one["parent"] or ""]
        for depth, one in _as_tree(found)
    ]
    print_table(_HEADS, rows, "You are in no team.")


def _as_tree(teams: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Each team with its depth, right below the one above it; foreign ones above are left out."""
    known = {one["slug"] for one in teams}
    ordered: list[tuple[int, dict[str, Any]]] = []

    def add(parent: str | None, depth: int) -> None:
        for one in sorted(teams, key=lambda team: str(team["slug"])):
            above = one["parent"] if one["parent"] in known else None
            if above == parent:
                ordered.append((depth, one))
                add(one["slug"], depth + 1)

    add(None, 0)
    return ordered


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    below: Below = "",
    slug: Annotated[str, typer.Option(help="Its short name; else made of the name.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make a team (operators), or one below your own (leads)."""
    body = {"name": name, "parent": below, **({"slug": slug} if slug else {})}
    with Api(load_config()) as api:
        found = api.post("/teams/", body)
    if as_json:
        print_json(found)
        return
    _say(found)


@app.command()
def move(
    team: Annotated[str, typer.Argument(help="The team, by its short name.")],
    below: Below = "",
    top: Annotated[bool, typer.Option("--top", help="Below no other team.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a team with all below it under another one (leads of both; administrators)."""
    if bool(below) == top:
        raise typer.BadParameter("Give either --below TEAM or --top.")
    with Api(load_config()) as api:
        found = api.post(f"/teams/{team}/move/", {"parent": below})
    if as_json:
        print_json(found)
        return
    _say(found)


def _say(found: dict[str, Any]) -> None:
    where = f"below {found['parent']}" if found["parent"] else "at the top"
    print_line(f"{found['slug']} ({found['name']}) is {where}.")
