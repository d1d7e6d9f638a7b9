"""Who decides on which requests: look, lay a rule down, end one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List who decides on which requests; lay a rule down or end one (administrators).",
    invoke_without_command=True,
)
Kind = Annotated[str, typer.Argument(help="Kind of request; nothing: any without its own rule.")]
_HEADS = ("KIND", "BY", "DECIDED", "WHAT IT MEANS")
_FROM = {"own": "rule {policy}", "any": "rule {policy} for any", "usual": "as usual"}


@app.callback()
def list_rules(context: typer.Context, as_json: AsJson = False) -> None:
    """List who decides on which requests; lay a rule down or end one (administrators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.get("/requests/policies/")
    if as_json:
        print_json(found)
        return
    print_table(_HEADS, [_cells(one) for one in found["items"]], "There are no rules.")


def _cells(one: dict[str, Any]) -> list[object]:
    by = _FROM[one["rule"]].format(policy=one["policy"])
    return [one["kind"] or "any", by, one["decided"], " ".join(one["means"])]


@app.command("set")
def set_rule(
    kind: Kind = "",
    money_limit: Annotated[
        str, typer.Option(help="Finance too above so much a month; left out: no cost does.")
    ] = "",
    always_admin: Annotated[
        bool, typer.Option("--always-admin", help="An administrator always decides.")
    ] = False,
    hours: Annotated[int, typer.Option(help="Hours for each step.")] = 48,
    days: Annotated[int, typer.Option(help="Days at most.")] = 365,
    auto: Annotated[
        int | None, typer.Option(help="Up to so much needs nobody, for a team within 30 days.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Lay a rule down, for what is submitted from now on (administrators)."""
    body: dict[str, Any] = {
        "kind": kind,
        "money_limit": money_limit or None,
        "always_admin": always_admin,
        "sla_hours": hours,
        "most_days": days,
        "auto_up_to": auto,
    }
    with Api(load_config()) as api:
        found = api.post("/requests/policies/", body)
    if as_json:
        print_json(found)
        return
    print_line(f"The rule holds for {found['kind'] or 'any kind without its own'} from now on.")


@app.command("end")
def end_rule(kind: Kind = "", as_json: AsJson = False) -> None:
    """End the rule of a kind; what holds for any kind, else what is usual, holds again."""
    with Api(load_config()) as api:
        found = api.post("/requests/policies/end/", {"kind": kind})
    if as_json:
        print_json(found)
        return
    print_line(f"The rule for {found['kind'] or 'any kind'} has ended.")
