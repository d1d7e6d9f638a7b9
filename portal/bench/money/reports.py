"""Report pages with months of history, and a report of so many rows in each file format."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from portal.bench.apart import apart, python
from portal.bench.figures import machine

# Django is set up before anything that needs it is imported.
_INSIDE = "import django; django.setup(); from portal.bench.money.report_steps import main; main()"
MOST = {"segments": 1_000_000, "months": 60, "rows": 1_048_575}


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench reports`."""
    parser.add_argument(
        "--segments", type=int, default=20_000, help="of a month; default %(default)s"
    )
    parser.add_argument("--months", type=int, default=12, help="closed ones; default %(default)s")
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="of the exports; default %(default)s"
    )
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=42, help="of the month; default %(default)s")


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Close a month, repeat it for a history, open every page of reports, and export it long."""
    figures: dict[str, Any] = {"bench": "reports", "database": options["database"]}
    with apart(options["database"]) as environment:
        python(environment, "manage.py", "prepare", "--first-administrator", "--demo")
        for step in ("fill", "close", "history", "pages", "lengthen", "csv", "xlsx", "parquet"):
            words = [str(options[name]) for name in ("segments", "seed", "months", "rows")]
            printed = python(environment, "-c", _INSIDE, step, *words)
            figures |= json.loads(printed.splitlines()[-1])
    return {**figures, "seed": options["seed"], **machine()}
