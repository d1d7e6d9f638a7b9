"""Run a program of the product with a planted bug, another boot, or a clock that can be set.

`python -m portal.torture.under PLANT BOOT_FILE CLOCKS -m MODULE ARGUMENT…`; `-` for none. `CLOCKS`:
files, with `:` between, each with seconds that are added to this program's clock, now and later.
This is the one door for bugs: they are put in from outside as a program starts, not into its paths.
Standard library only, as far as it is imported by the bare processes that start supervisors.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
import time
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_NONE = "-"
_LOOK_EVERY_S = 0.02
_OFTEN_S, _DUE_S = 10, 5
# All that a clock's file holds: seconds, filled up with blanks, so that each write replaces it.
CLOCK_BYTES = 24


def prepare(plant: str, boot_file: str, clocks: str = _NONE) -> None:
    """Put all of it into this process, and the same into the supervisors that it will start."""
    from scheduler.agent.runtime import processes
    from scheduler.agent.runtime.forking import forkserver

    if clocks != _NONE:
        _set_clock([Path(each) for each in clocks.split(":")], is_server=boot_file == _NONE)
    if boot_file != _NONE:
        name = Path(boot_file).read_text(encoding="ascii").strip()

        @cache
        def boot_id() -> str:
            return name

        processes.boot_id = boot_id
        line = (
            "import sys; sys.path.insert(0, sys.argv[1]);"
            "from portal.torture.under import prepare;"
            f"prepare({plant!r}, {boot_file!r}, {clocks!r});"
        )
        rest = (
            "from scheduler.agent.runtime.forking.warm_server import serve; serve(int(sys.argv[2]))"
        )
        forkserver._BOOTSTRAP = line + rest
    if plant != _NONE:
        from portal.torture.plants import PLANTS

        chosen = PLANTS[plant]
        if boot_file == _NONE:
            work = chosen.on_server
        elif sys.flags.no_site:
            work = chosen.in_guard
        else:
            work = chosen.in_agent
        if work is not None and boot_file == _NONE:
            _set_up_django()
        if work is not None:
            work()


def _set_clock(files: list[Path], *, is_server: bool) -> None:
    """Moments are so much later; what lasts is measured by clocks that nobody sets."""
    real, seen = time.time, [float("-inf"), 0.0]
    # Held open: a program that gets no more files still knows what time it is.
    held = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in files]

    def ahead_s() -> float:
        if time.monotonic() - seen[0] > _LOOK_EVERY_S:
            with contextlib.suppress(OSError, ValueError):
                seen[1] = sum(float(os.pread(number, CLOCK_BYTES, 0)) for number in held)
            seen[0] = time.monotonic()
        return seen[1]

    def shifted() -> float:
        return real() + ahead_s()

    time.time = shifted
    if is_server:
        from datetime import timedelta

        from django.utils import timezone

        unset = timezone.now
        timezone.now = lambda: unset() + timedelta(seconds=ahead_s())


def _warm_at_once() -> None:
    """Memory of simulated GPUs grows for minutes, which would speak for a job that does nothing."""
    simulated: Any = import_module("scheduler.agent.gpus.simulated")
    simulated._WARMING_S = 1.0


def _hurry_beat() -> None:
    """What looks each half minute, or minute, looks more often, so that a run sees it."""
    celery: Any = import_module("portal.celery")
    for name in ("send_webhooks", "tend_idle_jobs", "tell_late_jobs"):
        entry = celery.app.conf.beat_schedule[f"scheduler.tasks.{name}"]
        entry |= {"schedule": _OFTEN_S, "options": {"expires": _OFTEN_S}}
    entry = celery.app.conf.beat_schedule["scheduler.tasks.submit_due_jobs"]
    entry |= {"schedule": _DUE_S, "options": {"expires": _DUE_S}}


def _hurry_rules() -> None:
    """A rule of each minute is due each few seconds, as a run of minutes has few of them; and what
    is later than that is missed unless it may be made up for."""
    from collections.abc import Iterator
    from datetime import UTC, datetime, timedelta

    from portal.torture.program import DUE_EVERY_S, EVERY_TIME, ON_TIME_S

    dues: Any = import_module("scheduler.spec.recurring.dues")
    real = dues.dues_after

    def often(rule: Any, zone: Any, after: datetime) -> Iterator[datetime]:
        if rule.text != EVERY_TIME:
            yield from real(rule, zone, after)
            return
        second = int(after.timestamp()) // DUE_EVERY_S * DUE_EVERY_S
        due = datetime.fromtimestamp(second, UTC)
        while True:
            due += timedelta(seconds=DUE_EVERY_S)
            yield due

    dues.dues_after, dues.ON_TIME = often, timedelta(seconds=ON_TIME_S)


def _set_up_django() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.embedded")
    django.setup()


def main(words: list[str]) -> None:
    """Prepare, then become the program."""
    plant, boot_file, clocks, flag, module, *arguments = words
    if flag != "-m":
        sys.exit("under: say PLANT BOOT_FILE CLOCKS -m MODULE")
    prepare(plant, boot_file, clocks)
    if "beat" in arguments:
        _hurry_beat()
    if module == "scheduler.agent":
        _warm_at_once()
    else:
        _hurry_rules()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
