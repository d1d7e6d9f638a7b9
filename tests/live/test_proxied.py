"""Addresses behind a proxy, asked of a real server on a Unix socket and on a port."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
import uvicorn
from websockets.asyncio.client import connect, unix_connect

from portal.serving.patience import PatientProtocol
from portal.serving.proxied import Proxied

SAID = {"X-Forwarded-For": "203.0.113.66, 198.51.100.7", "X-Forwarded-Proto": "https"}


async def tell(scope, receive, send):
    """Answer with who called, and how."""
    if scope["type"] == "lifespan":
        return
    told = json.dumps({"client": scope["client"][0], "scheme": scope["scheme"]})
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": told})
        await send({"type": "websocket.close", "code": 1000})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": told.encode()})


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        pass


async def asked(work, **where):
    """Serve as production does, and hand over what `work` gives."""
    config = uvicorn.Config(
        Proxied(tell), lifespan="off", http=PatientProtocol, log_level="error", **where
    )
    server = _Server(config)
    running = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.01)
        return await work(server)
    finally:
        server.should_exit = True
        await running


def test_behind_a_unix_socket_the_proxy_says_who_calls(tmp_path):
    path = str(tmp_path / "web.sock")

    async def work(_server):
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path)) as client:
            plain = (await client.get("http://x/")).json()
            told = (await client.get("http://x/", headers=SAID)).json()
        async with unix_connect(path, "ws://x/ws/", additional_headers=SAID) as socket:
            return plain, told, json.loads(await socket.recv())

    plain, told, socket = asyncio.run(asked(work, uds=path))
    assert plain == {"client": "127.0.0.1", "scheme": "http"}
    # The nearest hop that is no proxy of ours: what a caller put before it is not believed.
    assert told == {"client": "198.51.100.7", "scheme": "https"}
    assert socket == {"client": "198.51.100.7", "scheme": "wss"}


@pytest.mark.parametrize("trusted", ["192.0.2.1", "127.0.0.1"])
def test_on_a_port_a_proxy_is_believed_that_is_trusted_alone(trusted):
    async def work(server):
        port = server.servers[0].sockets[0].getsockname()[1]
        async with httpx.AsyncClient() as client:
            told = (await client.get(f"http://127.0.0.1:{port}/", headers=SAID)).json()
        async with connect(f"ws://127.0.0.1:{port}/ws/", additional_headers=SAID) as socket:
            return told, json.loads(await socket.recv())

    told, socket = asyncio.run(asked(work, host="127.0.0.1", port=0, forwarded_allow_ips=trusted))
    is_believed = trusted == "127.0.0.1"
    who = "198.51.100.7" if is_believed else "127.0.0.1"
    assert told == {"client": who, "scheme": "https" if is_believed else "http"}
    assert socket == {"client": who, "scheme": "wss" if is_believed else "ws"}
