"""An identity provider that speaks OpenID Connect: a process of its own on loopback.

It lets in whoever names a subject, without a password, and says of them what a test wants.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.test import Client
from django.urls import reverse

from portal.embedded.places import free_port

CLIENT_ID = "trainyard"


@dataclass(frozen=True)
class IdentityProvider:
    """Where it listens; `issuer` is how it calls itself."""

    issuer: str
    calls: httpx.Client

    def tells(self, subject: str, **claims: Any) -> None:
        """What it says of somebody from now on; `iss`, `aud` and the like change its tokens."""
        self.calls.put(f"{self.issuer}/users/{subject}", json=claims).raise_for_status()

    def lets_in(self, there: str, subject: str) -> str:
        """Somebody agrees on the page that the portal led to; where that leads back to: a path."""
        return _path(self.calls.post(there, data={"sub": subject}))

    def is_refused(self, there: str) -> str:
        """Somebody does not agree; where that leads back to."""
        return _path(self.calls.post(there, data={"action": "deny"}))


def _path(answer: httpx.Response) -> str:
    assert answer.status_code == 302, answer.text
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


@contextmanager
def running() -> Iterator[IdentityProvider]:
    """One that runs until the end of the block."""
    port = free_port() or 0
    program = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    quiet = subprocess.DEVNULL
    with (
        httpx.Client(trust_env=False) as calls,
        subprocess.Popen(program, stdout=quiet, stderr=quiet) as process,
    ):
        try:
            issuer = f"http://localhost:{port}"
            _wait_for(calls, issuer, process)
            yield IdentityProvider(issuer, calls)
        finally:
            process.terminate()


def _wait_for(calls: httpx.Client, issuer: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            calls.get(f"{issuer}/.well-known/openid-configuration").raise_for_status()
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the identity provider did not start")


def believe(settings: Any, issuer: str, **more: Any) -> None:
    """Let the portal's settings name it."""
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = issuer, CLIENT_ID
    settings.OIDC_CLIENT_SECRET, settings.OIDC_NAME = "a secret", "Work"
    for name, value in more.items():
        setattr(settings, f"OIDC_{name}", value)


def way_there(client: Client, route: str = "account_elsewhere", **form: str) -> str:
    """The address that the portal leads to."""
    page = client.post(reverse(route), form)
    assert page.status_code == 200, page.content.decode()
    return str(page["Refresh"].removeprefix("0; url="))


def sign_in(client: Client, provider: IdentityProvider, subject: str, **form: str) -> Any:
    """There and back; the portal's answer at the end."""
    return client.get(provider.lets_in(way_there(client, **form), subject))
