"""Programs that are told: a webhook, which checks signatures, and chats.

Each call is written down, and what it was answered; faults change how they answer (`in_mood`).
"""

from __future__ import annotations

import hashlib
import hmac
import random
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from portal.torture.history import Diary
from portal.torture.yard import Yard

_SIGNED = re.compile(r"t=([0-9]+),v1=([0-9a-f]{64})", re.ASCII)
# So often it says no, or goes away once it has taken a call, so that calls are repeated.
_REFUSES, _LEAVES = 0.03, 0.03
# How it answers in each mood, 0: it has read all of it, and nobody hears of that.
MOODS = {"refuses": 500, "busy": 429, "drops": 0, "hangs": 0}
# Longer than any caller waits.
_HANGS_S = 15.0


class Receiver:
    """Listens from its making until `close`; `register` has itself told of everything.

    `is_chat`: it is a person's chat, which signs nothing and is told that person's news.
    """

    def __init__(self, diary: Diary, seed: int, *, is_chat: bool = False) -> None:
        self.diary, self.is_chat = diary, is_chat
        self.name = "chat" if is_chat else "webhook"
        self.secret, self.number = b"", 0
        self.hits = 0
        self.has_fault = threading.Lock()
        self._mood, self._calm = "", threading.Event()
        self._dice = random.Random(f"{'chat' if is_chat else 'receiver'}-{seed}")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Where calls go."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def register(self, yard: Yard) -> None:
        """While all is well, so that there is something to tell in any run."""
        whose = "alice" if self.is_chat else "admin"
        headers = {"Authorization": f"Bearer {yard.api_tokens[whose]}"}
        with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
            if self.is_chat:
                asked = {"url": self.address, "dialect": "slack", "name": "torture"}
                made = api.post("/channels/", json=asked).raise_for_status().json()
            else:
                made = api.post("/webhooks/", json={"url": self.address}).raise_for_status().json()
                self.secret = made["secret"].encode()
        self.number = int(made["id"])
        self.diary.note("chat" if self.is_chat else "hook", webhook=self.number)

    def close(self) -> None:
        """Nobody is there any more; who calls is refused."""
        self._calm.set()
        self._server.shutdown()
        self._server.server_close()

    @contextmanager
    def in_mood(self, mood: str) -> Iterator[None]:
        """One of MOODS; `hits` counts the calls that met it."""
        self.hits, self._mood = 0, mood
        self._calm.clear()
        try:
            yield
        finally:
            self._mood = ""
            self._calm.set()

    def take(self, delivery: str, signed: str, body: bytes) -> int:
        """Write a call down; the status to answer with, 0 for none."""
        drawn, mood = self._dice.random(), self._mood
        status = 503 if drawn < _REFUSES else 0 if drawn < _REFUSES + _LEAVES else 200
        status = MOODS.get(mood, status)
        facts = {"digest": hashlib.sha256(body).hexdigest(), "status": status}
        if self.is_chat:
            self.diary.note("message", webhook=self.number, **facts)
        else:
            number = int(delivery) if delivery.isdigit() else 0
            self.diary.note("call", delivery=number, signed=self._is_ours(signed, body), **facts)
        self.hits += bool(mood)
        if mood == "hangs":
            self._calm.wait(_HANGS_S)
        return status

    def _is_ours(self, signed: str, body: bytes) -> bool:
        # As `deploy/README.md` tells receivers, and by none of the product's own code.
        match = _SIGNED.fullmatch(signed)
        if match is None:
            return False
        told = hmac.new(self.secret, match[1].encode() + b"." + body, hashlib.sha256).hexdigest()
        return hmac.compare_digest(told, match[2])


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            delivery = self.headers.get("X-Trainyard-Delivery", "")
            status = receiver.take(delivery, self.headers.get("X-Trainyard-Signature", ""), body)
            if status:
                # Who was killed meanwhile hears nothing.
                with suppress(OSError):
                    self.send_response(status)
                    if status == MOODS["busy"]:
                        self.send_header("Retry-After", "30")
                    self.send_header("Content-Length", "0")
                    self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """The diary says it all."""

    return Hook
