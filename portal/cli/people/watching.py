"""Watch the jobs of others."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.jobs import Number
from portal.cli.output import ago, print_json, print_line, print_table
from portal.cli.session import AsJson

IsSet = Annotated[bool, typer.Option("--set", help="The number is an array's.")]
_HEADS = ("JOB", "ARRAY", "NAME", "OWNER", "PROJECT", "SINCE", "ALSO")
_ALSO = {"start": "when it starts", "warn": "near its limits"}


def watch(
    job: Annotated[
        int | None, typer.Argument(min=1, metavar="[JOB]", help="Its number; none lists yours.")
    ] = None,
    is_set: IsSet = False,
    who: Annotated[bool, typer.Option("--who", help="Say who watches it; change nothing.")] = False,
    also: Annotated[
        str | None,
        typer.Option(
            "--also",
            metavar="WORDS",
            help="start, warn, both with a comma, or none: when it starts, at 80 and 90 % of its "
            "limits. Left out it stays as it is.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Be told of the job of another as its owner is; of a task, of its whole array. Without a
    number, list what you watch."""
    if job is None and (who or is_set or also is not None):
        raise typer.BadParameter("Give the number of the job or array with --who, --set or --also.")
    if who and also is not None:
        raise typer.BadParameter("--who changes nothing: leave out --also.")
    if job is None:
        _list(as_json)
        return
    with Api(load_config()) as api:
        path = _path(job, is_set)
        found = api.get(path) if who else api.post(path, _body(also))
    if as_json:
        print_json(found)
        return
    names = ", ".join(one["person"] for one in found["items"]) or "nobody"
    print_line(f"{'Array' if is_set else 'Job'} {job} is watched by {names}.{_chosen(found)}")


def unwatch(job: Number, is_set: IsSet = False, as_json: AsJson = False) -> None:
    """Watch it no more."""
    with Api(load_config()) as api:
        api.delete(_path(job, is_set))
    if as_json:
        print_json({"set" if is_set else "job": job, "watched": False})
        return
    print_line(f"You no longer watch {'array' if is_set else 'job'} {job}.")


def _list(as_json: bool) -> None:
    with Api(load_config()) as api:
        found = api.everything("/watches/")
    if as_json:
        print_json(found)
        return
    rows: list[list[object]] = [
        [
            one["job"] or "-",
            one["set"] or "-",
            one["name"],
            one["owner"],
            one["project"],
            ago(one["since"]),
            ",".join(one.get("also", ())) or "-",
        ]
        for one in found
    ]
    print_table(_HEADS, rows, "You watch nothing: trainyard watch JOB.")


def _body(also: str | None) -> dict[str, object] | None:
    if also is None:
        return None
    words = [word.strip() for word in also.split(",") if word.strip()]
    return {"also": [] if words == ["none"] else words}


def _chosen(found: dict[str, Any]) -> str:
    what = [_ALSO.get(word, word) for word in found.get("also", ())]
    return f" You are told {' and '.join(what)}, too." if what else ""


def _path(number: int, is_set: bool) -> str:
    return f"/{'sets' if is_set else 'jobs'}/{number}/watch/"
