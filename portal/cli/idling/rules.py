"""Rules for jobs whose GPUs do little: show, try, set, switch off."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson
from scheduler.states import hours_words

app = typer.Typer(
    help="What happens to jobs whose GPUs do little: show, try, set, switch off.",
    no_args_is_help=True,
)
_HEADS = ("JOB", "NAME", "OWNER", "GPUS", "RESTED FROM", "WARNED", "THEN", "GPU-HOURS")

Owner = Annotated[
    str, typer.Argument(metavar="OWNER", help="A project, written team/project, or a pool.")
]
Then = Annotated[str, typer.Option("--then", help="What follows a warning: tell, pause or stop.")]
Below = Annotated[int, typer.Option(help="A GPU does little below so many per cent.")]
Warn = Annotated[int, typer.Option(help="Minutes of rest until its owner is warned.")]
After = Annotated[int | None, typer.Option(help="Minutes from the warning to the pause or stop.")]
First = Annotated[int, typer.Option(help="Minutes of each attempt that do not count.")]
Keep = Annotated[int, typer.Option(help="Hours in all that an owner may keep an attempt.")]


@app.command()
def show(owner: Owner, as_json: AsJson = False) -> None:
    """Show the rule of a project or pool."""
    with Api(load_config()) as api:
        found = api.get(_path(owner))
    _say(found, as_json)


@app.command("set")
def set_rule(
    owner: Owner,
    then: Then,
    below: Below = 5,
    warn: Warn = 60,
    after: After = None,
    first: First = 30,
    keep: Keep = 24,
    as_json: AsJson = False,
) -> None:
    """Put a rule in force (leads for projects, operators for pools); `try` it first."""
    with Api(load_config()) as api:
        found = api.post(_path(owner), _body(then, below, warn, after, first, keep))
    _say(found, as_json)


@app.command("try")
def try_rule(
    owner: Owner,
    then: Then,
    below: Below = 5,
    warn: Warn = 60,
    after: After = None,
    first: First = 30,
    keep: Keep = 24,
    days: Annotated[int, typer.Option(help="Over how many of the last days.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Say whom such a rule would have warned, paused or stopped lately; it does nothing."""
    body = {**_body(then, below, warn, after, first, keep), "days": days}
    with Api(load_config()) as api:
        found = api.post(f"{_path(owner)}trial/", body)
    if as_json:
        print_json(found)
        return
    print_line(
        f"Of {found['attempts']} attempts in {found['days']} days it would have warned",
        f"{found['warned']} and ended {found['acted']} if nobody had answered:",
        f"{hours_words(found['freed_gpu_s'])} GPU-hours.",
    )
    if found["rows"]:
        print_table(_HEADS, [_cells(one) for one in found["rows"]], "")


@app.command()
def off(owner: Owner, as_json: AsJson = False) -> None:
    """Switch the rule off: nobody is warned by it any more."""
    with Api(load_config()) as api:
        found = api.delete(_path(owner))
    _say(found, as_json)


def _path(owner: str) -> str:
    team, slash, project = owner.partition("/")
    if slash and not (team and project):
        raise Failure(f"{owner}: write a project as team/project, or a pool's name.")
    if slash:
        return f"/projects/{quote(team, safe='')}/{quote(project, safe='')}/idle-rule/"
    return f"/pools/{quote(owner, safe='')}/idle-rule/"


def _body(
    then: str, below: int, warn: int, after: int | None, first: int, keep: int
) -> dict[str, Any]:
    return {
        "act": then,
        "below_percent": below,
        "warn_minutes": warn,
        "act_minutes": after,
        "first_minutes": first,
        "keep_hours": keep,
    }


def _say(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for one in (found, *found["also"]):
        print_line(_words(one))


def _words(one: dict[str, Any]) -> str:
    whose = one["owner"][:1].upper() + one["owner"][1:]
    if not one["is_on"]:
        return f"{whose}: no rule; nobody is warned for GPUs that do little."
    then = {"pause": "paused", "stop": "stopped"}.get(one["act"])
    follows = f"; {then} {one['act_minutes']} min later" if then else ""
    return (
        f"{whose}: warned when every GPU stayed below {one['below_percent']} % for "
        f"{one['warn_minutes']} min, the first {one['first_minutes']} min aside{follows}; kept by "
        f"its owner for {one['keep_hours']} h at most."
    )


def _cells(one: dict[str, Any]) -> list[object]:
    begun, warned, then = (
        (one[name] or "")[:16].replace("T", " ") for name in ("idle_since", "warned_at", "act_at")
    )
    hours = hours_words(one["freed_gpu_s"])
    return [one["job"], one["name"], one["owner"], one["gpus"], begun, warned, then, hours]
