"""What throw-away stacks are told: nothing of an installation that is told by files."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from kombu.utils.url import parse_url

from portal.bench.apart import apart
from portal.embedded.places import Places, StackProblem
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


@pytest.mark.parametrize("port", [70_000, -1])
def test_a_port_that_cannot_be_is_refused(tmp_path, port):
    with pytest.raises(StackProblem, match="choose one up to 65535"):
        Places(tmp_path, tmp_path).choose_address(port)
