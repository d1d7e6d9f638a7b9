"""Programs that call the API: a token for a persona, and short ways to send and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from django.test import Client

from accounts.models import User
from accounts.services import SCOPES, issue_token
from tests import scenes


class Caller:
    """A program with an API token, or without one."""

    def __init__(self, secret: str = "") -> None:
        self.client = Client(raise_request_exception=False)
        self.headers = {"HTTP_AUTHORIZATION": f"Bearer {secret}"} if secret else {}

    def get(self, path: str, **headers: Any) -> Any:
        return self.client.get(f"/api/v1{path}", **self.headers, **headers)

    def post(self, path: str, body: Any = None, **headers: Any) -> Any:
        """Send `body` as JSON, or as it is when it is bytes."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        kind = headers.pop("content_type", "application/json")
        return self.client.post(f"/api/v1{path}", raw, content_type=kind, **self.headers, **headers)


@pytest.fixture
def program() -> Callable[..., Caller]:
    """`program(user, scopes)`: a caller with a fresh token of that user."""

    def make(user: User, scopes: Iterable[str] = SCOPES) -> Caller:
        _, secret = issue_token(actor=user, name="test", scopes=scopes, expires_in_days=1)
        return Caller(secret)

    return make


@pytest.fixture
def cluster(root: User) -> scenes.Cluster:
    return scenes.build_cluster(root, nodes=2, gpus=2)


@pytest.fixture
def spec(project: Any) -> dict[str, Any]:
    """The smallest job a person would send."""
    return {"name": "train", "project": project.path, "command": ["python", "train.py"]}


def problem_of(reply: Any, status: int, code: str = "") -> dict[str, Any]:
    """Check that a reply is a problem document of this status, and hand it over."""
    assert reply.status_code == status, reply.content[:500]
    assert reply["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = json.loads(reply.content)
    assert found["status"] == status
    assert found["detail"]
    assert found["request_id"] == reply["X-Request-ID"]
    assert not code or found["code"] == code, found
    return found


def fields_of(problem: dict[str, Any]) -> set[str]:
    return {one["field"] for one in problem["errors"]}
