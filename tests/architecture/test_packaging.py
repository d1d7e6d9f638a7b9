"""Image and compose file: read and checked, since no container can be started in a test."""

from __future__ import annotations

import json
import re
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


def test_what_may_not_be_written_beside_the_code_is_compiled_by_the_book():
    assert (DEPLOY / "README.md").read_text().count("make setup compile") == 2
    named = re.search(r"^compile:.*\n\t.*compileall (.*)$", (ROOT / "Makefile").read_text(), re.M)
    assert named
    (of_image,) = [rest for rest in rests("RUN") if "compileall" in rest]
    assert set(of_image.split("-q ")[1].split()) <= set(named[1].split())
