"""Closing and exporting a month of so many device segments."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from portal.bench.apart import apart, python
from portal.bench.figures import machine

# Django is set up before anything that needs it is imported.
_INSIDE = "import django; django.setup(); from portal.bench.money.steps import main; main()"
MOST = {"segments": 10_000_000}


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench ledger`."""
    parser.add_argument(
        "--segments", type=int, default=1_000_000, help="about so many; default %(default)s"
    )
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=42, help="of the month; default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Fill a month; close it, export it and verify it with the product's own services."""
    figures: dict[str, Any] = {"bench": "ledger", "database": options["database"]}
    with apart(options["database"]) as environment:
        python(environment, "manage.py", "prepare", "--first-administrator", "--demo")
        for step in ("fill", "close", "export", "verify"):
            words = (step, str(options["segments"]), str(options["seed"]))
            printed = python(environment, "-c", _INSIDE, *words)
            figures |= json.loads(printed.splitlines()[-1])
    return {**figures, "seed": options["seed"], **machine()}
