"""Image, compose file and units: read and checked, since no container can be started in a test."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from portal.pages.samples import DIGITS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = ("prepare", "web", "scheduler", "background", "clock")
KNOWN = set(re.findall(r"^#? ?([A-Z][A-Z0-9_]+)=", (DEPLOY / "env.example").read_text(), re.M))
# Of Python, Django and the web server, not of our settings.
FOREIGN = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "DJANGO_SETTINGS_MODULE"}
FOREIGN |= {"FORWARDED_ALLOW_IPS"}


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's lines as (word, rest), continued lines joined, comments gone."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines()]
    return [
        (word.upper(), rest.strip())
        for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")
    ]


def rests(word: str) -> list[str]:
    return [rest for first, rest in instructions() if first == word]


def variables_of(service: str) -> set[str]:
    return set(SERVICES[service].get("environment", {}))


def test_the_image_is_of_one_python_and_runs_as_nobody_in_particular():
    images = [rest.split()[0] for rest in rests("FROM")]
    assert set(images) == {"python:3.11-slim-bookworm"}
    words = [word for word, _ in instructions()]
    # By number: a host need not know the name.
    assert rests("USER") == ["990:990"]
    last_change = max(index for index, word in enumerate(words) if word in ("RUN", "COPY"))
    assert words.index("USER") > last_change, "what is copied must not belong to who runs it"
    assert not rests("ADD")
    assert any("--require-hashes" in rest for rest in rests("RUN"))
    assert "HEALTHCHECK" in words
    for rest in rests("ENV"):
        assert not re.search(r"SECRET|PASSWORD|DATABASE_URL", rest)


def lint(*words: str) -> str:
    """What one of the tools beside this Python has to say; empty: nothing."""
    program = Path(sys.executable).parent / words[0]
    done = subprocess.run(
        [str(program), *words[1:]], capture_output=True, text=True, timeout=120, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_hadolint_finds_nothing_in_the_image():
    """The usual linter of Dockerfiles, every rule and every severity; it needs no engine."""
    assert lint("hadolint", "--no-color", str(DEPLOY / "Dockerfile")) == ""


def test_hadolint_would_find_something(tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd /tmp\n")
    found = lint("hadolint", "--no-color", str(tmp_path / "Dockerfile"))
    assert "DL3007" in found and "DL3003" in found


# The compose specification's own JSON Schema, which check-jsonschema carries.
COMPOSE_RULES = ("check-jsonschema", "--builtin-schema", "vendor.compose-spec")


def test_the_compose_file_is_what_the_specification_asks_for():
    assert lint(*COMPOSE_RULES, str(DEPLOY / "compose.yaml")) == ""


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("cap_drop:", "cap_dropped:"), ("shm_size: 256m", "shm_size: [256]")],
)
def test_a_compose_file_that_is_not_is_found(tmp_path, right, wrong):
    bent = (DEPLOY / "compose.yaml").read_text().replace(right, wrong)
    (tmp_path / "compose.yaml").write_text(bent)
    assert lint(*COMPOSE_RULES, str(tmp_path / "compose.yaml")) != ""


def test_what_the_image_copies_is_there_and_reaches_the_builder():
    let_in = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    for rest in rests("COPY"):
        if rest.startswith("--from"):
            continue
        *sources, _ = rest.split()
        for source in sources:
            assert (ROOT / source).exists(), source
            assert source in let_in, f"{source} is held back by .dockerignore"
    assert all((ROOT / name).exists() for name in let_in)


def test_the_sample_is_in_the_image():
    copied = [source for rest in rests("COPY") for source in rest.split()[:-1]]
    assert any(DIGITS.is_relative_to(ROOT / source) for source in copied)


def test_commands_of_the_image_are_exec_forms():
    for word in ("CMD", "HEALTHCHECK"):
        for rest in rests(word):
            command = json.loads(rest[rest.index("[") :])
            assert command[0] == "python"


def test_every_variable_is_one_the_settings_read():
    of_image = set(re.findall(r"([A-Z][A-Z0-9_]+)=", " ".join(rests("ENV")))) - FOREIGN
    seen = of_image | {name for service in OURS for name in variables_of(service)}
    unknown = {name for name in seen - FOREIGN if name.removesuffix("_FILE") not in KNOWN}
    assert not unknown
    must = {"TRAINYARD_SECRET_KEY", "TRAINYARD_ALLOWED_HOSTS", "DATABASE_URL", "REDIS_URL"}
    for service in OURS:
        assert must <= {name.removesuffix("_FILE") for name in variables_of(service)}


def test_every_secret_is_a_file_and_every_reference_leads_somewhere():
    for name, service in SERVICES.items():
        for key, text in service.get("environment", {}).items():
            if key.endswith("_FILE"):
                secret = str(text).rpartition("/")[2]
                assert secret in service["secrets"], f"{name} reads {secret} and is not given it"
            else:
                assert "PASSWORD" not in key and "SECRET" not in key, f"{name}: {key} in the open"
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in COMPOSE["volumes"]
        assert ":" in service["image"] or service["image"] == "trainyard"
        assert not service["image"].endswith(":latest")


def test_the_head_of_the_compose_file_gives_secrets_to_the_images_user():
    """A file secret keeps its owner and mode in a container, whatever `uid:` would say."""
    head = (DEPLOY / "compose.yaml").read_text().partition("\nname:")[0]
    (user,) = rests("USER")
    assert f"chown {user}" in head and "chmod 0400" in head
    assert [name for name in COMPOSE["secrets"] if name not in head] == []


def test_what_containers_say_is_bounded():
    for name, service in SERVICES.items():
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}, name


def test_our_containers_may_do_little_and_only_the_web_is_reached_from_this_machine():
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    ports = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert ports == {"web": ["127.0.0.1:8000:8000"]}


def test_units_and_containers_start_the_same_programs():
    """The worker and the clock: whoever changes one changes the other."""
    unit = (DEPLOY / "systemd" / "trainyard-worker@.service").read_text()
    of_unit = re.search(r"^ExecStart=\S+/python (.*)$", unit, re.M)
    assert of_unit
    for service, queue in (("scheduler", "scheduling"), ("background", "default")):
        words = " ".join(SERVICES[service]["command"][1:])
        assert words == of_unit[1].replace("%i", queue).replace("%H", "%h")
    clock = (DEPLOY / "systemd" / "trainyard-beat.service").read_text()
    of_clock = re.search(r"^ExecStart=\S+/python (.*)$", clock, re.M)
    assert of_clock
    assert " ".join(SERVICES["clock"]["command"][1:]) == of_clock[1]


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


def test_what_may_not_be_written_beside_the_code_is_compiled_by_the_book():
    assert (DEPLOY / "README.md").read_text().count("make setup compile") == 2
    named = re.search(r"^compile:.*\n\t.*compileall (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert named
    (of_image,) = [rest for rest in rests("RUN") if "compileall" in rest]
    assert set(of_image.split("-q ")[1].split()) <= set(named[1].split())


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
