"""What throw-away stacks are told: nothing of an installation that is told by files."""

from __future__ import annotations

import os
import re
import ssl
import stat
import tempfile
from pathlib import Path

import environ
import pytest
from django.core.exceptions import ImproperlyConfigured
from kombu.utils.url import parse_url

from portal.bench.apart import apart
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.programs import environment_with
from portal.embedded.stack import Stack, StackOptions
from portal.settings import env


@pytest.fixture(autouse=True)
def installation(tmp_path, monkeypatch):
    for name in ("DATABASE_URL", "REDIS_URL", "TRAINYARD_PUBLIC_URL"):
        (tmp_path / name).write_text(f"{name} of the installation")
        monkeypatch.setenv(f"{name}_FILE", str(tmp_path / name))


def test_what_a_stack_says_itself_goes_before_files(tmp_path):
    options = StackOptions(environment={"DATABASE_URL": "", "REDIS_URL": ""})
    stack = Stack(Places(tmp_path / "state", tmp_path / "run"), options, tell=print)
    stack.address = "http://127.0.0.1:8000"
    told = stack.environment()
    assert not {"DATABASE_URL_FILE", "REDIS_URL_FILE", "TRAINYARD_PUBLIC_URL_FILE"} & told.keys()
    assert told["DATABASE_URL"] == told["REDIS_URL"] == ""
    assert "REDIS_URL_FILE" in environment_with({"DATABASE_URL": ""})


def test_measurements_apart_have_a_database_of_their_own():
    with apart("sqlite") as told:
        assert not {"DATABASE_URL_FILE", "REDIS_URL_FILE"} & told.keys()


def test_celery_believes_no_certificate_that_nobody_vouches_for():
    def asked(url: str) -> object:
        return parse_url(env.celery_broker_url(url))["ssl"]["ssl_cert_reqs"]

    assert asked("rediss://h:6380/0") == ssl.CERT_REQUIRED
    assert asked("rediss://h:6380/0?ssl_ca_certs=/etc/ca.pem") == ssl.CERT_REQUIRED
    assert asked("rediss://h:6380/0?ssl_cert_reqs=none") == ssl.CERT_NONE
    assert env.celery_broker_url("redis://h:6379/0") == "redis://h:6379/0"


def test_a_folder_for_sockets_has_one_meaning(tmp_path, monkeypatch):
    monkeypatch.chdir("/tmp")
    monkeypatch.setenv("TRAINYARD_RUN_DIR", "run")
    assert env.run_dir(tmp_path) == Path("/tmp/run").resolve()
    monkeypatch.setenv("TRAINYARD_RUN_DIR", "r" * 80)
    with pytest.raises(ImproperlyConfigured, match="TRAINYARD_RUN_DIR is longer than 80"):
        env.run_dir(tmp_path)


def test_a_run_folder_of_nobody_or_of_another_is_passed_by(tmp_path, monkeypatch):
    monkeypatch.delenv("TRAINYARD_RUN_DIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as own:
        monkeypatch.setenv("XDG_RUNTIME_DIR", own)
        assert env.run_dir(tmp_path).parent == Path(own)
        foreign = [f"{own}/of-a-session-that-is-over"]
        monkeypatch.setattr(os, "getuid", lambda uid=os.getuid() + 1: uid)
        for base in (own, *foreign):
            monkeypatch.setenv("XDG_RUNTIME_DIR", base)
            assert env.run_dir(tmp_path).parent == Path(tempfile.gettempdir())


def test_trouble_with_files_names_them_and_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "no-text").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("TRAINYARD_SECRET_KEY_FILE", str(tmp_path / "no-text"))
    with pytest.raises(ImproperlyConfigured, match="TRAINYARD_SECRET_KEY_FILE"):
        env.secret_key(tmp_path)
    monkeypatch.delenv("TRAINYARD_SECRET_KEY_FILE")
    (tmp_path / "file").touch()
    for state in (tmp_path / "file", tmp_path / "state"):
        (tmp_path / "state" / "secret_key").mkdir(parents=True, exist_ok=True)
        with pytest.raises(ImproperlyConfigured, match=f"{state}/secret_key.*TRAINYARD_STATE_DIR"):
            env.secret_key(state)


def test_a_secret_is_made_once(tmp_path, monkeypatch):
    monkeypatch.delenv("TRAINYARD_SECRET_KEY", raising=False)
    made = env.secret_key(tmp_path / "state")
    assert len(made) > 60 and env.secret_key(tmp_path / "state") == made
    (kept,) = (tmp_path / "state").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_choice_is_named_and_may_be_in_small_letters(monkeypatch):
    monkeypatch.setenv("TRAINYARD_LOG_LEVEL", "info")
    assert env.choice("TRAINYARD_LOG_LEVEL", "DEBUG", "INFO") == "INFO"
    monkeypatch.setenv("TRAINYARD_LOG_LEVEL", "loud")
    with pytest.raises(ImproperlyConfigured, match="TRAINYARD_LOG_LEVEL must be DEBUG or INFO"):
        env.choice("TRAINYARD_LOG_LEVEL", "DEBUG", "INFO")


@pytest.mark.parametrize(
    ("word", "level"),
    [("WARN", "WARNING"), ("fatal", "CRITICAL"), (" Warning ", "WARNING"), ("", "INFO")],
)
def test_a_level_of_the_log_goes_by_all_its_names(monkeypatch, word, level):
    monkeypatch.setenv("TRAINYARD_LOG_LEVEL", word)
    assert env.log_level("TRAINYARD_LOG_LEVEL") == level


def test_a_level_that_there_is_not_is_refused_with_those_there_are(monkeypatch):
    monkeypatch.setenv("TRAINYARD_LOG_LEVEL", "NOTSET")
    known = "TRAINYARD_LOG_LEVEL must be INFO or DEBUG or WARNING or ERROR or CRITICAL, not"
    with pytest.raises(ImproperlyConfigured, match=f"{known} 'NOTSET'"):
        env.log_level("TRAINYARD_LOG_LEVEL")


def test_mail_as_the_example_writes_it_is_encrypted():
    example = (ROOT / "deploy" / "env.example").read_text()
    urls = re.findall(r"smtp\S*://user\S+", example)
    read = [environ.Env.email_url_config(url) for url in urls]
    assert len(read) == 2
    assert all(each.get("EMAIL_USE_TLS") or each.get("EMAIL_USE_SSL") for each in read)


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_cannot_be_is_refused(tmp_path, port):
    with pytest.raises(StackProblem, match="choose one up to 65535"):
        Places(tmp_path, tmp_path).choose_address(port)


def test_an_address_that_was_damaged_is_not_remembered(tmp_path):
    (tmp_path / "address").write_text("http://127.0.0.1:80\x00\x00")
    assert Places(tmp_path, tmp_path).choose_address(0).startswith("http://127.0.0.1:")
