"""How `checks.py` runs its stages and says at the end what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
# More failures than these are no accident of a busy machine.
MOST_RETRIED = 3


@dataclass
class Report:
    """What happened so far."""

    words: list[str]
    stages: list[tuple[str, bool, float]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    notes: Path = Path(os.devnull)
    output: IO[str] | None = None

    @property
    def requires_all(self) -> bool:
        """Whether leaving something out is a failure here."""
        return os.environ.get("TRAINYARD_TEST_REQUIRE_ALL", "") not in ("", "0")

    def run(self, name: str, *command: str, **environment: str) -> None:
        """One stage."""
        began = time.monotonic()
        passed = self._call(name, command, environment)
        self.stages.append((name, passed, time.monotonic() - began))

    def run_processes(self, name: str, *command: str, **environment: str) -> None:
        """A pytest stage that drives real processes: what fails is tried once more, alone.

        A test that passes then is named in the summary: it is unsteady, which is a defect too.
        """
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="trainyard-failed-") as folder:
            cache = ("-o", f"cache_dir={folder}")
            passed = self._call(name, (*command, *cache), environment)
            failed = [] if passed else failures(Path(folder))
            if 0 < len(failed) <= MOST_RETRIED:
                again = pytest(*failed, "-q", *cache)
                passed = self._call(f"{name}, once more", again, environment)
                self.unsteady += failed if passed else []
        self.stages.append((name, passed, time.monotonic() - began))

    @contextmanager
    def beside(self, stage: Callable[[Report], None]) -> Iterator[None]:
        """Run a stage of one process while the body runs another; its lines come at the end."""
        with tempfile.TemporaryFile("w+", prefix="trainyard-stage-") as lines:
            thread = threading.Thread(target=stage, args=(replace(self, output=lines),))
            thread.start()
            try:
                yield
            finally:
                thread.join()
                lines.seek(0)
                print(lines.read(), end="", flush=True)

    def _call(self, name: str, command: tuple[str, ...], environment: dict[str, str]) -> bool:
        print(f"\n=== {name}: {' '.join(command)}", flush=True, file=self.output)
        result = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "TRAINYARD_TEST_NOTES": str(self.notes), **environment},
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output and subprocess.STDOUT,
            check=False,
        )
        return result.returncode == 0

    def leave_out(self, what: str, remedy: str) -> None:
        """Note that something cannot be done here, and the command that adds it."""
        self.left_out.append((what, remedy))
        if self.requires_all:
            self.stages.append((f"{what} (left out)", False, 0.0))


def tool(name: str) -> str:
    """A program of the virtual environment."""
    return str(BIN / name)


def pytest(*arguments: str) -> tuple[str, ...]:
    """A pytest command line."""
    return (sys.executable, "-m", "pytest", *arguments)


def failures(cache: Path) -> list[str]:
    """The tests of the last pytest run with this cache folder that failed, as pytest names them."""
    record = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(record.read_text())) if record.exists() else []


def summarise(report: Report, skipped: dict[str, str], took_s: float) -> None:
    """The closing table; failures stand here again, where the tail of a long log shows them."""
    print("\n=== summary")
    for name, passed, seconds in report.stages:
        print(f"{'passed' if passed else 'FAILED'}  {seconds:6.1f} s  {name}")
    left_out = [f"{what}; to add it: {remedy}" for what, remedy in report.left_out]
    for title, lines in (
        ("told by tests:", report.told),
        ("left out:", left_out + [": ".join(each) for each in sorted(skipped.items())]),
        ("unsteady (failed, then passed alone; mend them):", report.unsteady),
        ("failed:", [": ".join(each) for each in report.failed]),
    ):
        if lines:
            print(title, *lines, sep="\n  ")
    print(f"{took_s:.0f} s in all", flush=True)
