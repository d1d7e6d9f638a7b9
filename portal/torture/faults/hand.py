"""What faults need: the yard, the dice, and how to find processes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from portal.torture.people.receiving import Receiver
from portal.torture.proxy import Proxy, Weather
from portal.torture.yard import Yard
from scheduler.agent.runtime import processes, records
from scheduler.agent.runtime.records import SupervisorRecord, read_record

_POINT_PATIENCE_S = 12.0


@dataclass
class Hand:
    """Does harm and undoes it. Every method is safe from any thread."""

    yard: Yard
    dice: random.Random
    api_proxy: Proxy
    over: threading.Event = field(default_factory=threading.Event)
    stopped: set[int] = field(default_factory=set)
    bystanders: list[subprocess.Popen[bytes]] = field(default_factory=list)
    asleep: set[str] = field(default_factory=set)
    receivers: list[Receiver] = field(default_factory=list)
    _bed: threading.Lock = field(default_factory=threading.Lock)

    def node(self) -> str:
        """Any node that is not asleep."""
        return self.dice.choice(self._awake())

    def _awake(self) -> list[str]:
        return [node for node in self.yard.nodes if node not in self.asleep] or self.yard.nodes

    def node_at_work(self) -> str:
        """Any node that something runs on and that is not asleep; any at all where none is."""
        busy = sorted({node for node, _, _ in self.guarded()} - self.asleep)
        return self.dice.choice(busy) if busy else self.node()

    def kill(self, pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
        """Send a signal; False where nobody was there."""
        try:
            if pid > 0:
                os.kill(pid, number)
            return pid > 0
        except ProcessLookupError:
            return False

    def nap(self, seconds: float) -> None:
        """Wait, but not beyond the end of the run."""
        self.over.wait(seconds)

    @contextlib.contextmanager
    def stopping(self, pid: int) -> Iterator[bool]:
        """SIGSTOP, and SIGCONT whatever happens."""
        reached = self.kill(pid, signal.SIGSTOP)
        self.stopped.add(pid)
        try:
            yield reached
        finally:
            self.kill(pid, signal.SIGCONT)
            self.stopped.discard(pid)

    @contextlib.contextmanager
    def alone(self, node: str) -> Iterator[str]:
        """This node for one sleeper, "" where it has one or too few others are awake: half of all,
        and one of its pool if it is not alone there.

        Agent and supervisors that are stopped by two faults at once are a node without anybody.
        """
        with self._bed:
            mine = node if self._may_sleep(node) else ""
            self.asleep |= {mine} - {""}
        try:
            yield mine
        finally:
            with self._bed:
                self.asleep -= {mine}

    def _may_sleep(self, node: str) -> bool:
        if not node or node in self.asleep or 2 * (len(self.asleep) + 1) > len(self.yard.nodes):
            return False
        pools = self.yard.pool_of
        others = {one for one, pool in pools.items() if pool == pools[node]} - {node}
        return not others or bool(others - self.asleep)

    @contextlib.contextmanager
    def weather(self, *proxies: Proxy, weather: Weather) -> Iterator[None]:
        """Bad weather for these, good weather afterwards."""
        for proxy in proxies:
            proxy.weather = weather
        try:
            yield
        finally:
            for proxy in proxies:
                self.yard.proxies.clear(proxy)

    def proxy(self, node: str) -> Proxy:
        """A node's way to the portal."""
        return self.yard.proxy_of[node]

    def slots(self, node: str) -> list[Path]:
        """The spool folders of a node's attempts that have begun and not ended."""
        spool = self.yard.places.node(node) / "spool"
        found = []
        for path in spool.glob("*"):
            if (path / records.SUPERVISOR).exists() and not (path / records.EXIT).exists():
                found.append(path)
        return found

    def guarded(self) -> list[tuple[str, Path, SupervisorRecord]]:
        """Node, slot and supervisor of every attempt that runs."""
        found = []
        for node in self.yard.nodes:
            for slot in self.slots(node):
                guard = read_record(SupervisorRecord, slot / records.SUPERVISOR)
                if guard and processes.is_alive(guard.pid, guard.start_ticks):
                    found.append((node, slot, guard))
        return found

    def await_guarded(self) -> tuple[str, Path, SupervisorRecord] | None:
        """One of them, as soon as there is one."""
        for _ in range(40):
            found = self.guarded()
            if found or self.over.is_set():
                return self.dice.choice(found) if found else None
            self.nap(0.1)
        return None

    def order(self, point: str, word: str = "kill") -> bool:
        """Order a fail-point; whether somebody came by and obeyed it."""
        path, hit = self.yard.points / point, self.yard.points / f"{point}.hit"
        hit.unlink(missing_ok=True)
        fresh = self.yard.points / f".{point}.new"
        fresh.write_text(word, encoding="ascii")
        fresh.chmod(0o666)
        fresh.rename(path)
        deadline = time.monotonic() + _POINT_PATIENCE_S
        while not hit.exists():
            if time.monotonic() > deadline or self.over.is_set():
                path.unlink(missing_ok=True)
                return hit.exists()
            time.sleep(0.05)
        return True

    def heal(self) -> None:
        """Undo what may be left: everything runs, all ways are open, disks have room."""
        for pid in list(self.stopped):
            self.kill(pid, signal.SIGCONT)
        for proxy in (*self.yard.proxy_of.values(), self.api_proxy):
            self.yard.proxies.clear(proxy)
        for path in self.yard.points.iterdir():
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of harm. `number`: in the plan of faults. `inflict` returns whom it hit, "" nobody.

    `exclusive`: of faults of the same word so many happen `at_once`, no more.
    """

    name: str
    number: int
    inflict: Callable[[Hand], str]
    exclusive: str = ""
    at_once: int = 1
