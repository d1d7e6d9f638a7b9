"""A headless Chromium over its own DevTools protocol: a page opened, used and timed."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

from portal.embedded.places import StackProblem
from portal.embedded.programs import leashed

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_PATIENCE_S = 60.0
# Cable for the desk; for the phone what Chromium's own DevTools call slow 4G: 1.6 Mbit/s down and
# 0.75 up, nine tenths of it usable, each request 562 ms before its first byte.
SLOW = {
    "offline": False,
    "latency": 562.5,
    "downloadThroughput": 180_000,
    "uploadThroughput": 84_375,
}
# Paints, shifts and answers to input are collected from the first moment of a page on.
_WATCH = """
window.seen = {lcp: 0, cls: 0, inp: 0, most: 0, moved: ""};
new PerformanceObserver((l) => l.getEntries().forEach((e) => { seen.lcp = e.startTime; }))
  .observe({type: "largest-contentful-paint", buffered: true});
new PerformanceObserver((l) => l.getEntries().forEach((e) => {
  if (e.hadRecentInput) return;
  seen.cls += e.value;
  const node = e.sources[0]?.node;
  if (e.value <= seen.most) return;
  [seen.most, seen.moved] = [e.value, `${node?.nodeName}.${node?.className}`];
  })).observe({type: "layout-shift", buffered: true});
new PerformanceObserver((l) => l.getEntries().forEach((e) => {
  if (e.interactionId) seen.inp = Math.max(seen.inp, e.duration); }))
  .observe({type: "event", durationThreshold: 16, buffered: true});
