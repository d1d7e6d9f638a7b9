"""Where this node's jobs report checkpoints over HTTP: one Unix socket for all of them.

`POST /checkpoint` takes what would be in `checkpoint.json` and writes that file, as the job's own
user, so that all that follows is the same. The kernel says who asks: a process below the supervisor
of a living attempt, as its user. A job that never asks costs nothing.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from scheduler.agent.runner import Attempt
from scheduler.agent.runtime import processes
from scheduler.agent.runtime.checkpoints import NOTE_FILE, CheckRequest
from scheduler.agent.setup.folders import make_passable, report_socket
from scheduler.agent.setup.prepare import Look

_AT = "/checkpoint"
_MAX_BODY = 4096
_PATIENCE_S = 5.0
_WRITE_AT_MOST_S = 15.0
_AT_ONCE_EACH = 2
# Whoever is turned away must not keep the others waiting by asking again and again.
_REST_S = 0.01
_LEFT_OPEN = 16
_CREDENTIALS = struct.Struct("iii")

logger = logging.getLogger(__name__)


class ReportDesk:
    """The socket and who is served there; `live` are the attempts that have not ended."""

    def __init__(self, work: Path, live: Callable[[], Sequence[Attempt]], look: Look) -> None:
        self._place = report_socket(work)
        self._live = live
        self._look = look
        self._ear = socket.socket(socket.AF_UNIX)
        self._served: Counter[int] = Counter()
        self._lock = threading.Lock()

    def open(self) -> None:
        """Listen anew; where that cannot be, jobs have the file and the command alone."""
        try:
            make_passable(self._place.parent)
            self._place.unlink(missing_ok=True)
            self._ear.bind(str(self._place))
            self._place.chmod(0o666)
            self._ear.listen(64)
        except OSError as problem:
            logger.warning("checkpoints are not heard over HTTP, %s: %s", self._place, problem)
            return
        threading.Thread(target=self._serve, name="reports", daemon=True).start()

    def close(self) -> None:
        """Hear nobody any more; the next agent listens under the same name."""
        with suppress(OSError):
            self._ear.shutdown(socket.SHUT_RDWR)
        self._ear.close()

    def _serve(self) -> None:
        left: deque[socket.socket] = deque()
        while True:
            try:
                link, _ = self._ear.accept()
            except OSError:
                if self._ear.fileno() < 0:
                    return
                time.sleep(_REST_S)
                continue
            if not self._admits(link):
                # Closed at once, it would break under who still sends and has not read why.
                left.append(link)
                if len(left) > _LEFT_OPEN:
                    left.popleft().close()
                time.sleep(_REST_S)

    def _admits(self, link: socket.socket) -> bool:
        """Serve a job's process on a thread of its own; others are told why not."""
        link.settimeout(_PATIENCE_S)
        told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(told)
        attempt = self._attempt_of(pid, uid)
        if attempt is None:
            _turn_away(link, HTTPStatus.FORBIDDEN, "only processes of a job are heard here")
            return False
        with self._lock:
            if self._served[attempt.fence] >= _AT_ONCE_EACH:
                words = f"{_AT_ONCE_EACH} calls of this job are under way; wait for one to end"
                _turn_away(link, HTTPStatus.SERVICE_UNAVAILABLE, words)
                return False
            self._served[attempt.fence] += 1
        threading.Thread(target=self._answer, args=(link, attempt), daemon=True).start()
        return True

    def _attempt_of(self, pid: int, uid: int) -> Attempt | None:
        """Whose process it is, by the supervisor above it: orphans of a job are its children."""
        guards = {}
        for attempt in self._live():
            guard = attempt.supervisor or attempt.slot.supervisor()
            if guard is not None and attempt.launch is not None:
                guards[guard.pid] = (attempt, attempt.launch.uid)
        above: int | None = pid
        while above is not None and above > 1:
            if above in guards:
                attempt, own = guards[above]
                return attempt if uid == (os.geteuid() if own is None else own) else None
            above = processes.parent_of(above)
        return None

    def _answer(self, link: socket.socket, attempt: Attempt) -> None:
        try:
            with suppress(OSError):
                _Call(link, lambda body: self.write(attempt, body))
        finally:
            link.close()
            with self._lock:
                self._served[attempt.fence] -= 1
                self._served += Counter()  # drops who has none

    def write(self, attempt: Attempt, body: bytes) -> tuple[HTTPStatus, dict[str, Any]]:
        """Leave the note that a process of `attempt` sent, and say what came of it."""
        launch, order = attempt.launch, attempt.assignment
        assert launch is not None
        if order.rank > 0 and not order.launch.checkpoint_dir:
            words = f"rank {order.rank} is not looked at: let a process of node rank 0 report it"
            return HTTPStatus.UNPROCESSABLE_ENTITY, {"detail": words}
        note = body.decode("utf-8", "replace")
        if not note.strip():
            return HTTPStatus.UNPROCESSABLE_ENTITY, {
                "detail": 'the body is empty; send {"path": …, "step": …, "bytes": …, "digest": …}'
            }
        give_up_at = time.monotonic() + _WRITE_AT_MOST_S
        request = CheckRequest(launch.env["TRAINYARD_CHECKPOINT_DIR"], launch.uid, note=note)
        found = self._look(request, lambda: time.monotonic() > give_up_at)
        if found is None:
            words = "the checkpoint folder did not answer in time; try again"
            return HTTPStatus.SERVICE_UNAVAILABLE, {"detail": words}
        if found.problem:
            words = found.problem.removeprefix(f"{NOTE_FILE}: ")
            return HTTPStatus.UNPROCESSABLE_ENTITY, {"detail": words}
        return HTTPStatus.OK, {"path": found.path, "step": found.step}


class _Call(BaseHTTPRequestHandler):
    """One call; it is answered by the time this is made."""

    timeout = _PATIENCE_S
    server_version, sys_version = "trainyard-agent", ""

    def __init__(
        self, link: socket.socket, write: Callable[[bytes], tuple[HTTPStatus, dict[str, Any]]]
    ) -> None:
        self._write = write
        super().__init__(link, "", None)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != _AT:
            self._say(HTTPStatus.NOT_FOUND, {"detail": f"there is nothing here; POST {_AT}"})
        elif not (length.isascii() and length.isdigit()):
            words = "Content-Length is missing; send the note whole, not in chunks"
            self._say(HTTPStatus.LENGTH_REQUIRED, {"detail": words})
        elif int(length[:9]) > _MAX_BODY:
            words = f"the body is longer than {_MAX_BODY} bytes; send a note, not the checkpoint"
            self._say(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, {"detail": words})
        else:
            self._say(*self._write(self.rfile.read(int(length))))

    def do_GET(self) -> None:
        self._say(HTTPStatus.METHOD_NOT_ALLOWED, {"detail": f"reports are sent: POST {_AT}"})

    do_PUT = do_GET  # noqa: N815 - http.server asks for this name

    def _say(self, status: HTTPStatus, said: dict[str, Any]) -> None:
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """What jobs send is no news of the agent's."""


def _turn_away(link: socket.socket, status: HTTPStatus, words: str) -> None:
    content = json.dumps({"detail": words})
    head = f"HTTP/1.0 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
    with suppress(OSError):
        link.send(f"{head}Content-Length: {len(content)}\r\n\r\n{content}".encode())
