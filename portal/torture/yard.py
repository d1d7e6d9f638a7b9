"""The installation under torture: the product's own stack, with a second scheduler and proxies."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from portal.embedded.places import Places, StackProblem
from portal.embedded.postgres import Cluster
from portal.embedded.programs import BROKER, SCHEDULER, LocalNode, Program
from portal.embedded.stack import Stack, StackOptions
from portal.torture.program import GPUS_PER_NODE
from portal.torture.proxy import Proxies, Proxy
from scheduler.agent.config import read_identity, write_identity
from scheduler.failpoints import VARIABLE

SECOND = f"{SCHEDULER}-2"
_UIDS, _FIRST_UID = 200, 30_000
_TMPFS_MIB = 48
_PATIENCE = 3


@dataclass(frozen=True, slots=True)
class Timers:
    """The product's usual timers in seconds, divided; none below what whole seconds allow."""

    divide: int

    def of(self, usual_s: int, least_s: int) -> int:
        return max(least_s, round(usual_s / self.divide))

    @property
    def lease_s(self) -> int:
        return self.of(45, 3)

    @property
    def grace_s(self) -> int:
        return self.of(900, 10)

    @property
    def slack_s(self) -> int:
        return self.of(60, 3)

    @property
    def lost_after_s(self) -> float:
        """As `scheduler/conf.py` reckons it."""
        return self.grace_s * 1.01 + self.lease_s + self.slack_s

    def environment(self) -> dict[str, str]:
        """For the servers."""
        return {
            "TRAINYARD_NODE_LEASE_S": str(self.lease_s),
            "TRAINYARD_DISCONNECT_GRACE_S": str(self.grace_s),
            "TRAINYARD_LOST_SLACK_S": str(self.slack_s),
            "TRAINYARD_START_DEADLINE_S": str(self.of(60, 4)),
            "TRAINYARD_LOG_DRAIN_S": str(self.of(60, 4)),
        }

    def arguments(self) -> tuple[str, ...]:
        """For the agents."""
        shown = {"hold": 2, "sample": 1, "heartbeat": 0.8, "retry-cap": 1}
        words = [f"--{name}-s={figure}" for name, figure in shown.items()]
        return (*words, f"--disconnect-grace-s={self.grace_s}", "--min-free-mib=8")


class Yard(Stack):
    """`start` brings all of it up. Programs die and come back under supervisord, as they would.

    `plant` names a bug that every program carries from its start.
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
        plant: str = "",
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.cluster = cluster
        self.timers = timers
        self.plant = plant
        self.points = places.state.parent / "points"
        self.proxies = proxies
        self.proxy_of: dict[str, Proxy] = {}
        self.has_small_disk = False
        options = StackOptions(
            port=port,
            nodes=tuple(_node(number, timers) for number in range(1, agents + 1)),
            environment=self._settings(cluster, timers),
            with_demo=True,
            api_tokens_for=("admin", "alice", "carol"),
        )
        super().__init__(places, options, tell)

    def _settings(self, cluster: Cluster, timers: Timers) -> Mapping[str, str]:
        url = cluster.create_database(f"torture_{secrets.token_hex(4)}")
        self.database = url
        points = {VARIABLE: str(self.points)}
        return {"DATABASE_URL": url, "REDIS_URL": "", **points, **timers.environment()}

    @property
    def nodes(self) -> list[str]:
        """Names of all nodes."""
        return [node.name for node in self.options.nodes]

    @property
    def small_node(self) -> str:
        """The node whose disk may be filled; empty where nothing may be mounted."""
        return self.nodes[-1] if self.has_small_disk else ""

    def start(self) -> None:
        """As a stack; fail-points have a folder for their orders."""
        self.points.mkdir(exist_ok=True)
        self.points.chmod(0o777)
        super().start()

    def stop(self) -> None:
        """Stop everything; the small disk goes as well."""
        super().stop()
        if self.has_small_disk:
            place = str(self.places.node(self.nodes[-1]))
            subprocess.run(["umount", "-l", place], capture_output=True, check=False)
            self.has_small_disk = False

    def new_boot(self, node: str) -> None:
        """From its agent's next start on, this node has been started anew."""
        path = self.places.node(node) / "boot-id"
        fresh = path.with_suffix(".new")
        fresh.write_text(str(uuid.uuid4()), encoding="ascii")
        fresh.rename(path)

    def _programs(self, has_own_broker: bool) -> list[Program]:
        found = []
        for program in super()._programs(has_own_broker):
            found.append(self._carrying(program))
            if program.name == SCHEDULER:
                words = [word.replace("scheduler@", "scheduler-2@") for word in program.command]
                found.append(self._carrying(replace(program, name=SECOND, command=tuple(words))))
        return found

    def _carrying(self, program: Program) -> Program:
        """The same program with its planted bug; agents may also be told of another boot."""
        node = program.name.removeprefix("node-")
        boot = str(self.places.node(node) / "boot-id") if node in self.nodes else "-"
        if program.name == BROKER or (boot == "-" and not self.plant):
            return program
        python, *words = program.command
        under = ("-m", "portal.torture.under", self.plant or "-", boot)
        return replace(program, command=(python, *under, *words))

    def _wait_ready(self) -> None:
        self.supervisor.start_program(SECOND)
        for _ in range(_PATIENCE):
            # On a machine that does much else, two schedulers take minutes to come up.
            with contextlib.suppress(StackProblem):
                super()._wait_ready()
                return
            super().check()
        super()._wait_ready()

    def _enrol(self, node: LocalNode, token: str) -> None:
        super()._enrol(node, token)
        proxy = self.proxy_of.get(node.name)
        if proxy is None:
            proxy = self.proxy_of[node.name] = self.proxies.open(self.address)
        place = self.places.node(node.name)
        identity = replace(read_identity(place), server=proxy.address)
        if node.name == self.nodes[-1] and not self.has_small_disk:
            self.has_small_disk = _mount(place)
        if not (place / "boot-id").exists():
            self.new_boot(node.name)
        write_identity(place, identity)

    def pid_of(self, program: str) -> int:
        """Process id of a program, 0 while it is down."""
        try:
            return self.supervisor.pid_of(program)
        except OSError:
            return 0

    def node_program(self, node: str) -> str:
        """What supervisord calls a node's agent."""
        return next(each.program for each in self.options.nodes if each.name == node)


def _mount(place: Path) -> bool:
    """A small file system of its own in this folder; False where nothing may be mounted."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={_TMPFS_MIB}m,mode=711", "torture", str(place)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _node(number: int, timers: Timers) -> LocalNode:
    first = _FIRST_UID + number * _UIDS
    uids = f"--job-uids={first}-{first + _UIDS - 1}"
    ports = f"--ports={20_000 + number * 100}-{20_000 + number * 100 + 99}"
    return LocalNode(
        f"n{number}",
        GPUS_PER_NODE,
        cpus=64,
        memory_mib=65_536,
        run_arguments=(*timers.arguments(), uids, ports),
    )
