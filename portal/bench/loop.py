"""A whole scheduling cycle as the loop runs it: load, plan, commit; full cluster, long queue."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from portal.bench.figures import machine, tell
from portal.embedded.broker import server_arguments
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.postgres import Cluster, NoPostgres
from portal.embedded.programs import leashed

# Django is set up before anything that needs it is imported.
_INSIDE = "import django; django.setup(); from portal.bench.loop_cycles import main; main()"
MOST = {"nodes": 5_000, "pending": 50_000, "cycles": 1_000}


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench loop`."""
    parser.add_argument("--nodes", type=int, default=1000, help="of 8 GPUs; default %(default)s")
    parser.add_argument("--pending", type=int, default=10_000, help="jobs; default %(default)s")
    parser.add_argument("--cycles", type=int, default=40, help="measured; default %(default)s")
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Fill a cluster through the services, then run cycles; the database is thrown away."""
    sizes = {name: options[name] for name in MOST}
    with _database(options["database"]) as url, _folder() as places:
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "portal.settings.embedded",
            "TRAINYARD_STATE_DIR": str(places.state),
            "TRAINYARD_RUN_DIR": str(places.run),
            "DATABASE_URL": url,
            "REDIS_URL": "",
        }
        with _broker(places):
            figures = _measure(sizes, environment)
    return {"bench": "loop", "database": options["database"], **sizes, **figures, **machine()}


def _measure(sizes: dict[str, int], environment: dict[str, str]) -> dict[str, Any]:
    """The figures of a process that has the temporary database as its own."""
    prepare = ("manage.py", "prepare", "--first-administrator", "--demo", "--node-token=n=default")
    _python(environment, *prepare)
    printed = _python(environment, "-c", _INSIDE, json.dumps(sizes))
    figures: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return figures


def _python(environment: dict[str, str], *words: str) -> str:
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
        raise StackProblem("the cycles could not be run; what went wrong is printed above")
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
def _database(kind: str) -> Iterator[str]:
    """Address of a throw-away PostgreSQL; empty for SQLite in the state folder."""
    if kind == "sqlite":
        yield ""
        return
    try:
        with Cluster() as cluster:
            yield cluster.url()
    except NoPostgres as problem:
        raise StackProblem(f"PostgreSQL is not installed here. Type '{problem}'.") from None


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
