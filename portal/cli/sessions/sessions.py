"""Interactive sessions: start, list, come in, keep, stop."""

from __future__ import annotations

import json
import shlex
import time
from typing import Annotated, Any

import typer

from portal.cli import spec
from portal.cli.client import Api, Patience
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import ago, print_json, print_line, print_table, say
from portal.cli.session import AsJson, Reason, because

app = typer.Typer(
    help="Shells, notebooks, editors and programs of yours on a node, in your browser.",
    no_args_is_help=True,
)
Number = Annotated[int, typer.Argument(help="The session's number, which is its job's.", min=1)]
_HEADS = ("ID", "NAME", "APP", "STATE", "NODE", "LAST USED", "STOPS IF IDLE", "OWNER")
_PAUSE_S = 1.0


@app.command()
def start(
    context: typer.Context,
    what: Annotated[
        str, typer.Argument(help="shell, jupyter, vscode, tensorboard or command.")
    ] = "shell",
    project: Annotated[str, typer.Option(help="team/project.")] = "",
    name: Annotated[str, typer.Option(help="Its name; else that of what it is.")] = "",
    pool: Annotated[str, typer.Option(help="Pool.")] = "",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs.")] = 1,
    cpus: Annotated[int, typer.Option(min=1, help="CPU cores.")] = 2,
    memory: Annotated[str, typer.Option(help="Memory, such as 4GiB.")] = "4GiB",
    time_limit: Annotated[str, typer.Option("--time", help="Longest time.")] = "2h",
    idle_stop: Annotated[str, typer.Option(help="Stop when idle for so long.")] = "30m",
    is_awaited: Annotated[
        bool, typer.Option("--wait", help="Wait until it runs, and print how to come in.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start one; the command of a program of yours stands behind `--`."""
    command = list(context.obj or ())
    if bool(command) != (what == "command"):
        raise Failure(
            "A command belongs to `session start command`, and to it alone.",
            remedy=f"Type: trainyard session start command -- {shlex.join(command) or 'PROGRAM'}",
        )
    document: dict[str, Any] = {
        "name": name or what,
        "project": project,
        "pool": pool,
        "gpus_per_node": gpus,
        "cpus": cpus,
        "memory": memory,
        "time_limit": time_limit,
        "session": {"app": what, "idle_stop": idle_stop},
        "command": command,
    }
    with Api(load_config()) as api:
        if not project:
            document["project"] = spec.usual_project(api)
        job = api.submit("/jobs/", json.dumps(document).encode(), "application/json")
        if is_awaited:
            say(f"Session {job['id']} {job['name']!r} is {job['state']}; this waits until it runs.")
        ticket = _awaited(api, job["id"]) if is_awaited else None
    if as_json:
        print_json({**job, "connect": ticket})
    elif ticket is not None:
        print_line(ticket["url"])
    else:
        print_line(f"Session {job['id']} {job['name']!r} is {job['state']}.")
        say(f"Come in: trainyard session connect-url {job['id']}")


@app.command("list")
def list_sessions(as_json: AsJson = False) -> None:
    """The sessions you may see, newest first."""
    with Api(load_config()) as api:
        found = api.everything("/sessions/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["id"],
            one["name"],
            one["app"],
            one["state"],
            one["node"],
            ago(one["idle_since"]) if one["idle_since"] else "",
            f"{one['idle_stop_at'][11:16]} UTC" if one["idle_stop_at"] else "",
            one["owner"],
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "There are no sessions.")


@app.command("connect-url")
def connect_url(number: Number, as_json: AsJson = False) -> None:
    """Print an address that lets a browser in once, within a minute."""
    with Api(load_config()) as api:
        ticket = api.post(f"/sessions/{number}/ticket/", {})
    if as_json:
        print_json(ticket)
    else:
        print_line(ticket["url"])


@app.command()
def keep(number: Number, as_json: AsJson = False) -> None:
    """Set its idle clock back."""
    with Api(load_config()) as api:
        found = api.post(f"/sessions/{number}/keep/", {})
    if as_json:
        print_json(found)
        return
    print_line(f"The idle clock of session {number} starts anew.")


@app.command()
def stop(number: Number, reason: Reason = None, as_json: AsJson = False) -> None:
    """End it."""
    with Api(load_config()) as api:
        job = api.post(f"/jobs/{number}/cancel/", because(reason))
    if as_json:
        print_json(job)
        return
    print_line(f"Session {number} is {job['state']}.")


def _awaited(api: Api, number: int) -> dict[str, Any]:
    """A ticket once it runs. A server that goes away for a while is waited for."""
    patience = Patience()
    while True:
        try:
            one = api.get(f"/sessions/{number}/")
            if "connect" in one["actions"]:
                ticket: dict[str, Any] = api.post(f"/sessions/{number}/ticket/", {})
                return ticket
        except Failure as failure:
            patience.bear(failure)
            continue
        patience.renew()
        if one["state"] in ("succeeded", "failed", "cancelled"):
            raise Failure(
                f"Session {number} is {one['state']}.", remedy=f"Type: trainyard why {number}"
            )
        time.sleep(_PAUSE_S)
