"""A whole scheduling cycle as the loop runs it: load, plan, commit; full cluster, long queue."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from portal.bench.apart import apart, python
from portal.bench.figures import machine

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
    with apart(options["database"]) as environment:
        figures = _measure(sizes, environment)
    return {"bench": "loop", "database": options["database"], **sizes, **figures, **machine()}


def _measure(sizes: dict[str, int], environment: dict[str, str]) -> dict[str, Any]:
    """The figures of a process that has the temporary database as its own."""
    prepare = ("manage.py", "prepare", "--first-administrator", "--demo", "--node-token=n=default")
    python(environment, *prepare)
    printed = python(environment, "-c", _INSIDE, json.dumps(sizes))
    figures: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return figures
