"""Roles of the organisation."""

from __future__ import annotations

from typing import Annotated

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List roles of the organisation; give or take one (administrators).",
    invoke_without_command=True,
)
Username = Annotated[str, typer.Argument(help="Who.")]
Role = Annotated[str, typer.Argument(help="admin, finance, operator or auditor.")]
_HEADS = ("PERSON", "ROLE", "GIVEN BY", "GIVEN", "STATE")


@app.callback()
def list_roles(context: typer.Context, as_json: AsJson = False) -> None:
    """List roles of the organisation; give or take one (administrators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/roles/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["username"],
            one["role"],
            one["given_by"] or "",
            ago(one["given_at"]),
            "holds" if one["confirmed_at"] else "waits for a second administrator",
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "Nobody holds a role.")


@app.command()
def give(username: Username, role: Role, as_json: AsJson = False) -> None:
    """Give somebody a role (administrators)."""
    with Api(load_config()) as api:
        found = api.post("/roles/", {"username": username, "role": role})
    if as_json:
        print_json(found)
    elif found["confirmed_at"]:
        print_line(f"{found['username']} is {found['role']} now.")
    else:
        print_line(f"{found['username']} will be {found['role']} once another one confirms it.")


@app.command()
def confirm(username: Username, role: Role, as_json: AsJson = False) -> None:
    """Confirm a role that another administrator gave."""
    with Api(load_config()) as api:
        found = api.post("/roles/confirm/", {"username": username, "role": role})
    if as_json:
        print_json(found)
        return
    print_line(f"{found['username']} is {found['role']} now.")


@app.command()
def take(username: Username, role: Role, as_json: AsJson = False) -> None:
    """Take a role away, or withdraw one that waits (administrators)."""
    taken = {"username": username, "role": role}
    with Api(load_config()) as api:
        api.post("/roles/take/", taken)
    if as_json:
        print_json(taken)
        return
    print_line(f"{username} is no longer {role}.")
