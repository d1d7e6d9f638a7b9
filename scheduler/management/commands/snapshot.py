"""A moment of the scheduler in a file: what it saw, what it decided, and the same again."""

from __future__ import annotations

import hashlib
import os
from argparse import ArgumentParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from scheduler.engine.recording import (
    Recording,
    RecordingInvalid,
    read_recording,
    record,
    write_recording,
)
from scheduler.loop.answering import picture

MOST_SHOWN = 200


class Command(BaseCommand):
    """`record` decides on the cluster as it is and keeps all of it; `replay` decides again."""

    help = "Record what the scheduler sees and decides now, or decide a recording again."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What to do, and the file."""
        parser.add_argument("what", choices=["record", "replay"])
        parser.add_argument("file", type=Path, help="record writes it, replay reads it")

    def handle(self, *args: Any, **options: Any) -> None:
        """A replay fails if the plan differs in a single byte."""
        path: Path = options["file"]
        if options["what"] == "record":
            made = record(*picture(timezone.now()))
            self._write(path, write_recording(made))
            self._say(made, "recorded")
            return
        try:
            kept = read_recording(path.read_bytes())
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}") from None
        except RecordingInvalid as error:
            raise CommandError(f"{path}: {error}") from None
        again = kept.replay()
        if again != kept.plan:
            raise CommandError(f"The plan differs from the recorded one.\n{_first(kept, again)}")
        self._say(kept, "replayed to the identical plan")

    def _write(self, path: Path, raw: bytes) -> None:
        """For its owner alone: a recording names jobs and nodes of everybody."""
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise CommandError(
                f"{path} cannot be written: {error.strerror}; name a new file"
            ) from None
        with os.fdopen(handle, "wb") as file:
            file.write(raw)

    def _say(self, recording: Recording, what: str) -> None:
        snapshot = recording.snapshot
        digest = hashlib.sha256(recording.plan).hexdigest()
        self.stdout.write(
            f"{what}: {len(snapshot.nodes.id)} nodes, {len(snapshot.waiting)} jobs waiting, "
            f"plan of {len(recording.plan)} bytes, sha256 {digest}"
        )


def _first(kept: Recording, again: bytes) -> str:
    """The first line in which they differ."""
    pairs = zip_longest(kept.plan.splitlines(), again.splitlines(), fillvalue=b"nothing")
    old, new = next((old, new) for old, new in pairs if old != new)
    return f"recorded: {old[:MOST_SHOWN]!r}\nnow:      {new[:MOST_SHOWN]!r}"
