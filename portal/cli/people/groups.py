"""What groups at the identity provider give."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List what groups at the identity provider give; add or remove a rule (administrators).",
    invoke_without_command=True,
)
Group = Annotated[str, typer.Argument(help="As the provider tells it, such as /ml/vision.")]
Role = Annotated[
    str, typer.Argument(help="In a team member, lead or finance; else operator, finance, auditor.")
]
Team = Annotated[str, typer.Option(help="The team's short name; without it, the organisation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say whom it would concern.")]
_HEADS = ("RULE", "GROUP", "GIVES", "IN", "ADDED BY", "ADDED")
_EFFECTS = ("PERSON", "IN", "BEFORE", "AFTER")
_NOBODY = "Nobody who has signed in so far gains or loses anything by it."


@app.callback()
def list_groups(context: typer.Context, as_json: AsJson = False) -> None:
    """List what groups at the identity provider give; add or remove a rule (administrators)."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/groups/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["id"],
            one["group"],
            one["role"],
            one["team"] or "the organisation",
            one["added_by"] or "",
            ago(one["added_at"]),
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No group gives anything.")


@app.command()
def add(
    group: Group, role: Role, team: Team = "", dry_run: DryRun = False, as_json: AsJson = False
) -> None:
    """Let a group give a role from everybody's next sign-in on (administrators)."""
    wanted = {"group": group, "team": team, "role": role}
    with Api(load_config()) as api:
        if dry_run:
            _print_effects(api.post("/groups/preview/", wanted), as_json)
            return
        rule = api.post("/groups/", wanted)
    if as_json:
        print_json(rule)
        return
    print_line(f"Rule {rule['id']}: {group} gives {role} from everybody's next sign-in on.")


@app.command()
def remove(
    rule: Annotated[int, typer.Argument(help="The rule's number.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """End a rule; what it gave goes at everybody's next sign-in (administrators)."""
    with Api(load_config()) as api:
        if dry_run:
            _print_effects(api.post("/groups/preview/", {"remove": rule}), as_json)
            return
        api.delete(f"/groups/{rule}/")
    if as_json:
        print_json({"removed": rule})
        return
    print_line(f"Rule {rule} is gone; what it gave goes at everybody's next sign-in.")


def _print_effects(told: Any, as_json: bool) -> None:
    if as_json:
        print_json(told["items"])
        return
    rows: list[list[object]] = [
        [
            one["username"],
            one["team"] or "the organisation",
            one["before"] or "-",
            one["after"] or "-",
        ]
        for one in told["items"]
    ]
    print_table(_EFFECTS, rows, _NOBODY)
