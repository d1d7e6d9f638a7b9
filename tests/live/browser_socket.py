"""A browser's end of the socket, spoken to the ASGI application itself."""

from __future__ import annotations

import json
from typing import Any

from asgiref.testing import ApplicationCommunicator


class BrowserSocket(ApplicationCommunicator):
    """`path` is opened with these headers; frames are JSON."""

    def __init__(self, application: Any, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        scope = {
            "type": "websocket",
            "path": path,
            "query_string": b"",
            "headers": headers,
            "subprotocols": [],
            "client": ("127.0.0.1", 50000),
            "server": ("localhost", 80),
        }
        super().__init__(application, scope)
        self.kept: list[Any] = []

    async def connect(self) -> bool:
        """Whether the server accepted."""
        await self.send_input({"type": "websocket.connect"})
        return (await self.receive_output(timeout=5))["type"] == "websocket.accept"

    async def send_text(self, text: str) -> None:
        await self.send_input({"type": "websocket.receive", "text": text})

    async def send_bytes(self, data: bytes) -> None:
        await self.send_input({"type": "websocket.receive", "bytes": data})

    async def send(self, value: Any) -> None:
        await self.send_text(json.dumps(value))

    async def frame(self, timeout: float = 8) -> Any:
        """The next frame beside the greetings of topics; fails on a close."""
        while True:
            frame = await self.any_frame(timeout)
            if frame["kind"] != "watching":
                return frame

    async def any_frame(self, timeout: float = 3) -> Any:
        """The next frame, those kept first; fails on a close."""
        return self.kept.pop(0) if self.kept else await self.next_frame(timeout)

    async def next_frame(self, timeout: float = 3) -> Any:
        """The next frame from the server; fails on a close."""
        event = await self.receive_output(timeout)
        assert event["type"] == "websocket.send", event
        return json.loads(event["text"])

    async def close_code(self) -> int | None:
        """Reads on until the server closes."""
        while True:
            event = await self.receive_output(timeout=5)
            if event["type"] == "websocket.close":
                return event.get("code")

    async def leave(self) -> None:
        await self.send_input({"type": "websocket.disconnect", "code": 1001})
        await self.wait(timeout=5)
