"""What a production portal is checked for before it is trusted."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_djangos_own_check_for_deployment_is_clean(tmp_path):
    given = {
        "DJANGO_SETTINGS_MODULE": "portal.settings.prod",
        "TRAINYARD_SECRET_KEY": secrets.token_urlsafe(64),
        "TRAINYARD_ALLOWED_HOSTS": "portal.example.org",
        "TRAINYARD_STATE_DIR": str(tmp_path),
        "DATABASE_URL": "postgres://trainyard:x@localhost/trainyard",
        "REDIS_URL": "redis://localhost:6379/0",
    }
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=ROOT,
        env={**kept, **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_rules_of_bandit_hold_and_exceptions_are_named():
    """Ruff's S rules are bandit's; a line that is let off names its rule."""
    config = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^select = \[.*"S".*\]$', config, re.MULTILINE)
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for room in ("accounts", "portal", "scheduler", "deploy")
        for path in (ROOT / room).rglob("*.py")
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if re.search(r"#\s*(noqa(?!:)|nosec)\b", line)
    ]
    assert bare == []


def test_templates_and_code_never_mark_text_safe_elsewhere():
    """`mark_safe` and `|safe` would let a name become markup."""
    # What the log's renderer made, which escapes all that it lets through.
    doors = ("portal/reports/log_rows.py", "portal/templatetags", "portal/terminal")
    found = []
    for path in [*(ROOT / "portal").rglob("*.py"), *(ROOT / "templates").rglob("*.html")]:
        shown = str(path.relative_to(ROOT))
        if any(shown.startswith(door) for door in doors):
            continue
        if re.search(r"\bmark_safe\b|\|\s*safe\b|autoescape off", path.read_text("utf-8")):
            found.append(shown)
    assert found == []
