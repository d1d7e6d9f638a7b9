"""When one is told: quiet hours, and mails that come together."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line
from portal.cli.session import AsJson

_MAILS = {
    "at_once": "at once",
    "hourly": "together, once an hour",
    "daily": "together, every day at {digest_at}",
    "weekly": "together, on Mondays at {digest_at}",
}


def hours(
    mail: Annotated[str | None, typer.Option(help="at_once, hourly, daily or weekly.")] = None,
    at: Annotated[str | None, typer.Option(help="When daily and weekly mails come: 08:00.")] = None,
    quiet: Annotated[
        str | None, typer.Option(help="Mails and your chats wait: 22:00-07:00, or never.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Of these times: Europe/Berlin.")] = None,
    urgent: Annotated[
        list[str] | None,
        typer.Option(help="A kind that waits for nothing; may be repeated. none: no kind."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show when you are told of news, or choose it; what is left out stays."""
    given = {"mail": mail, "digest_at": at, "zone": zone}
    sent: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if quiet is not None:
        sent |= _ends(quiet)
    if urgent is not None:
        sent["urgent"] = [] if urgent == ["none"] else urgent
    with Api(load_config()) as api:
        path = "/notifications/hours/"
        found = api.post(path, sent) if sent else api.get(path)
    if as_json:
        print_json(found)
        return
    print_line(f"Mails come {_MAILS[found['mail']].format_map(found)}.")
    quiet_now = f"from {found['quiet_from']} to {found['quiet_until']}"
    print_line(f"Quiet: {quiet_now if found['quiet_from'] else 'never'}.")
    print_line(f"Urgent: {', '.join(found['urgent']) or 'nothing'}.")
    print_line(f"Times are of {found['zone']}.")


def _ends(text: str) -> dict[str, str | None]:
    """Raises Failure where it is no span."""
    if text == "never":
        return {"quiet_from": None, "quiet_until": None}
    begin, dash, end = (part.strip() for part in text.partition("-"))
    if not (begin and dash and end):
        raise Failure(f"--quiet {text!r} is no span.", remedy="Give 22:00-07:00, or never.")
    return {"quiet_from": begin, "quiet_until": end}
