"""Advance bookings."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson, because

app = typer.Typer(
    help="List what is booked; book nodes, change that, give them back.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(help="The booking's number.")]
From = Annotated[
    str, typer.Option("--from", help="When: 2026-11-27T18:00Z, local without a zone, or +2h.")
]
Until = Annotated[str, typer.Option(help="Until when; +3h counts from its begin.")]
PerNode = Annotated[int | None, typer.Option(help="GPUs of each node; 0 for whole nodes.")]
Note = Annotated[str | None, typer.Option(help="What for; your team reads it.")]
EarlyEnd = Annotated[
    str | None,
    typer.Option("--reason", metavar="TEXT", help="Why; needed where jobs of others end with it."),
]
_HEADS = ("BOOKING", "STATE", "FOR", "POOL", "NODES", "FROM", "UNTIL", "WHERE", "NOTE")
_SPAN = re.compile(r"\+(\d{1,6})([mhd])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@app.callback()
def list_bookings(context: typer.Context, as_json: AsJson = False) -> None:
    """List what is booked; book nodes, change that, give them back."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        bookings = api.everything("/bookings/")
    if as_json:
        print_json(bookings)
        return
    print_table(_HEADS, [_cells(one) for one in bookings], "Nothing is booked.")


@app.command()
def add(
    owner: Annotated[str, typer.Argument(help="For whom: team, or team/project.")],
    from_at: From,
    until: Until,
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 1,
    gpus_per_node: PerNode = None,
    pool: Annotated[str, typer.Option(help="Of which pool.")] = "default",
    gpu_model: Annotated[str, typer.Option(help="Only nodes with this model.")] = "",
    name: Annotated[str, typer.Option(help="A short name, to give with --booking.")] = "",
    note: Note = None,
    as_json: AsJson = False,
) -> None:
    """Book nodes for the jobs of a team or project (who leads it)."""
    begin = moment(from_at, datetime.now(UTC), "--from")
    body: dict[str, Any] = {
        "owner": owner,
        "pool": pool,
        "nodes": nodes,
        "from_at": begin.isoformat(),
        "until_at": moment(until, begin, "--until").isoformat(),
        "gpus_per_node": gpus_per_node or 0,
        "gpu_model": gpu_model,
        "name": name,
        "note": note or "",
    }
    with Api(load_config()) as api:
        _say(api.post("/bookings/", body), as_json)


@app.command()
def edit(
    number: Number,
    from_at: Annotated[str | None, typer.Option("--from", help="Another begin.")] = None,
    until: Annotated[str | None, typer.Option(help="Another end; +3h from its begin.")] = None,
    nodes: Annotated[int | None, typer.Option(help="How many nodes.")] = None,
    gpus_per_node: PerNode = None,
    note: Note = None,
    reason: EarlyEnd = None,
    as_json: AsJson = False,
) -> None:
    """Change a booking; refused if somebody else has changed it meanwhile."""
    with Api(load_config()) as api:
        now = api.get(f"/bookings/{number}/")
        begin = datetime.fromisoformat(now["from_at"])
        if from_at is not None:
            begin = moment(from_at, datetime.now(UTC), "--from")
        end = None if until is None else moment(until, begin, "--until")
        changes = {
            "from_at": begin.isoformat() if from_at is not None else None,
            "until_at": end.isoformat() if end else None,
            "nodes": nodes,
            "gpus_per_node": gpus_per_node,
            "note": note,
        }
        body = {field: value for field, value in changes.items() if value is not None}
        if not body:
            raise Failure("Nothing is to be changed; see: trainyard bookings edit --help")
        body |= {"version": now["version"], **because(reason)}
        _say(api.post(f"/bookings/{number}/", body), as_json)


@app.command()
def cancel(number: Number, reason: EarlyEnd = None, as_json: AsJson = False) -> None:
    """Give a booking back; jobs that run in it are stopped."""
    with Api(load_config()) as api:
        _say(api.post(f"/bookings/{number}/cancel/", because(reason)), as_json)


def moment(text: str, since: datetime, option: str) -> datetime:
    """A moment with its zone: `+2h` after `since`, else ISO 8601; local if it names no zone.

    Raises Failure that names the option, also for a time beyond the calendar in a zone of use.
    """
    span = _SPAN.fullmatch(text.strip())
    try:
        if span:
            return since + timedelta(**{_UNITS[span[2]]: int(span[1])})
        found = datetime.fromisoformat(text.strip())
        return found if found.tzinfo else found.astimezone()
    except (ValueError, OverflowError):
        words = f"{option}: {text!r} is no time; write 2026-11-27T18:00 or +2h."
        raise Failure(words) from None


def _say(booking: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(booking)
        return
    where = ", ".join(booking["node_names"]) or "no node"
    print_line(f"Booking {booking['id']} is {booking['state']}:", _span(booking), f"on {where}.")
    if large := booking.get("jobs_too_large"):
        print_line(f"It is too small for {large} of the jobs that wait in it: they never start.")


def _cells(one: dict[str, Any]) -> list[object]:
    part = f" x {one['gpus_per_node']} GPUs" if one["gpus_per_node"] else ""
    return [
        one["id"],
        one["state"],
        one["owner"] or "others",
        one["pool"],
        f"{one['nodes']}{part}",
        _local(one["from_at"]),
        _local(one["until_at"]),
        " ".join(one["node_names"]),
        one["note"] or one["name"] or "",
    ]


def _span(booking: dict[str, Any]) -> str:
    return f"{_local(booking['from_at'])} to {_local(booking['until_at'])}"


def _local(text: str) -> str:
    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M")
