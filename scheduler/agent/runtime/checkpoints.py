"""What a program says of its checkpoints, and whether it is true.

A program writes its checkpoint, then `checkpoint.json` beside it, in one step (a rename):
`{"path": "step-1200.npz", "step": 1200, "bytes": 4096, "digest": "sha256:…"}`. Everything here
is done by a short-lived child that is the job's own user: it can read nothing the job cannot.
Paths are walked from the folder down without following a link.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from scheduler.wire.messages import Checkpoint

NOTE_FILE = "checkpoint.json"
MAX_NOTE_BYTES, _BLOCK = 64 * 1024, 1024 * 1024
MAX_PATH = 1024
_MAX_WHOLE = 2**63 - 1
_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.ASCII)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_WRITE = _NEW | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NoteProblem(Exception):
    """What is wrong with a note or its checkpoint, and what to do; may be shown to the user."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to look at, as whom. `seen`: a note with this mark is old news.

    `resumes`: find what to resume from. Then `offer` is what the server knows; with `only_offer`
    nothing else counts, so that all ranks of a gang resume from the same checkpoint or from none.
    `note`: leave this one there, if its checkpoint is there.
    """

    folder: str
    uid: int | None = None
    seen: str = ""
    resumes: bool = False
    offer: Checkpoint | None = None
    only_offer: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found. `mark` tells one note from the next.

    `confirmed` holds what size and digest speak for; `path` is it, or, for a note without a
    digest, what it names all the same. `problem` says what is wrong; all empty: nothing there.
    """

    mark: str = ""
    path: str = ""
    step: int | None = None
    confirmed: Checkpoint | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A note as it was read: the names from the folder down, and what it claims."""

    names: tuple[str, ...]
    step: int | None
    size: int | None
    digest: str
    written_at: float


def look(request: CheckRequest) -> Finding:
    """Carry out a request; never raises for anything a program can do."""
    try:
        with _opened(os.open(request.folder, os.O_RDONLY | os.O_DIRECTORY)) as folder:
            if request.note:
                return _leave(folder, request.folder, request.note.encode())
            if request.resumes:
                return _find(folder, request)
            return _confirm(folder, request.folder, request.seen)
    except OSError as error:
        return Finding(problem=f"checkpoint folder {request.folder}: {error.strerror}")


def mark_of(status: os.stat_result) -> str:
    """Tells one note from the next: a rename brings another inode or another time."""
    return f"{status.st_ino}:{status.st_mtime_ns}:{status.st_size}"


def _confirm(folder: int, place: str, seen: str = "") -> Finding:
    """Read the note in `folder` (shown as `place`) and hold its file against it."""
    try:
        with _opened(os.open(NOTE_FILE, _READ, dir_fd=folder)) as source:
            status = os.fstat(source)
            mark = mark_of(status)
            if mark == seen:
                return Finding(mark)
            content = os.read(source, MAX_NOTE_BYTES + 1) if _is_file(status) else None
    except FileNotFoundError:
        return Finding()
    except OSError as error:
        return Finding(problem=f"{NOTE_FILE}: {error.strerror}; it must be a plain file")
    try:
        if content is None:
            raise NoteProblem(f"{NOTE_FILE} is no plain file; write it in one step, by a rename")
        note = _read_note(content, place, status.st_mtime)
        found = _prove(folder, place, note)
    except NoteProblem as problem:
        return Finding(mark, problem=str(problem))
    return replace(found, mark=mark)


def _leave(folder: int, place: str, content: bytes) -> Finding:
    """Write a note in one step, once all but the digest is seen to be as it says."""
    try:
        found = _prove(folder, place, _read_note(content, place, 0.0), reads=False)
    except NoteProblem as problem:
        return Finding(problem=str(problem))
    if not found.problem:
        part = f".{NOTE_FILE}.{os.getpid()}"
        with open(os.open(part, _WRITE, 0o644, dir_fd=folder), "wb", 0) as target:
            target.write(content)
            os.fsync(target.fileno())
        os.rename(part, NOTE_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    return replace(found, confirmed=None)


def _read_note(content: bytes, place: str, written_at: float) -> Note:
    """The note's claims; raises NoteProblem that names the field and what to do."""
    if len(content) > MAX_NOTE_BYTES:
        raise NoteProblem(f"{NOTE_FILE} is longer than {MAX_NOTE_BYTES} bytes; keep it short")
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        raise NoteProblem(
            f"{NOTE_FILE} is not JSON; write it under another name and rename it"
        ) from None
    if not isinstance(said, dict):
        raise NoteProblem(f'{NOTE_FILE} must be an object such as {{"path": …, "step": …}}')
    digest = said.get("digest")
    match = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if digest is not None and match is None:
        raise NoteProblem(f"{NOTE_FILE}: digest must be sha256: and 64 hexadecimal digits")
    return Note(
        _names(said.get("path"), place),
        _whole(said, "step"),
        _whole(said, "bytes"),
        match[1] if match else "",
        written_at,
    )


