"""A job spec from a file, from options, or from both: options win over the file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any

from portal.cli.client import Api
from portal.cli.exits import Failure

MAX_BYTES = 256 * 1024


def read_file(name: str) -> bytes:
    """The bytes of a spec file, `-` for standard input; raises Failure."""
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if name == "-" else _read(Path(name))
    except OSError as error:
        raise Failure(f"{name} cannot be read: {error.strerror}.") from None
    if len(raw) > MAX_BYTES:
        raise Failure(f"{name} is larger than {MAX_BYTES // 1024} KiB.")
    return raw


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def read_script(name: str) -> str:
    """The text of a script file; raises Failure."""
    try:
        return str(read_file(name), "utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{name} is not UTF-8 text.") from None


def read_env(pairs: Sequence[str]) -> dict[str, str]:
    """`NAME=value` pairs; a bare NAME takes the value it has here. Raises Failure."""
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign and name not in os.environ:
            raise Failure(f"--env {name}: there is no such variable here; write {name}=value.")
        found[name] = value if sign else os.environ[name]
    return found


def read_moment(option: str, text: str, now: datetime | None = None) -> str:
    """A time as the server reads it; `+2h` counts from now. Raises Failure."""
    if not text.startswith("+"):
        return text
    from scheduler.spec.units import DURATION_HELP, parse_duration

    try:
        later = (now or datetime.now(UTC)) + timedelta(seconds=parse_duration(text[1:]))
    except (ValueError, OverflowError):
        raise Failure(f"{option} {text}: is not a duration; {DURATION_HELP}.") from None
    return later.strftime("%Y-%m-%dT%H:%M:%SZ")


def content_of(
    file: str,
    raw: bytes,
    options: Mapping[str, Any],
    command: Sequence[str],
    api: Api,
    held: Collection[str] = (),
) -> tuple[bytes, str]:
    """What to send and its content type; `raw` is what the file holds.

    A file alone goes to the server as it is, which reads it strictly. Options are laid over the
    file's fields; without a file they are the job. `held`: what a template says already.
    """
    changes = {name: value for name, value in options.items() if value not in (None, "", {}, [])}
    if command:
        changes["command"] = list(command)
    if file and not changes:
        return raw, "application/yaml"
    document = read_job_file(file, raw) if file else {}
    if "command" in changes:
        document.pop("script", None)
    if "script" in changes:
        document.pop("command", None)
    document.update(changes)
    if not file:
        if "name" not in held:
            document.setdefault("name", _name_of(document))
        if "project" not in document and "project" not in held:
            document["project"] = usual_project(api)
    return json.dumps(document).encode(), "application/json"


def read_job_file(file: str, raw: bytes) -> dict[str, Any]:
    """The document that a file holds; raises Failure."""
    # Imported late: most commands need no schema, and it takes a while to load.
    from scheduler.spec import SpecInvalid, read_document

    try:
        return read_document(str(raw, "utf-8"))
    except UnicodeDecodeError:
        raise Failure(f"{file} is not UTF-8 text.") from None
    except SpecInvalid as error:
        details = [f"{one.field}: {one.message}" for one in error.problems]
        raise Failure(f"{file} is not a job.", details=details) from None


def _name_of(document: Mapping[str, Any]) -> str:
    words = [PurePosixPath(str(word)).name for word in document.get("command", ())]
    interpreters = ("python", "python3", "bash", "sh", "torchrun", "env")
    telling = [word for word in words if word not in interpreters and word[:1] not in ("-", "")]
    return (telling or words or ["job"])[0][:128]


def usual_project(api: Api) -> str:
    """The project that pays when none is named; raises Failure when there are several."""
    if named := os.environ.get("TRAINYARD_PROJECT"):
        return named
    projects = [one["path"] for one in api.everything("/projects/") if one["may_submit"]]
    if len(projects) == 1:
        return str(projects[0])
    raise Failure(
        "Which project pays for it?" if projects else "You may not submit to any project.",
        remedy=f"Use --project with one of: {', '.join(projects[:20])}"
        if projects
        else "Ask a team lead to invite you.",
    )
