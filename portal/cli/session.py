"""Signing in, and who that is."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from portal.cli.client import Api, is_loopback
from portal.cli.config import (
    Config,
    clean_server,
    clean_token,
    load_config,
    save_config,
    stored_server,
)
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line, say


def _also_before(context: typer.Context, value: bool) -> bool:
    """Of a group and its command alike, whichever of them the option stands at."""
    # Shared by the contexts of a whole command line.
    context.meta[__name__] = is_json = value or context.meta.get(__name__, False)
    return bool(is_json)


AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print JSON instead of a table.", callback=_also_before),
]
Reason = Annotated[
    str | None,
    typer.Option(
        "--reason",
        metavar="TEXT",
        help="Why, in one line; needed for somebody else's job, whose owner is told.",
    ),
]


def because(reason: str | None) -> dict[str, str]:
    """The body of a call with it; older servers know no such field, so none without one."""
    return {} if reason is None else {"reason": reason}


def login(
    server: Annotated[
        str, typer.Argument(help="The portal's address; that of the last login by default.")
    ] = "",
    token_file: Annotated[
        str, typer.Option(help="Read the token from this file; - is standard input.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Sign in with an API token, asked for without showing it.

    The token comes from --token-file, else from TRAINYARD_TOKEN, else from a prompt; never from an
    option, which others could read in the list of processes.
    """
    address = server or stored_server()
    if not address:
        raise Failure("Which portal?", remedy="Type: trainyard login https://trainyard.example.org")
    config = Config(clean_server(address), clean_token(_read_token(token_file)))
    if config.server.startswith("http://") and not is_loopback(config.server):
        say("Warning: http:// sends your token unencrypted. Use https:// where you can.")
    with Api(config) as api:
        me = api.get("/me/")
    path = save_config(config)
    if as_json:
        print_json({"server": config.server, "username": me["username"], "config": str(path)})
        return
    print_line(f"Signed in to {config.server} as {me['username']}.")


def _read_token(token_file: str) -> str:
    if token_file == "-":  # noqa: S105 - not a secret, the name of standard input
        return sys.stdin.readline()
    if token_file:
        try:
            return Path(token_file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"{token_file} cannot be read: {error}.") from None
    if found := os.environ.get("TRAINYARD_TOKEN"):
        return found
    if not sys.stdin.isatty():
        raise Failure(
            "There is no terminal to ask for the token.",
            remedy="Use --token-file - and pipe it in, or set TRAINYARD_TOKEN.",
        )
    return getpass.getpass("API token: ")


def whoami(as_json: AsJson = False) -> None:
    """Show who you are, your teams, and what your token may do."""
    config = load_config()
    with Api(config) as api:
        me = api.get("/me/")
    if as_json:
        print_json({**me, "server": config.server})
        return
    print_line(f"{me['username']} at {config.server}")
    for team in me["teams"]:
        print_line(f"  {team['slug']}: {team['role'] or 'visible'}")
    if me["is_operator"]:
        print_line("  operator of the cluster")
    print_line(f"  token {me['token']}: {', '.join(me['scopes'] or ())}")
    if me.get("token_project"):
        print_line(f"  only for {me['token_project']}")
    if me.get("token_networks"):
        print_line(f"  only from {', '.join(me['token_networks'])}")
    print_line(f"  good until {me['token_expires_at'][:10]}")
