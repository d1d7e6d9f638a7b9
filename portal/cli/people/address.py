"""One's own mail address."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import print_json, print_line
from portal.cli.session import AsJson

_ELSEWHERE = {
    "": "Another one you ask for in the portal, under Settings, Profile.",
    "provider": "It is the one that your identity provider tells of.",
    "administrators": "Administrators change it; ask one of them.",
}


def address(
    again: Annotated[
        bool, typer.Option("--again", help="Send the link to the one that waits again.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Keep your address; forget the one that waits.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show your mail address, and one that waits to be confirmed."""
    if again and cancel:
        raise typer.BadParameter("Give --again or --cancel, not both.")
    with Api(load_config()) as api:
        found: dict[str, Any] = _asked(api, again=again, cancel=cancel)
    if as_json:
        print_json(found)
        return
    print_line(found["email"] or "You have no mail address.")
    waits = found["waiting"]
    if waits:
        until = waits["expires_at"][:16].replace("T", " ")
        print_line(f"{waits['email']} waits to be confirmed; its link is good until {until} UTC.")
    else:
        print_line(_ELSEWHERE.get(found["decided_by"], ""))


def _asked(api: Api, *, again: bool, cancel: bool) -> Any:
    if again:
        return api.post("/me/address/again/", {})
    return api.delete("/me/address/") if cancel else api.get("/me/address/")
