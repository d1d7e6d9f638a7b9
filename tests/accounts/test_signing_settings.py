"""What the environment may say of an identity provider, and how it is told otherwise."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from portal.settings import base

SETTINGS = Path(base.__file__).parent
GOOD = {
    "ISSUER": "https://login.example.org/realms/work",
    "CLIENT_ID": "trainyard",
    "CLIENT_SECRET": "x",
}


@pytest.fixture
def read(monkeypatch):
    def loaded(**given: str) -> dict[str, Any]:
        for name, value in given.items():
            monkeypatch.setenv(f"TRAINYARD_OIDC_{name}", value)
        return runpy.run_path(str(SETTINGS / "signing.py"))

    return loaded


def test_it_is_off_by_default_and_takes_a_secret_from_a_file(read, tmp_path):
    assert read()["OIDC_ISSUER"] == ""
    secret = tmp_path / "secret"
    secret.write_text("from a file\n")
    found = read(ISSUER=GOOD["ISSUER"], CLIENT_ID="x", CLIENT_SECRET_FILE=str(secret))
    assert found["OIDC_CLIENT_SECRET"] == "from a file"
    assert (found["OIDC_NEW_PEOPLE"], found["OIDC_PASSWORDS"]) == ("invited", "everyone")
    assert read(ISSUER="http://localhost:9400")["OIDC_ISSUER"] == "http://localhost:9400"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ISSUER": "http://login.example.org"}, "TRAINYARD_OIDC_ISSUER must .* https://"),
        ({"ISSUER": "login.example.org"}, "TRAINYARD_OIDC_ISSUER must"),
        ({"ISSUER": "https://a:b@login.example.org"}, "plain address"),
        ({"ISSUER": "https://login.example.org/?x=1"}, "plain address"),
        ({"ISSUER": "https://login.example.org/" + "x" * 200}, "at most 200"),
        ({"CLIENT_SECRET": ""}, "TRAINYARD_OIDC_CLIENT_SECRET must be set"),
        ({"ISSUER": ""}, "TRAINYARD_OIDC_ISSUER must be set"),
        ({"SCOPES": "profile"}, "TRAINYARD_OIDC_SCOPES must have openid"),
        ({"NEW_PEOPLE": "all"}, "TRAINYARD_OIDC_NEW_PEOPLE must be invited or"),
        ({"NEW_PEOPLE": "domains"}, "name them in TRAINYARD_OIDC_DOMAINS"),
        ({"CA": "/nowhere.pem"}, "TRAINYARD_OIDC_CA: no certificates"),
        ({"PASSWORDS": "nobody"}, "TRAINYARD_OIDC_PASSWORDS must be everyone or"),
    ],
)
def test_a_slip_refuses_to_start_and_names_the_variable(read, given, said):
    with pytest.raises(ImproperlyConfigured, match=said):
        read(**{**GOOD, **given})


def test_production_takes_no_provider_in_the_clear(monkeypatch):
    for name in ("TRAINYARD_SECRET_KEY", "TRAINYARD_ALLOWED_HOSTS", "DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setattr(base, "OIDC_ISSUER", "http://localhost:9400")
    with pytest.raises(ImproperlyConfigured, match="must begin with https:// in production"):
        runpy.run_path(str(SETTINGS / "prod.py"))
