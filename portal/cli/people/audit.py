"""Who changed what."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_listed
from portal.cli.session import AsJson

_HEADS = ("EVENT", "WHEN", "WHO", "ACTION", "OBJECT", "AFTER")
_PAGE = 500
_WIDTH = 48


def audit(
    actor: Annotated[str, typer.Option(help="Who acted, or for whom.")] = "",
    action: Annotated[str, typer.Option(help="An action such as team.rename, or its noun.")] = "",
    about: Annotated[str, typer.Option("--object", help="A kind, kind:id or part of a name.")] = "",
    text: Annotated[str, typer.Option(help="Part of a name, reason or value.")] = "",
    first: Annotated[str, typer.Option("--from", help="First day, UTC.")] = "",
    last: Annotated[str, typer.Option("--to", help="Last day, UTC.")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show who changed what, newest first (auditors, administrators, operators, leads)."""
    asked = {"actor": actor, "action": action, "object": about, "text": text}
    asked |= {"from": first, "to": last}
    query: dict[str, Any] = {name: value for name, value in asked.items() if value}
    found: list[dict[str, Any]] = []
    is_cut = False
    with Api(load_config()) as api:
        while len(found) < limit:
            page = api.get("/audit/", limit=min(_PAGE, limit - len(found)), **query)
            found += page["items"]
            if page["next_after"] is None:
                break
            query["after"] = page["next_after"]
        else:
            is_cut = True
    print_listed(found, _HEADS, _cells, "No event matches.", as_json=as_json, is_cut=is_cut)


def _cells(one: dict[str, Any]) -> list[object]:
    about = one["object"] or one["object_kind"]
    return [one["id"], ago(one["at"]), _who(one), one["action"], about, _short(one["after"])]


def _who(one: dict[str, Any]) -> str:
    who = one["actor"] or "the system"
    return f"{who} for {one['on_behalf_of']}" if one["on_behalf_of"] else who


def _short(state: dict[str, Any] | None) -> str:
    text = ", ".join(f"{name}={value}" for name, value in (state or {}).items())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"
