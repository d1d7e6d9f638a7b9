"""The installation under torture: the product's own stack, with a second scheduler and proxies."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from portal.embedded.places import Places, StackProblem
from portal.embedded.postgres import Cluster
from portal.embedded.programs import BROKER, SCHEDULER, LocalNode, Program
from portal.embedded.stack import Prepared, Stack, StackOptions
from portal.embedded.temporary import FAST_CALLERS, OWN_RECEIVERS
from portal.torture.program import GPUS_PER_NODE
from portal.torture.proxy import Proxies, Proxy
from portal.torture.under import CLOCK_BYTES
from portal.torture.yard.pools import deal, pools_in_order
from portal.torture.yard.timers import Timers
from scheduler.agent.config import read_identity, write_identity
from scheduler.failpoints import VARIABLE

SECOND = f"{SCHEDULER}-2"
_UIDS, _FIRST_UID = 200, 30_000
_TMPFS_MIB, _STORE_MIB, _WAL_MIB = 48, 256, 224
_PATIENCE = 3
# One file for all programs, and one more for each node's own.
_EVERYWHERE = "all"


class Yard(Stack):
    """`start` brings all of it up. Programs die and come back under supervisord, as they would.

    `pools`: so many share the nodes. `plant` is a bug that every program carries. `with_standby`: a
    second scheduler; `with_helpers`: what sends news and keeps house.
    """

    def __init__(
        self,
        places: Places,
        *,
        cluster: Cluster,
        proxies: Proxies,
        timers: Timers,
        agents: int,
        port: int,
        pools: int = 1,
        plant: str = "",
        with_standby: bool = True,
        with_helpers: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.cluster = cluster
        self.timers = timers
        self.pools = deal(agents, pools)
        self.plant = plant
        self.points = places.state.parent / "points"
        self.clocks = places.state.parent / "clocks"
        self.steps: list[tuple[float, float]] = []
        self.proxies = proxies
        self.proxy_of: dict[str, Proxy] = {}
        # Of one node; and of the servers, where logs and files are, and the database's own log.
        self.has_small_disk, self.small_disks = False, dict[str, Path]()
        # Nothing of it is looked at any more: it need not end in peace.
        self.is_given_up = False
        self.with_standby, self.with_helpers = with_standby, with_helpers
        options = StackOptions(
            port=port,
            nodes=tuple(
                _node(number, timers, pool)
                for number, pool in enumerate(pools_in_order(self.pools), start=1)
            ),
            environment=self._settings(cluster, timers),
            with_demo=True,
            api_tokens_for=("admin", "alice", "carol"),
        )
        super().__init__(places, options, tell)

    def _settings(self, cluster: Cluster, timers: Timers) -> Mapping[str, str]:
        url = cluster.create_database(f"torture_{secrets.token_hex(4)}")
        self.database = url
        points = {VARIABLE: str(self.points)}
        # A log that outgrows its cap is made soon.
        short = {"TRAINYARD_LOG_CAP_MIB": "1"}
        short |= {**FAST_CALLERS, **OWN_RECEIVERS, "DATABASE_URL": url, "REDIS_URL": ""}
        return {**short, **points, **timers.environment()}

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes."""
        return [node.name for node in self.options.nodes]

    @property
    def pool_of(self) -> dict[str, str]:
        """By node the pool that it is in."""
        return {node.name: node.pool for node in self.options.nodes}

    @property
    def small_node(self) -> str:
        """The node whose disk may be filled; empty where nothing may be mounted."""
        return self.nodes[-1] if self.has_small_disk else ""

    def start(self) -> None:
        """As a stack; fail-points have a folder for their orders."""
        self.points.mkdir(exist_ok=True)
        self.points.chmod(0o777)
        self.clocks.mkdir(exist_ok=True)
        for name in (_EVERYWHERE, *self.nodes):
            self.set_clock(name, 0.0)
        store = self.places.state / "files"
        store.mkdir(parents=True, exist_ok=True)
        if _mount(store, _STORE_MIB):
            self.small_disks["store"] = store
        wal = self.cluster.move_log(lambda place: _mount(place, _WAL_MIB))
        if wal is not None:
            self.small_disks["wal"] = wal
        super().start()

    def stop(self) -> None:
        """Stop everything; the small disk goes as well."""
        if self.is_given_up:
            self.supervisor.kill()
        super().stop()
        if self.has_small_disk:
            place = str(self.places.node(self.nodes[-1]))
            _unmount(place)
            self.has_small_disk = False
        while self.small_disks:
            _unmount(str(self.small_disks.popitem()[1]))

    def set_clock(self, node: str, ahead_s: float) -> None:
        """This node's clock is so much ahead of the others' from now on."""
        # In place, by one write: programs hold it open.
        file = os.open(self.clocks / node, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(file, str(ahead_s).ljust(CLOCK_BYTES).encode("ascii"), 0)
        finally:
            os.close(file)

    def put_clocks_forward(self, by_s: float) -> None:
        """All clocks at once, of servers and nodes: for good."""
        self.steps.append((time.time(), by_s))
        self.set_clock(_EVERYWHERE, self.ahead_s)

    @property
    def ahead_s(self) -> float:
        """How far the installation's clocks are ahead of the harness's."""
        return sum(by_s for _, by_s in self.steps)

    def new_boot(self, node: str) -> None:
        """From its agent's next start on, this node was started anew; a full disk has room too."""
        path = self.places.node(node) / "boot-id"
        path.touch()
        with path.open("r+", encoding="ascii") as file:
            file.write(str(uuid.uuid4()))

    def _programs(self, has_own_broker: bool) -> list[Program]:
        found = []
        for program in super()._programs(has_own_broker):
            found.append(self._carrying(program))
            if program.name == SCHEDULER and self.with_standby:
                words = [word.replace("scheduler@", "scheduler-2@") for word in program.command]
                found.append(self._carrying(replace(program, name=SECOND, command=tuple(words))))
        return found

    def _late(self) -> tuple[str, ...]:
        """What sends mails and keeps house shows few of the bugs, and takes its time to start."""
        return super()._late() if self.with_helpers else ()

    def _carrying(self, program: Program) -> Program:
        """The same program with its bug and its clock; agents are also told which boot it is."""
        if program.name == BROKER:
            return program
        node = program.name.removeprefix("node-")
        return replace(program, command=self.under(program.command, node=node, plant=self.plant))

    def under(
        self, command: tuple[str, ...], *, node: str = "", plant: str = ""
    ) -> tuple[str, ...]:
        """The command with the clock of this yard, and with a node's boot if it is one."""
        python, *words = command
        is_node = node in self.nodes
        boot = str(self.places.node(node) / "boot-id") if is_node else "-"
        names = (_EVERYWHERE, node) if is_node else (_EVERYWHERE,)
        clocks = ":".join(str(self.clocks / name) for name in names)
        carried = ("-m", "portal.torture.under", plant or "-", boot, clocks)
        return (python, *carried, *words)

    def wait_ready(self) -> None:
        """Until the portal says that it is."""
        super()._wait_ready()

    def _wait_ready(self) -> None:
        if self.with_standby:
            self.supervisor.start_program(SECOND)
        for _ in range(_PATIENCE):
            # On a machine that does much else, two schedulers take minutes to come up.
            with contextlib.suppress(StackProblem):
                super()._wait_ready()
                return
            super().check()
        super()._wait_ready()

    def _enrol(self, node: LocalNode, prepared: Prepared) -> None:
        super()._enrol(node, prepared)
        proxy = self.proxy_of.get(node.name)
        if proxy is None:
            proxy = self.proxy_of[node.name] = self.proxies.open(self.address)
        place = self.places.node(node.name)
        identity = replace(read_identity(place), server=proxy.address)
        if node.name == self.nodes[-1] and not self.has_small_disk:
            self.has_small_disk = _mount(place, _TMPFS_MIB)
        if not (place / "boot-id").exists():
            self.new_boot(node.name)
        write_identity(place, identity)

    def pause(self, seconds: float) -> None:
        """Wait, also when the run is over: until what was done is undone."""
        time.sleep(seconds)

    def pid_of(self, program: str) -> int:
        """Process id of a program, 0 while it is down."""
        try:
            return self.supervisor.pid_of(program)
        except OSError:
            return 0

    def node_program(self, node: str) -> str:
        """What supervisord calls a node's agent."""
        return next(each.program for each in self.options.nodes if each.name == node)


def _unmount(place: str) -> None:
    subprocess.run(["umount", "-l", place], capture_output=True, check=False)


def _mount(place: Path, mib: int) -> bool:
    """A small file system of its own in this folder; False where nothing may be mounted."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=711", "torture", str(place)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _node(number: int, timers: Timers, pool: str) -> LocalNode:
    first = _FIRST_UID + number * _UIDS
    uids = f"--job-uids={first}-{first + _UIDS - 1}"
    ports = f"--ports={20_000 + number * 100}-{20_000 + number * 100 + 99}"
    return LocalNode(
        f"n{number}",
        GPUS_PER_NODE,
        cpus=64,
        memory_mib=65_536,
        pool=pool,
        run_arguments=(*timers.arguments(), uids, ports),
    )
