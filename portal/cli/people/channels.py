"""Chats that are told one's own news, or those of a team that one leads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import ago, print_json, print_line, print_listed, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List chats that are told your news; add, test, change or remove one.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="Its number, as listed.")]
Kinds = Annotated[list[str] | None, typer.Option("--kind", help="News it gets; may be repeated.")]
_HEADS = ("NO", "NAME", "TO", "NEWS OF", "TOLD OF", "STATE", "SENT", "WAITING", "GIVEN UP", "LAST")
_MESSAGE = ("NO", "NEWS", "MADE", "TRIES", "OUTCOME")


@app.callback()
def list_channels(context: typer.Context, as_json: AsJson = False) -> None:
    """List chats that are told your news; add, test, change or remove one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/channels/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["id"],
            one["name"] or "-",
            one["host"],
            f"team {one['team']}" if one["team"] else "you",
            ", ".join(one["kinds"]) or "everything",
            "paused" if one["paused_at"] else "on",
            one["sent"],
            one["waiting"],
            one["lost"],
            ago(one["last_at"]) if one["last_at"] else "never",
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No chat is told anything.")


@app.command()
def add(
    chat: Annotated[
        str, typer.Argument(help="slack (Mattermost and Rocket.Chat, too) or teams (Microsoft).")
    ],
    file: Annotated[str, typer.Option(help="Read the address here; else from stdin.")] = "",
    team: Annotated[str, typer.Option(help="News of this team instead of your own.")] = "",
    name: Annotated[str, typer.Option(help="How you tell it from others.")] = "",
    kind: Kinds = None,
    as_json: AsJson = False,
) -> None:
    """Tell a chat. The address of its incoming webhook comes from a file or from standard input,
    where no history of commands keeps it."""
    sent = {"dialect": chat, "url": _read(file), "team": team, "name": name, "kinds": kind or []}
    with Api(load_config()) as api:
        made = api.post("/channels/", sent)
    if as_json:
        print_json(made)
        return
    print_line(f"{made['host']} is told from now on, as channel {made['id']}.")
    print_line(f"See it there: trainyard channels test {made['id']}")


@app.command()
def test(number: Number, as_json: AsJson = False) -> None:
    """Send a test, and say what was answered."""
    with Api(load_config()) as api:
        found = api.post(f"/channels/{number}/test/")
    if as_json:
        print_json(found)
    elif found["is_there"]:
        print_line(found["said"])
    if not found["is_there"]:
        raise Failure(found["said"], remedy="See its messages: trainyard channels messages N")


@app.command()
def change(
    number: Number,
    name: Annotated[str | None, typer.Option(help="Another name.")] = None,
    kind: Kinds = None,
    everything: Annotated[bool, typer.Option("--all", help="Tell it of everything.")] = False,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Stop, go on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Call it otherwise, tell it of other news, pause it or let it go on."""
    if kind and everything:
        raise Failure("--kind and --all exclude each other.", remedy="Give one of them.")
    sent: dict[str, object] = {"kinds": kind} if kind else {"kinds": []} if everything else {}
    if pause is not None:
        sent["is_paused"] = pause
    if name is not None:
        sent["name"] = name
    if not sent:
        raise Failure(
            "Nothing to change.", remedy="Give --name, --kind, --all, --pause or --resume."
        )
    with Api(load_config()) as api:
        found = api.post(f"/channels/{number}/", sent)
    if as_json:
        print_json(found)
        return
    of = ", ".join(found["kinds"]) or "everything"
    called = found["name"] or found["host"]
    print_line(f"{called} is {'paused' if found['paused_at'] else 'told'}: {of}.")


@app.command()
def remove(number: Number, as_json: AsJson = False) -> None:
    """Forget it, its address and its messages."""
    with Api(load_config()) as api:
        api.delete(f"/channels/{number}/")
    if as_json:
        print_json({"id": number})
        return
    print_line(f"Channel {number} is removed.")


@app.command()
def messages(
    number: Number,
    limit: Annotated[int, typer.Option(help="How many at most.", min=1)] = 50,
    as_json: AsJson = False,
) -> None:
    """What became of the latest messages."""
    with Api(load_config()) as api:
        found, is_cut = api.first(f"/channels/{number}/messages/", limit)
    empty = "Nothing was sent yet."
    print_listed(found, _MESSAGE, _message_cells, empty, as_json=as_json, is_cut=is_cut)


def _message_cells(one: dict[str, Any]) -> list[object]:
    came = "arrived" if one["sent_at"] else "given up" if one["given_up_at"] else "on its way"
    if one["status"] and not one["sent_at"]:
        came = f"{came}, answered {one['status']}"
    return [one["id"], one["kind"], ago(one["created_at"]), one["tries"], came]


def _read(file: str) -> str:
    """The address; raises Failure."""
    if not file and sys.stdin.isatty():
        return str(typer.prompt("Address", hide_input=True)).strip()
    try:
        raw = Path(file).read_bytes() if file and file != "-" else sys.stdin.buffer.read()
        return raw[:4096].decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(
            f"The address cannot be read: {error}", remedy="Give a text file, or pipe it in."
        ) from None