"""
_READ = """JSON.stringify({...seen, nodes: document.querySelectorAll("*").length,
  ttfb: performance.getEntriesByType("navigation")[0].responseStart})"""


@dataclass
class Loaded:
    """What one page did: times in ms, bytes as they came over the wire."""

    lcp_ms: float = 0.0
    inp_ms: float = 0.0
    ttfb_ms: float = 0.0
    cls: float = 0.0
    moved: str = ""
    nodes: int = 0
    requests: int = 0
    kib: float = 0.0
    script_kib: float = 0.0
    complaints: list[str] = field(default_factory=list)


class Browser:
    """One tab; commands wait for their answer, events are kept until somebody reads them."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self._events: list[dict[str, Any]] = []
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.ask(f"{domain}.enable")
        self.ask("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to one command."""
        self._number += 1
        sent = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(sent))
        while True:
            told = json.loads(self._socket.recv(timeout=_PATIENCE_S))
            if told.get("id") == self._number:
                if "error" in told:
                    raise StackProblem(f"the browser refused {method}: {told['error']}")
                result: dict[str, Any] = told["result"]
                return result
            self._events.append(told)

    def sign_in(self, address: str, cookies: str) -> None:
        """With the cookies of somebody who has signed in."""
        for pair in cookies.split("; "):
            name, _, value = pair.partition("=")
            self.ask("Network.setCookie", url=address, name=name, value=value)

    def slow_down(self, *, is_slow: bool) -> None:
        """As a phone on a poor line, or as it is."""
        line = (
            SLOW
            if is_slow
            else {**SLOW, "latency": 0}
            | dict.fromkeys(("downloadThroughput", "uploadThroughput"), -1)
        )
        self.ask("Network.emulateNetworkConditions", **line)
        self.ask("Emulation.setCPUThrottlingRate", rate=4 if is_slow else 1)

    def open(self, address: str) -> Loaded:
        """The page, loaded with nothing kept from before, then clicked and typed at."""
        self.ask("Network.setCacheDisabled", cacheDisabled=True)
        self._events.clear()
        self.ask("Page.navigate", url=address)
        self._until("Page.loadEventFired")
        self._settle(0.4)
        self._use()
        self._settle(0.3)
        return self._told(json.loads(self._read()))

    def _read(self) -> str:
        return str(self.ask("Runtime.evaluate", expression=_READ)["result"]["value"])

    def stay(self, seconds: float) -> None:
        """Leave the page open and untouched; what it does is counted by `asked` and `sockets`."""
        self._settle(seconds)

    def asked(self) -> list[str]:
        """Paths of the requests since the page was opened, its own the first."""
        asked = self._named("Network.requestWillBeSent")
        return [urlsplit(each["params"]["request"]["url"]).path for each in asked]

    def sockets(self) -> int:
        """Those that are open now."""
        closed = self._named("Network.webSocketClosed")
        return len(self._named("Network.webSocketCreated")) - len(closed)

    def complaints(self) -> list[str]:
        """What the page wrote to its console that it should not have to."""
        return self._told(json.loads(self._read())).complaints

    def heap_mib(self) -> float:
        """What its scripts hold after their garbage went."""
        self.ask("HeapProfiler.collectGarbage")
        return float(self.ask("Runtime.getHeapUsage")["usedSize"]) / 2**20

    def nodes(self) -> int:
        """Elements of the page."""
        found = self.ask("Runtime.evaluate", expression='document.querySelectorAll("*").length')
        return int(found["result"]["value"])

    def _named(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self._events if event.get("method") == name]

    def _use(self) -> None:
        """A click beside everything, the tab key, and the sheet of shortcuts opened and closed."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=640, y=8, button="left", clickCount=1)
        for key, text in (("Tab", ""), ("?", "?"), ("Escape", "")):
            for kind in ("keyDown", "keyUp"):
                self.ask("Input.dispatchKeyEvent", type=kind, key=key, text=text)

    def _until(self, name: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not any(event.get("method") == name for event in self._events):
            left = deadline - time.monotonic()
            self._events.append(json.loads(self._socket.recv(timeout=max(0.1, left))))

    def _settle(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with contextlib.suppress(TimeoutError):
            while (left := deadline - time.monotonic()) > 0:
                self._events.append(json.loads(self._socket.recv(timeout=left)))

    def _told(self, read: dict[str, Any]) -> Loaded:
        loaded = Loaded(
            round(read["lcp"], 1), round(read["inp"], 1), round(read["ttfb"], 1),
            round(read["cls"], 4), read["moved"], int(read["nodes"]),
        )  # fmt: skip
        scripts = set()
        for event in self._events:
            name, told = event.get("method", ""), event.get("params", {})
            if name == "Network.responseReceived":
                loaded.requests += 1
                scripts |= {told["requestId"]} if told["type"] == "Script" else set()
            elif name == "Network.loadingFinished":
                kib = told["encodedDataLength"] / 1024
                loaded.kib = round(loaded.kib + kib, 1)
                if told["requestId"] in scripts:
                    loaded.script_kib = round(loaded.script_kib + kib, 1)
            elif name == "Runtime.exceptionThrown":
                loaded.complaints.append(told["exceptionDetails"]["text"])
            elif name == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                loaded.complaints.append(told["entry"]["text"])
        return loaded


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser of its own, gone afterwards."""
    program = next((found for found in map(shutil.which, _NAMES) if found), None)
    if program is None:
        raise StackProblem("Chromium is missing. Type 'sudo apt-get install chromium'.")
    folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
    words = (
        program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--window-size=1280,900", "--remote-debugging-port=0",
        f"--user-data-dir={folder}", "about:blank",
    )  # fmt: skip
    log = subprocess.DEVNULL
    with subprocess.Popen(leashed(words, os.getpid()), stdout=log, stderr=log) as process:
        try:
            with connect(_page_of(folder), max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait(10)
            shutil.rmtree(folder, ignore_errors=True)


def _page_of(folder: Path) -> str:
    """The address of its first tab, once it listens."""
    note, deadline = folder / "DevToolsActivePort", time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        lines = note.read_text().splitlines() if note.exists() else []
        if len(lines) == 2:
            with connect(f"ws://127.0.0.1:{lines[0]}{lines[1]}", max_size=None) as socket:
                socket.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                while "result" not in (told := json.loads(socket.recv(timeout=_PATIENCE_S))):
                    continue
            for target in told["result"]["targetInfos"]:
                if target["type"] == "page":
                    return f"ws://127.0.0.1:{lines[0]}/devtools/page/{target['targetId']}"
        time.sleep(0.1)
    raise StackProblem("Chromium did not start")
