"""Scripts for sbatch as jobs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import PurePath
from typing import Annotated, Any

import typer

from portal.cli import spec
from portal.cli.client import Api
from portal.cli.config import load_config
from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line, say
from portal.cli.session import AsJson

_DIRECTIVE = re.compile(rb"^#SBATCH(?:\s|$)", re.MULTILINE)


def convert(
    file: Annotated[str, typer.Argument(help="A script with #SBATCH lines; - is standard input.")],
    as_json: AsJson = False,
) -> None:
    """Print the job that a script for sbatch stands for, as YAML, and a word on each option."""
    with Api(load_config()) as api:
        found = api.post("/jobs/convert/", {"text": spec.read_script(file)})
    if as_json:
        print_json(found)
        return
    # Imported late: most commands need it not, and it takes a while to load.
    import yaml

    tell(found)
    for line in yaml.safe_dump(found["spec"], sort_keys=False, allow_unicode=True).splitlines():
        print_line(line)


def is_batch_script(raw: bytes) -> bool:
    """Whether sbatch would find options in it."""
    return _DIRECTIVE.search(raw) is not None


def read_batch(
    file: str,
    raw: bytes,
    api: Api,
    *,
    project: str = "",
    even_if_lost: bool,
    held: Collection[str] = (),
) -> bytes:
    """The job of a script as JSON, its remarks told; raises Failure when any would be lost.

    `project` pays, else what the script or the caller's own choice says. Of the fields that are
    `held` by a template, a name and a project that the script does not say are left to it.
    """
    try:
        found = api.post("/jobs/convert/", {"text": raw.decode()})
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8 text.") from None
    tell(found)
    if found["lost"] and not even_if_lost:
        things = "thing" if found["lost"] == 1 else "things"
        raise Failure(
            f"{found['lost']} {things} of the script would be lost.",
            remedy="Mend the script, or submit it all the same with --even-if-lost.",
        )
    document = dict(found["spec"])
    if document["name"] == "job" and "name" in held:
        del document["name"]
    elif document["name"] == "job" and file != "-":
        document["name"] = PurePath(file).stem[:128] or "job"
    if project or not {"project"} & {*document, *held}:
        document["project"] = project or spec.usual_project(api)
    return json.dumps(document, ensure_ascii=False).encode()


def tell(found: dict[str, Any]) -> None:
    """A line on standard error for each remark that is worth one."""
    for one in found["remarks"]:
        if one["became"] in ("lost", "changed"):
            where = f"line {one['line']}: " if one["line"] else ""
            say(f"{where}{one['option']} {one['words']} ({one['became']})")
