"""Every page with years of jobs behind it: milliseconds, statements and bytes against budgets."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from portal.bench.apart import apart, python
from portal.bench.figures import add_database, add_strict, machine

# Django is set up before anything that needs it is imported.
_INSIDE = "import django; django.setup(); from portal.bench.faces.visits import main; main()"
MOST = {"jobs": 5_000_000, "pending": 50_000, "nodes": 5_000, "runs": 100, "visits": 1_000}


def add_arguments(parser: ArgumentParser) -> None:
    """Of `bench pages`."""
    parser.add_argument(
        "--jobs", type=int, default=200_000, help="that have ended; default %(default)s"
    )
    parser.add_argument(
        "--pending", type=int, default=10_000, help="that wait; default %(default)s"
    )
    parser.add_argument("--nodes", type=int, default=512, help="of 8 GPUs; default %(default)s")
    parser.add_argument(
        "--runs", type=int, default=5, help="whose median is told; default %(default)s"
    )
    parser.add_argument(
        "--visits", type=int, default=8, help="of each page in a run; default %(default)s"
    )
    add_database(parser)
    add_strict(parser)


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Fill a database of its own, then open every page as a researcher and an administrator."""
    figures: dict[str, Any] = {"bench": "pages", "database": options["database"]}
    with apart(options["database"]) as environment:
        python(environment, "manage.py", "prepare", "--first-administrator", "--demo")
        python(environment, "manage.py", "seed_demo", "--anyway")
        sizes = [str(options[name]) for name in ("jobs", "pending", "nodes")]
        visits = str(options["runs"]), str(options["visits"])
        for words in (("fill", *sizes), ("visit", *visits)):
            printed = python(environment, "-c", _INSIDE, *words)
            figures |= json.loads(printed.splitlines()[-1])
    return {**figures, **machine()}
