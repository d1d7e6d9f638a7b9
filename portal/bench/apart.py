"""Processes that have a database of their own in a temporary folder, with a broker beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from portal.bench.figures import tell
from portal.embedded.broker import server_arguments
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.postgres import throw_away
from portal.embedded.programs import environment_with, leashed
from portal.embedded.temporary import FAST_CALLERS


@contextlib.contextmanager
def apart(database: str) -> Iterator[dict[str, str]]:
    """The environment of such processes; `database` is sqlite or postgres. All is thrown away."""
    with throw_away(database) as url, _folder() as places:
        environment = environment_with(
            {
                **FAST_CALLERS,
                "DJANGO_SETTINGS_MODULE": "portal.settings.embedded",
                "TRAINYARD_STATE_DIR": str(places.state),
                "TRAINYARD_RUN_DIR": str(places.run),
                "DATABASE_URL": url,
                "REDIS_URL": "",
            }
        )
        with _broker(places):
            yield environment


def python(environment: dict[str, str], *words: str) -> str:
    """What this interpreter prints when run with these words."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise StackProblem("a part of it could not be run; what went wrong is printed above")
    return done.stdout


@contextlib.contextmanager
def _folder() -> Iterator[Places]:
    folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
    places = Places(folder / "state", folder / "run")
    places.make()
    try:
        yield places
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _broker(places: Places) -> Iterator[None]:
    """Hints are sent as always, so that their cost is measured too."""
    with subprocess.Popen(
        leashed(tuple(server_arguments(places)), os.getpid()), stdout=subprocess.DEVNULL
    ) as broker:
        tell("broker started")
        try:
            yield
        finally:
            broker.terminate()
