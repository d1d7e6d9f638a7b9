"""Peers that are gone without a word, against a real server; and how often ours asks."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import uvicorn

from portal.embedded.programs import servers
from portal.serving.patience import PatientProtocol
from portal.serving.proxied import Proxied

ROOT = Path(__file__).resolve().parents[2]
HANDSHAKE = (
    b"GET /ws/ HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def test_who_answers_no_ping_is_let_go():
    """The socket stays open for the kernel: nothing but the missing answer tells."""
    left = asyncio.Event()

    async def keep(scope, receive, send):
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        left.set()

    async def play():
        config = uvicorn.Config(
            Proxied(keep), host="127.0.0.1", port=0, lifespan="off", http=PatientProtocol,
            log_level="error", ws_ping_interval=0.3, ws_ping_timeout=0.3,
        )  # fmt: skip
        server = uvicorn.Server(config)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HANDSHAKE)
        assert b"101" in await reader.readline()
        assert not left.is_set()
        async with asyncio.timeout(20):
            await left.wait()
        writer.close()
        server.should_exit = True
        await serving

    asyncio.run(play())


def test_every_way_to_start_the_server_pings():
    unit = (ROOT / "deploy/systemd/trainyard-web.service").read_text()
    image = re.sub(r'[",\\\s]+', " ", (ROOT / "deploy/Dockerfile").read_text())
    ours = servers("http://127.0.0.1:1", reloads=False)
    [web] = [" ".join(one.command) for one in ours if "uvicorn" in one.command]
    for started in (unit, image, web):
        assert "--ws-ping-interval 30 --ws-ping-timeout 20" in started