def _names(path: object, place: str) -> tuple[str, ...]:
    if not isinstance(path, str) or not path or len(path) > MAX_PATH or not path.isprintable():
        raise NoteProblem(f"{NOTE_FILE}: path must be the name of a file below the folder")
    inside = PurePosixPath(path)
    with suppress(ValueError):
        inside = inside.relative_to(place)
    if inside.is_absolute() or ".." in inside.parts or not inside.parts:
        raise NoteProblem(
            f"{NOTE_FILE}: path {path!r} lies outside the checkpoint folder; write the checkpoint "
            "into TRAINYARD_CHECKPOINT_DIR"
        )
    return inside.parts


def _whole(said: dict[str, object], field: str) -> int | None:
    value = said.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_WHOLE:
        raise NoteProblem(f"{NOTE_FILE}: {field} must be a whole number, 0 or more")
    return value


def _prove(folder: int, place: str, note: Note, *, reads: bool = True) -> Finding:
    """Hold the file against the note; raises NoteProblem. Without a digest: only that it exists."""
    name = "/".join(note.names)
    path = str(PurePosixPath(place, *note.names))
    if len(path) > MAX_PATH:
        raise NoteProblem(
            f"{NOTE_FILE}: the checkpoint's path is longer than {MAX_PATH} characters"
        )
    with _walked(folder, note.names) as source:
        before = os.fstat(source)
        missing = [
            field
            for field, value in (("step", note.step), ("bytes", note.size), ("digest", note.digest))
            if value is None or value == ""
        ]
        if missing:
            problem = f"{NOTE_FILE}: {', '.join(missing)} missing, so {name} cannot be confirmed"
            return Finding(path=path, step=note.step, problem=problem)
        if not _is_file(before):
            raise NoteProblem(
                f"{name} is no plain file; a checkpoint of many files needs one that lists them"
            )
        if before.st_size != note.size:
            raise NoteProblem(
                f"{name} has {before.st_size} bytes, the note says {note.size}; write the note last"
            )
        digest = _digest(source) if reads else note.digest
        after = os.fstat(source)
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise NoteProblem(
            f"{name} was written to while it was read; give every checkpoint a name of its own"
        )
    if digest != note.digest:
        raise NoteProblem(
            f"{name} does not have the digest in the note; it is damaged or the note "
            "belongs to another one"
        )
    assert note.step is not None and note.size is not None
    taken_at = min(before.st_mtime, note.written_at)
    proof = Checkpoint(path, note.step, note.size, digest, taken_at)
    return Finding(path=path, step=note.step, confirmed=proof)


def _find(folder: int, request: CheckRequest) -> Finding:
    """What to resume from: the note's checkpoint if it is whole and not older than the offer.

    A crash may come between a note and its confirmation, so the note can be the newer one.
    """
    offer, place = request.offer, request.folder
    if offer and request.only_offer:
        own = Finding(_present_mark(folder))
    else:
        own = _confirm(folder, place)
        if own.confirmed and (offer is None or own.confirmed.step >= offer.step):
            return own
    if offer is None:
        return own
    found = _prove_offer(folder, place, offer)
    if found.confirmed or not own.path:
        return replace(found, mark=own.mark)
    return own


def _present_mark(folder: int) -> str:
    with suppress(OSError):
        return mark_of(os.stat(NOTE_FILE, dir_fd=folder, follow_symlinks=False))
    return ""


def _prove_offer(folder: int, place: str, offer: Checkpoint) -> Finding:
    try:
        names = _names(offer.path, place)
        note = Note(names, offer.step, offer.bytes, offer.digest, offer.taken_at)
        return _prove(folder, place, note)
    except NoteProblem as problem:
        return Finding(problem=f"the checkpoint of step {offer.step} is of no use here: {problem}")


@contextmanager
def _walked(folder: int, names: tuple[str, ...]) -> Iterator[int]:
    """The file below `folder`, opened name by name so that no link is ever followed."""
    name = "/".join(names)
    held = os.dup(folder)
    try:
        for part in names:
            inner = os.open(part, _READ, dir_fd=held)
            os.close(held)
            held = inner
        yield held
    except OSError as error:
        raise NoteProblem(
            f"{name}: {error.strerror}; it must be a plain file below the "
            "checkpoint folder, without links on the way"
        ) from None
    finally:
        os.close(held)


@contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def _digest(source: int) -> str:
    import hashlib  # not for supervisors: each is a fork with all that is loaded

    found = hashlib.sha256()
    while block := os.read(source, _BLOCK):
        found.update(block)
    return found.hexdigest()
