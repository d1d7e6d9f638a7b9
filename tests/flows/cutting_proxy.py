"""A TCP proxy that swallows replies: the server has done its work, the caller never hears of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


class CuttingProxy:
    """Forwards connections to `target`; `cuts()` is asked at each piece of an answer.

    Where it says yes, the connection is closed on both sides before a byte of that piece is
    passed on. What the caller had sent has reached the server by then.
    """

    def __init__(self, target: tuple[str, int], cuts: Callable[[], bool]) -> None:
        self.target = target
        self.cuts = cuts
        self.cut = 0
        self._ear = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        host, port = self._ear.getsockname()
        return f"http://{host}:{port}"

    def close(self) -> None:
        self._ear.close()
        for each in list(self._open):
            _shut(each)

    def _accept(self) -> None:
        while True:
            try:
                caller, _ = self._ear.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.target, timeout=60)
            except OSError:
                caller.close()
                continue
            self._open |= {caller, server}
            for way in ((caller, server, False), (server, caller, True)):
                threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                if is_answer and self.cuts():
                    self.cut += 1
                    break
                sink.sendall(piece)
        for each in (source, sink):
            _shut(each)
            self._open.discard(each)


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@contextlib.contextmanager
def cutting_proxy(address: str, cuts: Callable[[], bool]) -> Iterator[CuttingProxy]:
    """A proxy to `http://host:port`, closed at the end of the block."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    proxy = CuttingProxy((host, int(port)), cuts)
    try:
        yield proxy
    finally:
        proxy.close()
