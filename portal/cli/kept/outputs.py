"""The files a job left: listed, and downloaded with their digests checked."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import TRY_AGAIN, Failure
from portal.cli.follow import Number
from portal.cli.output import print_json, print_line, print_table
from portal.cli.session import AsJson

_HEADS = ("RANK", "SIZE", "STATE", "SHA256", "FILE")
# By state: what is not there yet, and what to do then.
_LATER = (
    ("away", "on a node that is not heard", "They come if it is back. Ask an operator."),
    (
        "arriving",
        "still on their way from the node",
        "Fetch them in a moment, with the same command.",
    ),
)


def outputs(
    job: Number,
    folder: Annotated[
        Path | None, typer.Option("--download", "-d", help="Fetch all of them into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the files a job left in its output folder; --download fetches them."""
    with Api(load_config()) as api:
        found = api.everything(f"/jobs/{job}/outputs/")
        if folder is None:
            _show(found, as_json)
            return
        ranks = {one["rank"] for one in found}
        done = []
        for one in found:
            if one["state"] != "whole":
                continue
            below = folder / f"rank-{one['rank']}" if len(ranks) > 1 else folder
            done.append({**one, "path": str(_fetch(api, job, one, below))})
    if as_json:
        print_json({"items": done})
    else:
        _tell(found, done)
    _refuse_late(job, found)


def _refuse_late(job: int, found: list[dict[str, Any]]) -> None:
    """Raises Failure where files are not there yet, with the names of all of them."""
    late = [
        (names, words, remedy)
        for state, words, remedy in _LATER
        if (names := [one["name"] for one in found if one["state"] == state])
    ]
    if not late:
        return
    first, *more = late
    which = [f"`trainyard outputs {job}` says which is which."] if more else []
    raise Failure(
        f"{len(first[0])} of {len(found)} files are {first[1]}"
        + "".join(f", and {len(names)} are {words}" for names, words, _ in more)
        + ".",
        code=TRY_AGAIN,
        details=[name for names, _, _ in late for name in names],
        remedy=" ".join([*(remedy for _, _, remedy in late), *which]),
    )


def _tell(found: list[dict[str, Any]], done: list[dict[str, Any]]) -> None:
    for one in done:
        print_line(f"{one['path']}: {one['size']} bytes")
    for one in found:
        if one["state"] not in ("whole", "arriving", "away"):
            print_line(f"not there: {one['name']}: {one['problem'] or one['state']}")
    if not found:
        print_line("This job has left no files.")


def _show(found: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json({"items": found})
        return
    rows = [
        (one["rank"], one["size"], one["state"], one["sha256"][:12] or "–", _told(one))
        for one in found
    ]
    print_table(_HEADS, rows, "This job has left no files.")


def _told(one: dict[str, Any]) -> str:
    return f"{one['name']} ({one['problem']})" if one["problem"] else str(one["name"])


def _fetch(api: Api, job: int, one: dict[str, Any], folder: Path) -> Path:
    """Write one file below `folder`, in one step, once its digest was seen to be right."""
    parts = one["name"].split("/")
    if any(part in ("", ".", "..") for part in parts) or os.path.isabs(one["name"]):
        raise Failure(
            f"{one['name']!r} is no name for a file here.", remedy="Fetch it by hand, by its id."
        )
    target = folder.joinpath(*parts)
    # No longer than any name may be.
    fresh = target.with_name(f".trainyard-{one['id']}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(api, job, one, fresh)
            fresh.replace(target)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        raise Failure(
            f"{target} cannot be written: {error.strerror}.",
            remedy="Make room there, or name another folder after --download.",
        ) from None
    return target


def _write(api: Api, job: int, one: dict[str, Any], target: Path) -> None:
    digest = hashlib.sha256()
    with target.open("wb") as file:

        def take(piece: bytes) -> None:
            digest.update(piece)
            file.write(piece)

        api.stream(f"/jobs/{job}/outputs/{one['id']}/", take)
    if digest.hexdigest() != one["sha256"]:
        raise Failure(f"{one['name']}: it did not arrive as it was sent.", remedy="Try again.")
