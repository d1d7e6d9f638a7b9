"""A session's whole life through the real doors: tunnel, ticket, shell, a program's own page."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
import time
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

PAGE = r"""
import hashlib, os, socket, struct
from http.server import BaseHTTPRequestHandler, HTTPServer
from base64 import b64encode

class Server(HTTPServer):
    address_family = socket.AF_UNIX
    def server_bind(self):
        self.socket.bind(os.environ["TRAINYARD_SESSION_SOCKET"])
        self.server_name, self.server_port = "app", 0

class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def address_string(self):
        return "portal"
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            return self.shout()
        said = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
        self.answer(f"{self.path}\n{said}".encode())
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(hashlib.sha256(body).hexdigest().encode() + b" " * 300_000)
    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "mine=1; Path=/; Domain=example.org")
        self.send_header("Set-Cookie", "sessionid=stolen; Path=/")
        self.send_header("Service-Worker-Allowed", "/")
        self.end_headers()
        self.wfile.write(body)
    def shout(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        digest = hashlib.sha1(key.encode()).digest()
        self.send_header("Sec-WebSocket-Accept", b64encode(digest).decode())
        self.end_headers()
        head = self.rfile.read(6)
        masked = self.rfile.read(head[1] & 127)
        text = bytes(b ^ head[2 + n % 4] for n, b in enumerate(masked)).upper()
        self.wfile.write(bytes([0x81, len(text)]) + text)
        self.close_connection = True

Server(None, App).serve_forever()
"""


def start(stack, session, **fields):
    job = stack.submit(name="talk", session=session, gpus_per_node=0, **fields)
    stack.wait_for(job["id"], "running")
    return job["id"]


def come_in(stack, number, username="alice"):
    """The ticket's address, exchanged by whom it was given to; a client that holds the cookie."""
    with stack.api(username) as api:
        reply = api.post(f"/sessions/{number}/ticket/")
        assert reply.status_code == 201, reply.text
    place = urlsplit(reply.json()["url"])
    # Nobody else can be led into it by the link, be they signed in or not.
    with (
        contextlib.closing(stack.browser("bob")) as other,
        httpx.Client(base_url=stack.address) as nobody,
    ):
        led = [one.get(f"{place.path}?{place.query}").status_code for one in (other, nobody)]
    assert led == [403, 403]
    browser = stack.browser(username)
    browser.follow_redirects = False
    entered = browser.get(f"{place.path}?{place.query}")
    assert (entered.status_code, entered.headers["location"]) == (303, f"/s/{number}/")
    cookie = entered.headers["set-cookie"]
    assert f"Path=/s/{number}/" in cookie and "HttpOnly" in cookie
    again = browser.get(f"{place.path}?{place.query}")
    assert again.status_code == 403  # one use
    alone = {"Cookie": f"trainyard_session={browser.cookies['trainyard_session']}"}
    assert httpx.get(f"{stack.address}/s/{number}/", headers=alone).status_code == 303
    return browser


def socket_of(stack, browser, path, **more):
    origin = more.pop("origin", stack.address)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    address = stack.address.replace("http", "ws", 1) + path
    return connect(
        address, origin=origin, additional_headers={"Cookie": cookies}, proxy=None, **more
    )


def until(what, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while not (found := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
    return found


async def hear(shell, word):
    heard = b""
    async with asyncio.timeout(20):
        while word not in heard:
            heard += await shell.recv()
    return heard


async def test_a_shell_is_typed_into_left_found_again_and_stopped_when_idle(make_stack):
    stack = make_stack()
    number = await asyncio.to_thread(start, stack, {"app": "shell", "idle_stop": "10s"})
    await asyncio.to_thread(try_without_key, stack, number)
    browser = await asyncio.to_thread(come_in, stack, number)
    assert "Session" in (await asyncio.to_thread(browser.get, f"/s/{number}/")).text
    place = f"/s/{number}/terminal"
    with pytest.raises(InvalidStatus):
        async with socket_of(stack, browser, place, origin="https://evil.example"):
            pass
    async with await opened(stack, browser, place) as shell:
        await shell.send(json.dumps([100, 30]))
        await shell.send(b"stty size; echo $((6*7))-$TRAINYARD_JOB_ID\n")
        heard = await hear(shell, f"42-{number}".encode())
        assert b"30 100" in heard
        assert b"I have no name" not in heard, "whoever runs jobs needs no name on the node"
    # Who comes back sees what was there; a frame that no page sends ends the socket alone.
    async with socket_of(stack, browser, place) as shell:
        await hear(shell, f"42-{number}".encode())
        await shell.send("{")
        with pytest.raises(ConnectionClosed) as closed:
            await hear(shell, b"never")
        assert closed.value.rcvd.code == 4400
    done = await asyncio.to_thread(stack.wait_for, number, timeout_s=120)
    assert (done["state"], done["end"]["reason"]) == ("succeeded", "session_idle")
    assert "without anything done" in done["end"]["sentence"]
    assert (await asyncio.to_thread(browser.get, f"/s/{number}/")).status_code == 303


async def opened(stack, browser, place):
    """The socket, once the node's tunnel is there."""
    for _ in range(100):
        socket = await socket_of(stack, browser, place)
        with contextlib.suppress(TimeoutError, ConnectionClosed):
            async with asyncio.timeout(0.5):
                await socket.wait_closed()
                continue
        return socket
    raise AssertionError("no tunnel")


def try_without_key(stack, number):
    assert httpx.get(f"{stack.address}/s/{number}/").headers["location"] == f"/sessions/{number}/"
    assert httpx.get(f"{stack.address}/s/{number}/api").status_code == 403
    with stack.api("bob") as api:
        assert api.post(f"/sessions/{number}/ticket/").status_code == 403
    with stack.api("carol") as api:
        assert api.get(f"/sessions/{number}/").status_code == 404


async def test_a_program_is_reached_without_the_portals_cookies(stack):
    command = [sys.executable, "-c", PAGE]
    number = await asyncio.to_thread(start, stack, "command", command=command)
    browser = await asyncio.to_thread(come_in, stack, number)
    try:
        browser.cookies.set("theirs", "2")
        page = await asyncio.to_thread(answer_of, browser, f"/s/{number}/a%20b?c=d")
        assert page.text.startswith(f"/s/{number}/a%20b?c=d\n")
        assert "theirs=2" in page.text
        assert not any(f"{name}=" in page.text for name in ("sessionid", "trainyard_session"))
        kept = page.headers.get_list("set-cookie")
        assert [one.replace(" ", "") for one in kept] == [f"mine=1;Path=/s/{number}/"]
        assert "service-worker-allowed" not in page.headers
        big = await asyncio.to_thread(browser.post, f"/s/{number}/up", content=bytes(700_000))
        assert big.text.strip() == hashlib.sha256(bytes(700_000)).hexdigest()
        async with socket_of(stack, browser, f"/s/{number}/ws") as shout:
            await shout.send("quiet")
            assert await shout.recv() == "QUIET"
    finally:
        with stack.api() as api:
            api.post(f"/jobs/{number}/cancel/")


def answer_of(browser, path):
    return until(lambda: (r := browser.get(path)).status_code == 200 and r)
