"""What a production portal is checked for before it is trusted."""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.sources import tracked

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


def test_of_bandits_rules_only_the_named_ones_are_off_and_only_tests_are_let_off():
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    of_bandit = re.compile(r"S\d*")
    off = {rule for rule in lint["ignore"] if of_bandit.fullmatch(rule)}
    assert off == {"S101", "S311", "S603", "S607"}
    let_off = lint["per-file-ignores"].items()
    found = {place for place, rules in let_off if any(map(of_bandit.fullmatch, rules))}
    assert found == {"tests/**", "deploy/samples/**"}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("subprocess.run(name, shell=True)", "S602"),
        ("eval(name)", "S307"),
        ("pickle.loads(name)", "S301"),
        ("yaml.load(name)", "S506"),
        ("hashlib.md5(name)", "S324"),
        ('name.execute("SELECT * FROM t WHERE x = %s" % name)', "S608"),
        ('open("/tmp/x", "w")', "S108"),
        ('password = "swordfish"', "S105"),
        ("mark_safe(name)", "S308"),
        ("ssl._create_unverified_context()", "S323"),
        # In the order of the bytes it is another program than on the screen (bandit's B613).
        ('found = "\u202e name"', "PLE2502"),
    ],
)
def test_the_linter_would_find_it(line, rule):
    head = "import hashlib, pickle, ssl, subprocess\nimport yaml\n"
    head += "from django.utils.safestring import mark_safe\n"
    ruff = [str(Path(sys.executable).parent / "ruff"), "check", "--no-cache", "--quiet"]
    done = subprocess.run(
        [*ruff, "--output-format=concise", "--stdin-filename=portal/pages/planted.py", "-"],
        cwd=ROOT,
        input=f"{head}def planted(name):\n    {line}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert f" {rule} " in done.stdout, done.stdout + done.stderr


# Keys and tokens as their makers write them, our own among them; what tests make up is shorter.
SECRETS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{64}"
    r"|\bAKIA[0-9A-Z]{16}\b|\bAIza[0-9A-Za-z_-]{35}\b|\bgh[pousr]_[A-Za-z0-9]{36}\b"
    r"|\bxox[abprs]-[0-9A-Za-z-]{20,}|\bsk_live_[0-9A-Za-z]{20,}|\bhf_[A-Za-z0-9]{34}\b"
    r"|\bty_[0-9a-f]{8}_[A-Za-z0-9_-]{43}|\bty[an]_[A-Za-z0-9_-]{43}"
)


def test_no_key_and_no_token_lies_in_the_repository():
    found = [
        f"{path}: {hit[0][:12]}"
        for path in tracked()
        for hit in SECRETS.finditer((ROOT / path).read_text("utf-8", "replace"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA" * 5,
        "AKIA" + "ABCDEFGHIJKLMNOP",
        "ghp_" + "a1" * 18,
        "hf_" + "b" * 34,
        f"ty_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}",
        f"tya_{secrets.token_urlsafe(32)}",
        f"tyn_{secrets.token_urlsafe(32)}",
    ],
    ids=range(7),
)
def test_one_that_did_would_be_found(planted):
    assert SECRETS.search(f"token = '{planted}'")


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
