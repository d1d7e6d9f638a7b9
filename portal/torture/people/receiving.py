"""A program that webhooks tell: it checks the signature and writes down each call it gets."""

from __future__ import annotations

import hashlib
import hmac
import random
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from portal.torture.history import Diary
from portal.torture.yard import Yard

_SIGNED = re.compile(r"t=([0-9]+),v1=([0-9a-f]{64})", re.ASCII)
# So often it says no, or goes away once it has taken a call, so that calls are repeated.
_REFUSES, _LEAVES = 0.03, 0.03


class Receiver:
    """Listens from its making until `close`; `register` has itself told of everything."""

    def __init__(self, diary: Diary, seed: int) -> None:
        self.diary = diary
        self.secret = b""
        self._dice = random.Random(f"receiver-{seed}")
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
        headers = {"Authorization": f"Bearer {yard.api_tokens['admin']}"}
        with httpx.Client(base_url=f"{yard.address}/api/v1", headers=headers, timeout=60) as api:
            made = api.post("/webhooks/", json={"url": self.address}).raise_for_status().json()
        self.secret = made["secret"].encode()
        self.diary.note("hook", webhook=made["id"])

    def close(self) -> None:
        """Nobody is there any more; who calls is refused."""
        self._server.shutdown()
        self._server.server_close()

    def take(self, delivery: str, signed: str, body: bytes) -> int:
        """Write a call down; the status to answer with, 0 for none."""
        drawn = self._dice.random()
        status = 503 if drawn < _REFUSES else 0 if drawn < _REFUSES + _LEAVES else 200
        self.diary.note(
            "call",
            delivery=int(delivery) if delivery.isdigit() else 0,
            digest=hashlib.sha256(body).hexdigest(),
            signed=self._is_ours(signed, body),
            status=status,
        )
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
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """The diary says it all."""

    return Hook
