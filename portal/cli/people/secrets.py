"""Secrets that jobs get as files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List secrets that jobs may name; set or delete one.", invoke_without_command=True
)
Name = Annotated[str, typer.Argument(help="Its name, such as hub-token.")]
Project = Annotated[str, typer.Option(help="Of this team/project instead of your own.")]
_HEADS = ("NAME", "OF", "SET BY", "SET", "LAST GIVEN TO A JOB")
_LONGEST = 8192


@app.callback()
def list_secrets(context: typer.Context, as_json: AsJson = False) -> None:
    """List secrets that jobs may name; set or delete one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/secrets/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["name"],
            one["project"] or "you",
            one["set_by"] or "",
            ago(one["set_at"]),
            ago(one["used_at"]) if one["used_at"] else "never",
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No secrets are kept for you.")


@app.command("set")
def set_secret(
    name: Name,
    file: Annotated[str, typer.Option(help="Read the value from this file; else from stdin.")] = "",
    project: Project = "",
    as_json: AsJson = False,
) -> None:
    """Keep a value, from a file or from standard input; it can never be read again."""
    value = _read(file)
    with Api(load_config()) as api:
        kept = api.post("/secrets/", {"name": name, "value": value, "project": project})
    if as_json:
        print_json(kept)
        return
    print_line(f"{kept['name']} is kept for {kept['project'] or 'you'}.")


@app.command()
def delete(name: Name, project: Project = "", as_json: AsJson = False) -> None:
    """Forget a secret; jobs that name it fail from then on."""
    with Api(load_config()) as api:
        found = [
            one
            for one in api.everything("/secrets/")
            if one["name"] == name and (one["project"] or "") == project
        ]
        if not found:
            raise Failure(
                f"There is no secret {name} of {project or 'yours'}.",
                remedy="See the names with: trainyard secrets",
            )
        api.delete(f"/secrets/{found[0]['id']}/")
    if as_json:
        print_json(found[0])
        return
    print_line(f"{name} is deleted.")


def _read(file: str) -> str:
    """The value without the line end that editors and `echo` add; raises Failure."""
    if not file and sys.stdin.isatty():
        text = typer.prompt("Value", hide_input=True)
    else:
        try:
            raw = Path(file).read_bytes() if file and file != "-" else sys.stdin.buffer.read()
            text = raw[: _LONGEST + 2].decode()
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(
                f"The value cannot be read: {error}", remedy="Give a text file, or pipe it in."
            ) from None
    return text.removesuffix("\n")
