"""A portal in a hundred lines: real HTTP, the real codec, one node's orders in plain sight."""

from __future__ import annotations

import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from scheduler.states import AttemptState, NodeState
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import (
    PROTOCOL,
    Assignment,
    AttemptReport,
    EnrolReply,
    EnrolRequest,
    LogAck,
    Refusal,
    StopOrder,
    SyncReply,
    SyncRequest,
    TroubleReport,
)
from scheduler.wire.outputs import (
    OutputEntry,
    OutputList,
    OutputPlan,
    OutputRefusal,
    OutputWish,
)
from scheduler.wire.readings import DeviceSample

TOKEN = "enrol-me"


@dataclass
class NodeBook:
    """What the portal knows and wants of one node."""

    name: str
    enrolment: EnrolRequest | None = None
    revision: int = 1
    assignments: dict[int, Assignment] = field(default_factory=dict)
    forget: set[int] = field(default_factory=set)
    reports: dict[int, AttemptReport] = field(default_factory=dict)
    history: list[AttemptReport] = field(default_factory=list)
    samples: list[DeviceSample] = field(default_factory=list)
    syncs: list[SyncRequest] = field(default_factory=list)
    troubles: tuple[TroubleReport, ...] = ()
    check: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)


class Portal:
    """Plays the server. `trouble` may answer in its place: (path) -> (status, message or bytes)."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeBook] = {}
        self.tokens: dict[str, str] = {}
        self.logs: dict[tuple[int, int], bytes] = defaultdict(bytes)
        self.log_calls: list[tuple[int, int, int, int]] = []
        self.trouble: Callable[[str], tuple[int, object] | None] | None = None
        self.lose_acks = 0
        self.outputs: dict[tuple[int, int], dict[str, bytes]] = defaultdict(dict)
        self.outputs_done: set[int] = set()
        self.refused_outputs: dict[int, tuple[OutputRefusal, ...]] = {}
        # Parts from this offset on get no answer.
        self.hold_outputs_at: int | None = None
        self._listed: dict[int, list[OutputEntry]] = {}
        self.changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self._numbers = itertools.count(1)

    def start(self) -> None:
        portal = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._say(404, Refusal("not_found", "nothing here"))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                token = self.headers.get("Authorization", "").removeprefix("Bearer ")
                answer = portal.answer(self.path, token, body)
                if answer is None:
                    self.close_connection = True
                    return
                self._say(*answer)

            def _say(self, status: int, message: object) -> None:
                content = message if isinstance(message, bytes) else encode(message)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                return  # a killed agent's connection breaks, as it should

        self._server = Server(("127.0.0.1", self.port), Door)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        with self.changed:
            self.changed.notify_all()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, token: str, body: bytes) -> tuple[int, object] | None:
        if self.trouble is not None and (wrong := self.trouble(path)) is not None:
            return wrong
        place = urlsplit(path)
        if place.path == "/api/agent/v1/enrol":
            return self._enrol(decode(EnrolRequest, body))
        if token not in self.tokens:
            return 401, Refusal("node_token_invalid", "this token is not known")
        book = self.nodes[self.tokens[token]]
        if place.path == "/api/agent/v1/sync":
            return 200, self._sync(book, decode(SyncRequest, body))
        fence = int(place.path.split("/")[5])
        rest = place.path.split("/")[6:]
        query = {key: int(v[0]) for key, v in parse_qs(place.query).items() if v[0].isdigit()}
        if rest == ["outputs"]:
            return 200, self._list(fence, query["rank"], decode(OutputList, body))
        if rest[0] == "outputs":
            return self._part(fence, query["rank"], int(rest[1]), query["offset"], body)
        return self._log(fence, query["rank"], query["offset"], body)

    def _list(self, fence: int, rank: int, found: OutputList) -> OutputPlan:
        with self.changed:
            self._listed[fence] = list(found.entries)
            self.refused_outputs[fence] = found.refused
            have = self.outputs[fence, rank]
            wishes = (
                OutputWish(number, one.name, len(have.get(one.name, b"")))
                for number, one in enumerate(found.entries)
            )
            return OutputPlan(tuple(w for w in wishes if w.offset < found.entries[w.number].size))

    def _part(
        self, fence: int, rank: int, number: int, offset: int, body: bytes
    ) -> tuple[int, object] | None:
        with self.changed:
            if self.hold_outputs_at is not None and offset >= self.hold_outputs_at:
                return None
            entry, have = self._listed[fence][number], self.outputs[fence, rank]
            stored = have.get(entry.name, b"")
            assert offset == len(stored)
            have[entry.name] = stored + body
            if all(len(have.get(one.name, b"")) == one.size for one in self._listed[fence]):
                self.outputs_done.add(fence)
            self.changed.notify_all()
            return 200, LogAck(len(have[entry.name]))

    def _enrol(self, request: EnrolRequest) -> tuple[int, object]:
        if request.token != TOKEN:
            return 403, Refusal("bad_token", "the enrolment token was used or has expired")
        book = self.nodes.setdefault(request.name, NodeBook(request.name))
        book.enrolment = request
        self.tokens = {t: name for t, name in self.tokens.items() if name != request.name}
        token = f"{next(self._numbers)}-token-of-{request.name}"
        self.tokens[token] = request.name
        return 201, EnrolReply(len(self.nodes), request.name, "main", token)

    def _sync(self, book: NodeBook, request: SyncRequest) -> SyncReply:
        with self.changed:
            book.syncs.append(request)
            for report in request.reports:
                old = book.reports.get(report.fence)
                if old is None or old.state != AttemptState.ENDED:
                    book.reports[report.fence] = report
                book.history.append(report)
            book.samples += request.samples
            book.troubles = book.troubles if request.troubles is None else request.troubles
            book.checked |= {one.uuid for one in request.checks if one.passed}
            book.check -= book.checked
            self.changed.notify_all()
            give_up_at = time.monotonic() + request.hold_s
            while self._server and book.revision <= request.seen_revision:
                left_s = give_up_at - time.monotonic()
                if left_s <= 0:
                    break
                self.changed.wait(left_s)
            return SyncReply(
                PROTOCOL,
                book.revision,
                NodeState.READY,
                tuple(book.assignments.values()),
                tuple(book.forget),
                tuple(book.check),
            )

    def _log(self, fence: int, rank: int, offset: int, body: bytes) -> tuple[int, object] | None:
        with self.changed:
            have = self.logs[fence, rank]
            self.log_calls.append((fence, rank, offset, len(body)))
            if offset > len(have):
                facts = {"expected": str(len(have))}
                return 409, Refusal("log_gap", "bytes are missing", facts)
            assert have[offset : offset + len(body)] == body[: len(have) - offset]
            self.logs[fence, rank] = have + body[len(have) - offset :]
            self.changed.notify_all()
            if self.lose_acks > 0:
                self.lose_acks -= 1
                return None
            return 200, LogAck(len(self.logs[fence, rank]))

    def assign(self, node: str, assignment: Assignment) -> None:
        book = self.nodes[node]
        with self.changed:
            book.assignments[assignment.fence] = assignment
            self._bump(book)

    def stop_attempt(self, node: str, fence: int, order: StopOrder) -> None:
        book = self.nodes[node]
        self.assign(node, replace(book.assignments[fence], stop=order))

    def unlist(self, node: str, fence: int) -> None:
        book = self.nodes[node]
        with self.changed:
            del book.assignments[fence]
            self._bump(book)

    def forget(self, node: str, fence: int) -> None:
        book = self.nodes[node]
        with self.changed:
            book.assignments.pop(fence, None)
            book.forget.add(fence)
            self._bump(book)

    def ask_check(self, node: str, uuid: str) -> None:
        with self.changed:
            self.nodes[node].check.add(uuid)
            self._bump(self.nodes[node])

    def _bump(self, book: NodeBook) -> None:
        book.revision += 1
        self.changed.notify_all()

    def wait(self, condition: Callable[[], Any], timeout_s: float = 20.0, what: str = "") -> Any:
        """Wait until `condition` is true after some call; fails with `what` otherwise."""
        give_up_at = time.monotonic() + timeout_s
        with self.changed:
            while not (answer := condition()):
                left_s = give_up_at - time.monotonic()
                assert left_s > 0, f"waited {timeout_s} s in vain for {what or condition}"
                self.changed.wait(min(left_s, 0.2))
            return answer

    def wait_for(
        self, node: str, fence: int, *states: AttemptState, timeout_s: float = 20.0
    ) -> AttemptReport:
        """The attempt's report once it is in one of `states`."""
        book = self.nodes[node]

        def there() -> AttemptReport | None:
            report = book.reports.get(fence)
            return report if report is not None and report.state in states else None

        found: AttemptReport = self.wait(there, timeout_s, f"attempt {fence} to be {states}")
        return found

    def ended(self, node: str, fence: int, timeout_s: float = 20.0) -> AttemptReport:
        """The attempt's final report, once its whole log is here too."""
        report = self.wait_for(node, fence, AttemptState.ENDED, timeout_s=timeout_s)
        key = (fence, report.rank)
        self.wait(lambda: len(self.logs[key]) >= report.log_size, what=f"log of {fence}")
        return report

    def outcome(self, node: str, order: Assignment) -> tuple[AttemptReport, str]:
        """Assign, wait for the end; the final report and the log."""
        self.assign(node, order)
        report = self.ended(node, order.fence)
        return report, self.logs[order.fence, report.rank].decode()
