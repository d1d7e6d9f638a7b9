"""Who acts for whom. Only a person lends rights, on the page Delegations: a token lends nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List who acts for whom, and end it; people give it on the page Delegations.",
    invoke_without_command=True,
)
_HEADS = ("NUMBER", "DEPUTY", "FOR", "MAY", "TEAM", "FROM", "UNTIL", "STATE")


@app.callback()
def list_deputies(context: typer.Context, as_json: AsJson = False) -> None:
    """List who acts for whom, and end it; people give it on the page Delegations."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/delegations/")
    if as_json:
        print_json(found)
        return
    now = datetime.now(UTC)
    print_table(_HEADS, [_cells(one, now) for one in found], "Nobody acts for you or through you.")


def _cells(one: dict[str, Any], now: datetime) -> list[object]:
    return [
        one["id"],
        one["deputy"],
        one["giver"],
        one["scope"].replace("_", " "),
        one["team"] or "any",
        one["starts_at"][:16].replace("T", " "),
        one["ends_at"][:16].replace("T", " "),
        _state(one, now),
    ]


def _state(one: dict[str, Any], now: datetime) -> str:
    if one["ended_early_at"]:
        return "ended early"
    if now < datetime.fromisoformat(one["starts_at"]):
        return "to come"
    return "now" if now < datetime.fromisoformat(one["ends_at"]) else "over"


@app.command()
def end(
    number: Annotated[int, typer.Argument(help="Its number in the list.")], as_json: AsJson = False
) -> None:
    """End it now: one you gave, or one you hold."""
    with Api(load_config()) as api:
        found = api.post(f"/delegations/{number}/end/", {})
    if as_json:
        print_json(found)
        return
    print_line(f"{found['deputy']} acts for {found['giver']} no longer.")
