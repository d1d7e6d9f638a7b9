"""Answers in front of Django and behind its back, made of what is in memory."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

Header = tuple[bytes, bytes]


class Answer:
    """Around an ASGI `send`; `has_begun`: something was sent, so that no other answer fits."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.has_begun = False

    async def __call__(self, message: Any) -> None:
        """Send it."""
        self.has_begun = True
        await self._send(message)

    async def problem(self, status: int, code: str, detail: str, *headers: Header) -> None:
        """The whole answer, as the API tells problems."""
        document = {
            "type": "about:blank", "title": HTTPStatus(status).phrase, "status": status,
            "code": code, "detail": detail,
        }  # fmt: skip
        await self.whole(status, b"application/problem+json", json.dumps(document), *headers)

    async def whole(self, status: int, kind: bytes, text: str, *headers: Header) -> None:
        """The whole answer, of a content type."""
        body = text.encode()
        told = [
            (b"content-type", kind),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            *headers,
        ]
        await self({"type": "http.response.start", "status": status, "headers": told})
        await self({"type": "http.response.body", "body": body})
