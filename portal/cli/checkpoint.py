"""Say that a checkpoint is complete: for use inside a job, on its node. Talks to no server."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Annotated

import typer

from portal.cli.exits import Failure
from portal.cli.output import print_json, print_line
from portal.cli.session import AsJson

NOTE_FILE = "checkpoint.json"
_BLOCK = 1024 * 1024


def checkpoint(
    file: Annotated[Path, typer.Argument(help="The checkpoint, whole and closed.")],
    step: Annotated[int, typer.Option(min=0, help="Your own count of progress; only rises.")],
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir", envvar="TRAINYARD_CHECKPOINT_DIR", help="The job's checkpoint folder."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Inside a job: tell Trainyard that a checkpoint is complete, by a note beside it."""
    if folder is None:
        raise Failure(
            "--dir: there is no checkpoint folder.",
            remedy="Call this inside a job, or name the folder.",
        )
    name = _name_below(file, folder)
    size, digest = _read_back(file)
    note = {"path": name, "step": step, "bytes": size, "digest": f"sha256:{digest}"}
    _write_note(folder, json.dumps(note).encode())
    if as_json:
        print_json(note)
    else:
        print_line(f"Checkpoint {name}, step {step}: {size} bytes.")


def _name_below(file: Path, folder: Path) -> str:
    """The file's name from the folder down; links on the way would be refused by the node."""
    inside = Path(os.path.abspath(file))
    try:
        name = inside.relative_to(os.path.abspath(folder))
    except ValueError:
        raise Failure(
            f"{file} does not lie in the checkpoint folder {folder}.",
            remedy="Write the checkpoint into TRAINYARD_CHECKPOINT_DIR.",
        ) from None
    walked = Path(os.path.abspath(folder))
    for part in name.parts:
        walked /= part
        if walked.is_symlink():
            raise Failure(
                f"{walked} is a link, which the node will not follow.",
                remedy="Write the checkpoint itself into the folder.",
            )
    return str(name)


def _read_back(file: Path) -> tuple[int, str]:
    """Bytes and SHA-256, after the file is safe on its disk."""
    found, size = hashlib.sha256(), 0
    try:
        with open(file, "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise Failure(f"{file} is no plain file.", remedy="Name one file.")
            os.fsync(source.fileno())
            while block := source.read(_BLOCK):
                found.update(block)
                size += len(block)
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}.", remedy="Name one file that exists.") from None
    return size, found.hexdigest()


def _write_note(folder: Path, content: bytes) -> None:
    part = folder / f".{NOTE_FILE}.{os.getpid()}"
    try:
        with open(part, "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        os.replace(part, folder / NOTE_FILE)
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}; the note could not be written.") from None
