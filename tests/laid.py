"""What a stack finds in its folder: the tables, laid once a process and then copied.

Equals an empty folder: `prepare` lays what is missing and seeds as on a first start.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

from portal.embedded.places import ROOT
from portal.embedded.postgres import create_database
from portal.embedded.programs import python

TABLES = "trainyard.sqlite3"
STATIC = ("static", "styles")


def lay_tables(state: Path) -> dict[str, str]:
    """Put them into a new state folder, or where DATABASE_URL names a server into a new database
    there; what the stack's programs have to be told."""
    server = os.environ.get("DATABASE_URL", "")
    pattern, database = _pattern(server)
    state.mkdir(parents=True, exist_ok=True)
    for name in STATIC:
        shutil.copytree(pattern / name, state / name)
    if server:
        name = f"stack_{secrets.token_hex(4)}"
        return {"DATABASE_URL": create_database(server, name, like=database)}
    shutil.copy(pattern / TABLES, state / TABLES)
    return {}


@functools.cache
def _pattern(server: str) -> tuple[Path, str]:
    folder = Path(tempfile.mkdtemp(prefix="trainyard-laid-", dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = f"laid_{secrets.token_hex(4)}" if server else ""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "portal.settings.embedded",
        "TRAINYARD_STATE_DIR": str(folder),
        "TRAINYARD_RUN_DIR": str(folder),
    }
    if server:
        environment["DATABASE_URL"] = create_database(server, name)
    subprocess.run(python("manage.py", "prepare"), cwd=ROOT, env=environment, check=True)
    assert not (folder / f"{TABLES}-wal").exists(), "what is copied is not the whole"
    return folder, name
