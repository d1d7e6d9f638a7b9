"""Many jobs of others end when two people want it: propose, look, agree or refuse."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

app = typer.Typer(
    help="List cancels of many jobs that need two people; propose one, answer one.",
    invoke_without_command=True,
)
Number = Annotated[int, typer.Argument(min=1, metavar="N", help="The proposal's number.")]
_HEADS = ("CANCEL", "STATE", "WHAT", "PROPOSED BY", "SINCE", "YOU MAY", "WHY")


@app.callback()
def list_cancels(context: typer.Context, as_json: AsJson = False) -> None:
    """List cancels of many jobs that need two people; propose one, answer one."""
    if context.invoked_subcommand:
        return
    with Api(load_config()) as api:
        found = api.everything("/bulk-cancels/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["id"],
            one["outcome"],
            one["what"],
            one["proposed_by"],
            ago(one["proposed_at"]),
            ", ".join(one["actions"]),
            one["reason"],
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "No cancel waits for a second person.")


@app.command()
def propose(
    jobs: Annotated[list[int], typer.Argument(min=1, metavar="JOB...", help="Their numbers.")],
    reason: Annotated[str, typer.Option(help="Why they should end.")],
    as_json: AsJson = False,
) -> None:
    """Propose to cancel more jobs of others than one person ends alone; of an array use
    `sets cancel`."""
    _post("/bulk-cancels/", {"jobs": jobs, "reason": reason}, as_json)


@app.command()
def agree(number: Number, as_json: AsJson = False) -> None:
    """Agree: the named jobs that have not ended end."""
    _post(f"/bulk-cancels/{number}/agree/", {}, as_json)


@app.command()
def refuse(
    number: Number,
    reason: Annotated[str, typer.Option(help="Why not; told to whoever proposed it.")],
    as_json: AsJson = False,
) -> None:
    """Refuse: the jobs go on."""
    _post(f"/bulk-cancels/{number}/refuse/", {"reason": reason}, as_json)


@app.command()
def withdraw(number: Number, as_json: AsJson = False) -> None:
    """Take back what you proposed."""
    _post(f"/bulk-cancels/{number}/withdraw/", {}, as_json)


def _post(path: str, body: dict[str, Any], as_json: bool) -> None:
    with Api(load_config()) as api:
        found = api.post(path, body)
    if as_json:
        print_json(found)
    else:
        say_cancel(found)


def say_cancel(found: dict[str, Any]) -> None:
    """What became of a proposal, on one line."""
    if found["outcome"] == "agreed":
        more = f"; {found['left_out']} had ended before" if found["left_out"] else ""
        words = f"agreed: {found['ended']} of {found['jobs']} jobs end{more}"
    elif found["outcome"] == "waiting":
        words = "waits for a second person: trainyard cancels agree " + str(found["id"])
    else:
        words = found["outcome"]
    print_line(f"Cancel {found['id']} of {found['what']} {words}.")
