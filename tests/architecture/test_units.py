"""Units of systemd, and the operator's book beside them: read, checked and verified by systemd."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def test_manage_sh_is_what_the_units_are(tmp_path):
    """User, settings, variables, folder and Python: a command meets the database of the units."""
    (tmp_path / "systemd-run").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "systemd-run").chmod(0o755)

    def said(*words: str) -> list[str]:
        return subprocess.run(
            ["/bin/sh", str(DEPLOY / "manage.sh"), *words],
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        ).stdout.splitlines()

    unit = (DEPLOY / "systemd" / "trainyard-web.service").read_text()
    same = ("User", "Group", "UMask", "WorkingDirectory", "Environment", "EnvironmentFile")
    of_unit = re.findall(rf"^(?:{'|'.join(same)})=.*$", unit, re.M)
    prepare = re.findall(r"^ExecStartPre=(\S+) (manage\.py) prepare$", unit, re.M)[0]
    words = said("restored", "--some words")
    assert len(of_unit) == len(same) and set(of_unit) <= set(words)
    assert words[-4:] == [*prepare, "restored", "--some words"]
    # The last file of variables wins.
    words = said("--with", "/root/owner env", "grant_role", "trainyard_app")
    assert words.index("EnvironmentFile=/root/owner env") > words.index(
        "EnvironmentFile=/etc/trainyard/env"
    )
    assert words[-2:] == ["grant_role", "trainyard_app"]
    # systemd takes absolute paths alone.
    assert f"EnvironmentFile={Path('env').resolve()}" in said("--with", "env", "restored")


def test_the_book_lets_the_units_come_back_with_the_machine():
    book = (DEPLOY / "README.md").read_text()
    (line,) = re.findall(r"systemctl daemon-reload` .*\n.*`systemctl enable --now ([^`]+)`", book)
    units = {path.name for path in (DEPLOY / "systemd").glob("*.service")}
    assert {re.sub(r"@\w*", "@", name) + ".service" for name in line.split()} == units - {
        "trainyard-agent.service"
    }


def test_the_book_types_manage_py_only_as_the_units_do():
    """Plain `manage.py` acts on an SQLite file beside the checkout; `up` is meant to."""
    book = (DEPLOY / "README.md").read_text()
    typed = set(re.findall(r"(?<![\w/])manage\.py (\w+)", book))
    assert typed <= {"up", "create_admin"}
    assert {"restored", "migrate", "verify_ledger"} <= set(re.findall(r"manage\.sh (\w+)", book))


@pytest.mark.parametrize(
    "unit", sorted((DEPLOY / "systemd").glob("*.service")), ids=lambda unit: unit.stem
)
def test_what_keeps_a_program_from_starting_is_outlasted(unit):
    """Left to itself systemd gives one up that ended five times within ten seconds."""
    head, _, service = unit.read_text().partition("[Service]")
    assert "\nStartLimitIntervalSec=0\n" in head and "\nRestart=always\n" in service


def test_a_long_migration_is_not_killed_by_the_start_of_the_web():
    """It runs before the program, where systemd gives 90 s unless told otherwise."""
    unit = (DEPLOY / "systemd" / "trainyard-web.service").read_text()
    assert "ExecStartPre=" in unit and "\nTimeoutStartSec=infinity\n" in unit


@pytest.mark.parametrize("has_socket", [False, True])
def test_the_web_is_not_waited_for_once_it_has_ended(tmp_path, has_socket):
    """Its start has no time limit; waiting for ever, systemd would not start it again."""
    unit = (DEPLOY / "systemd" / "trainyard-web.service").read_text()
    (line,) = re.findall(r"^ExecStartPost=(.*)$", unit, re.M)
    path = tmp_path / "web.sock"
    words = shlex.split(line.replace("/run/trainyard/web.sock", str(path)).replace("$$", "$"))
    dead = subprocess.Popen(["/bin/true"])
    dead.wait()
    with socket.socket(socket.AF_UNIX) as web:
        if has_socket:
            web.bind(str(path))
        done = subprocess.run(words, env={"MAINPID": str(dead.pid)}, timeout=20, check=False)
    assert (done.returncode == 0) is has_socket
    assert not has_socket or stat.S_IMODE(path.stat().st_mode) == 0o660


def test_programs_that_pages_name_are_units():
    units = {path.name.removesuffix(".service") for path in (DEPLOY / "systemd").glob("*.service")}
    named = set()
    for folder in ("portal/pages", "templates"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.suffix in (".py", ".html"):
                text = path.read_text()
                named |= set(re.findall(r"systemctl (?:\S+ )*?(trainyard[\w@-]+)", text))
    assert named == {"trainyard-agent", "trainyard-worker@default"}
    assert {re.sub(r"@\w+", "@", name) for name in named} <= units


def test_systemd_takes_the_units(tmp_path):
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        if os.environ.get("TRAINYARD_TEST_REQUIRE_ALL"):
            pytest.fail("systemd-analyze is missing; install Debian's package systemd")
        pytest.skip("systemd-analyze is not installed (Debian: systemd)")
    # Programs and units of an installed machine are not here; everything else must be right.
    for path in (DEPLOY / "systemd").glob("*.service"):
        text = re.sub(r"=/(opt|usr/bin/python3)\S*", "=/bin/true", path.read_text())
        text = re.sub(r"^WorkingDirectory=.*\n", "", text, flags=re.M)
        (tmp_path / path.name).write_text(text)
    names = sorted(
        path.name.replace("@.", "@scheduling.") for path in (DEPLOY / "systemd").glob("*.service")
    )
    done = subprocess.run(
        [analyze, "verify", "--recursive-errors=no", *(str(tmp_path / name) for name in names)],
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [
        line for line in done.stderr.splitlines() if str(tmp_path) in line or "trainyard" in line
    ]
    assert done.returncode == 0 and not ours, done.stderr
