"""The connections of simulated nodes, against a server that answers as it is told."""

from __future__ import annotations

import asyncio

import pytest

from portal.bench.load.calling import CallFailed, callers

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def played(*answers: bytes) -> tuple[list[object], list[bytes], int]:
    """What as many calls brought, what the server was asked, and over how many connections."""
    asked: list[bytes] = []
    left, opened = list(answers), [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened[0] += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                asked.append(head + await reader.readexactly(4))
                answer = left.pop(0)
                if not answer:
                    break
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    async def play() -> list[object]:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        found: list[object] = []
        async with server, callers(f"http://127.0.0.1:{port}", ["secret"]) as [caller]:
            for _ in answers:
                try:
                    found.append(await caller.sync(b"body"))
                except CallFailed as failed:
                    found.append(failed)
        return found

    return asyncio.run(play()), asked, opened[0]


def test_calls_share_a_connection():
    found, asked, opened = played(OK, OK, OK)
    assert (found, opened) == ([b"{}"] * 3, 1)
    head = asked[0].decode()
    assert head.startswith("POST /api/agent/v1/sync HTTP/1.1\r\n") and head.endswith("\r\n\r\nbody")
    assert "\r\nAuthorization: Bearer secret\r\n" in head and "\r\nContent-Length: 4\r\n" in head


def test_a_connection_that_ends_is_no_answer_and_the_next_call_has_another():
    found, _, opened = played(OK, b"", OK)
    assert found[0] == found[2] == b"{}" and opened == 2
    assert isinstance(found[1], CallFailed)


@pytest.mark.parametrize(
    "answer", [OK.replace(b"200 OK", b"503 Busy"), b"HTTP/1.1 200 OK\r\n\r\n", b"odd\r\n\r\n"]
)
def test_what_is_no_answer_to_the_call_is_told(answer):
    found, _, _ = played(answer, OK)
    assert isinstance(found[0], CallFailed) and found[1] == b"{}"
