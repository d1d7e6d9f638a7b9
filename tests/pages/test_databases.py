"""Where the rows are kept is said by DATABASE_URL, and a wrong one is refused in words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings.databases import postgres


@pytest.mark.parametrize(
    "url", ["sqlite:////srv/trainyard.sqlite3", "mysql://db/trainyard", "db/trainyard"]
)
def test_what_is_no_postgresql_is_refused_with_a_remedy(url):
    with pytest.raises(ImproperlyConfigured, match=r"DATABASE_URL must begin with postgres://.*"):
        postgres(url)


def test_a_server_or_none_is_named():
    assert postgres("") == {}
    assert postgres("postgres://me@db/trainyard")["NAME"] == "trainyard"
    assert postgres("postgresql://me@%2Frun%2Fpostgresql/trainyard")["HOST"] == "/run/postgresql"


def test_the_command_line_says_it_in_one_line():
    told = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "DATABASE_URL": "mysql://db/trainyard"},
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.startswith("trainyard: DATABASE_URL must begin with postgres://")
    assert len(told.stderr.splitlines()) == 1
