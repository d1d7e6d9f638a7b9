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
# Paints, shifts and answers to input are collected from the first moment of a page on. The first
# input is told of however short its answer was, so that none at all means that none was measured.
_WATCH = """
window.seen = {lcp: 0, cls: 0, inp: 0, inputs: 0, most: 0, moved: ""};
new PerformanceObserver((l) => l.getEntries().forEach((e) => { seen.lcp = e.startTime; }))
  .observe({type: "largest-contentful-paint", buffered: true});
new PerformanceObserver((l) => l.getEntries().forEach((e) => {
  if (e.hadRecentInput) return;
  seen.cls += e.value;
  const node = e.sources[0]?.node;
  if (e.value <= seen.most) return;
  [seen.most, seen.moved] = [e.value, `${node?.nodeName}.${node?.className}`];
  })).observe({type: "layout-shift", buffered: true});
const answered = new PerformanceObserver((l) => l.getEntries().forEach((e) => {
  if (!e.interactionId) return;
  seen.inputs += 1;
  seen.inp = Math.max(seen.inp, e.duration); }));
answered.observe({type: "event", durationThreshold: 16, buffered: true});
answered.observe({type: "first-input", buffered: true});
"""
_READ = """JSON.stringify({...seen, nodes: document.querySelectorAll("*").length,
  ttfb: performance.getEntriesByType("navigation")[0].responseStart})"""
_MIDDLE = """(() => {
  const one = [...document.querySelectorAll(%s)].find((each) => each.checkVisibility());
  one.scrollIntoView({block: "center"});
  const box = one.getBoundingClientRect();
  return JSON.stringify([box.x + box.width / 2, box.y + box.height / 2]);
})()"""
# Of those on the screen: what lies below would have to be scrolled to.
_MENUS = """JSON.stringify([...document.querySelectorAll("details > summary")]
  .filter((each) => each.checkVisibility()).map((each) => each.getBoundingClientRect())
  .filter((box) => box.y >= 0 && box.bottom <= innerHeight).slice(0, 3)
  .map((box) => [box.x + box.width / 2, box.y + box.height / 2]))"""


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
    inputs: int = 0
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
        return str(self.value(_READ))

    def value(self, expression: str) -> Any:
        """What it is on the page."""
        return self.ask("Runtime.evaluate", expression=expression)["result"].get("value")

    def path(self) -> str:
        """Of the address that is open."""
        return str(self.value("location.pathname"))

    def click(self, selector: str) -> None:
        """Press the mouse in the middle of the first of these that is seen."""
        x, y = json.loads(self.value(_MIDDLE % json.dumps(selector)))
        self._events.clear()
        self._press(x, y)

    def until(self, expression: str) -> None:
        """Wait until this holds on the page; a page that is being left has no answer."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self.value(expression):
            if time.monotonic() > deadline:
                raise StackProblem(f"the page never had {expression}")
            self._settle(0.02)

    def until_loaded(self) -> None:
        """Wait for the next page."""
        self._until("Page.loadEventFired")

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
        """Presses beside everything and on each menu, the tab key, the sheet of shortcuts."""
        self._press(640, 8)
        for key, code, text in (("Tab", 9, ""), ("?", 191, "?"), ("Escape", 27, "")):
            self._send(key, code, text)
        for place in json.loads(self.value(_MENUS)):
            for _ in ("open", "shut"):
                self._press(*place)
                self._settle(0.1)

    def key(self, letter: str) -> None:
        """Press and let go a small letter."""
        self._send(letter, ord(letter.upper()), letter)

    def _send(self, key: str, code: int, text: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code
            )

    def _press(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

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
            round(read["cls"], 4), read["moved"], int(read["nodes"]), inputs=read["inputs"],
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
