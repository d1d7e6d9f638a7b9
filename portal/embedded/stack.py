"""Everything Trainyard needs, started on this machine and stopped again."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from portal.embedded import broker, programs
from portal.embedded.earlier import wait_for_earlier
from portal.embedded.places import ROOT, Places, StackProblem
from portal.embedded.programs import LocalNode
from portal.embedded.supervisor import Supervisor
from portal.embedded.tending import Tending
from scheduler.agent.config import ConfigProblem, read_identity, write_identity

READY_S = 180.0
# What `manage.py prepare --json` says.
Prepared = dict[str, Any]
_GOES_ON = "Everything else goes on."


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What to start. `port` 0: the last one, 8000, or any free one."""

    port: int = 0
    nodes: tuple[LocalNode, ...] = (LocalNode("local"),)
    settings: str = "portal.settings.embedded"
    environment: Mapping[str, str] = field(default_factory=dict)
    with_demo: bool = False
    api_tokens_for: tuple[str, ...] = ()
    reloads: bool = False
    # False: nodes are enrolled, and somebody else runs their agents, as on machines of their own.
    runs_agents: bool = True
    # False: a node that does not come up is told of, and everything else goes on.
    needs_nodes: bool = True


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who can sign in; the password is known only when it was made just now."""

    username: str
    password: str
    words: str


class Stack:
    """One embedded installation. `start` and `stop`, or a `with` block.

    `tell` receives a few words at every step, for people who wait.
    """

    def __init__(
        self, places: Places, options: StackOptions, tell: Callable[[str], None] = lambda _: None
    ) -> None:
        self.places = places
        self.options = options
        self.tell = tell
        self.address = ""
        self.supervisor = Supervisor(places)
        self.accounts: tuple[Account, ...] = ()
        self.api_tokens: dict[str, str] = {}
        self._lock: int | None = None
        self._given_up: set[str] = set()
        self._tending = Tending(self.supervisor, places, tell)

    def __enter__(self) -> Stack:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Bring everything up; returns when jobs can be submitted and run.

        1. Take the folder once an earlier start has let go of it, choose the address.
        2. supervisord, then the broker, unless REDIS_URL names another one.
        3. Meanwhile prepare the database: tables, first administrator, tokens.
        4. Web server and scheduler; wait until the portal says it is ready. Then what may be late:
           the other worker and the clock, which would share the processors with them.
        5. Enrol local nodes that the database does not know; start their agents.

        Raises AlreadyUp when another process serves the folder, StackProblem for everything else
        that a person must mend.
        """
        self.places.make()
        self._lock = self.places.lock()
        wait_for_earlier(self.places, self.tell)
        self._tending.begin()
        self.address = self.places.choose_address(self.options.port)
        told = self.environment()
        has_own_broker = not (told.get("REDIS_URL") or told.get("REDIS_URL_FILE"))
        self.supervisor.start(self._programs(has_own_broker), told)
        self.tell("preparing the database")
        prepare = self._begin_prepare()
        if has_own_broker:
            self._start_broker()
        prepared = self._end_prepare(prepare)
        self.accounts = tuple(Account(**each) for each in prepared["accounts"])
        self.api_tokens = prepared["api_tokens"]
        self.tell("starting the portal and the scheduler")
        for name in (programs.WEB, programs.SCHEDULER):
            self.supervisor.start_program(name)
        self._wait_ready()
        for name in self._late():
            self.supervisor.start_program(name)
        for node in self.options.nodes:
            self.tell(f"starting node {node.name}")
            try:
                self._enrol(node, prepared)
            except StackProblem as problem:
                if self.options.needs_nodes:
                    raise
                self.tell(f"{problem}\n  {_GOES_ON}")
                continue
            if self.options.runs_agents:
                self.supervisor.start_program(node.program)

    def stop(self) -> None:
        """Stop all programs in reverse order. Running jobs go on; the next start adopts them."""
        self.supervisor.stop()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def tend(self) -> None:
        """Of one that is up: start again what does not stay up, while everything else goes on.
        Raises StackProblem when supervisord died."""
        self._check_supervisord()
        self._tending.look()

    def _check_supervisord(self) -> None:
        if not self.supervisor.is_alive:
            raise StackProblem(f"supervisord has ended; see {self.places.logs}")

    def check(self) -> None:
        """Raises StackProblem when supervisord died or gave up on a program; where nodes are not
        needed, one of theirs is told of once.
        """
        self._check_supervisord()
        spared = () if self.options.needs_nodes else [node.program for node in self.options.nodes]
        for name in self.supervisor.fatal():
            words = f"{name} does not stay up; see {self.places.logs / name}.log"
            if name not in spared:
                raise StackProblem(words)
            if name not in self._given_up:
                self._given_up.add(name)
                self.tell(f"{words}\n  {_GOES_ON}")

    def _programs(self, has_own_broker: bool) -> list[programs.Program]:
        mine = programs.servers(self.address, reloads=self.options.reloads)
        if has_own_broker:
            mine.insert(0, programs.own_broker(self.places))
        return mine + [programs.agent(node, self.places) for node in self.options.nodes]

    def _late(self) -> tuple[str, ...]:
        """Names of the programs that nobody waits for at a start."""
        return programs.BACKGROUND, programs.BEAT

    def environment(self) -> dict[str, str]:
        """What the programs of this stack are told."""
        return programs.environment_with(
            {
                "TRAINYARD_PUBLIC_URL": self.address,
                **self.options.environment,
                "DJANGO_SETTINGS_MODULE": self.options.settings,
                "TRAINYARD_STATE_DIR": str(self.places.state),
                "TRAINYARD_RUN_DIR": str(self.places.run),
                "PYTHONUNBUFFERED": "1",
                # Six programs would compile the whole portal anew at every start.
                "PYTHONDONTWRITEBYTECODE": "",
            }
        )

    def _start_broker(self) -> None:
        socket = self.places.broker_socket
        # One that still answers is the last stack's, about to end with its killed launcher.
        if not broker.wait_until(socket, answering=False):
            raise StackProblem(f"another server answers at {socket}; stop it first")
        self.supervisor.start_program(programs.BROKER)
        if not broker.wait_until(socket, answering=True):
            raise StackProblem(f"the broker did not start; see {self.places.logs}/broker.log")

    def _begin_prepare(self) -> subprocess.Popen[str]:
        words = ["manage.py", "prepare", "--json", "--first-administrator"]
        words += ["--demo"] if self.options.with_demo else []
        for node in self.options.nodes:
            words += ["--node-token", f"{node.name}={node.pool}"]
        for username in self.options.api_tokens_for:
            words += ["--api-token", username]
        return subprocess.Popen(
            programs.leashed(programs.python(*words), os.getpid()),
            cwd=ROOT,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def _end_prepare(process: subprocess.Popen[str]) -> Prepared:
        output, errors = process.communicate()
        if process.returncode != 0:
            raise StackProblem(f"the database could not be prepared:\n{errors.strip()[-2000:]}")
        prepared: Prepared = json.loads(output.strip().splitlines()[-1])
        return prepared

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_S
        said = "no answer"
        while time.monotonic() < deadline:
            self.check()
            with suppress(httpx.HTTPError):
                answer = httpx.get(f"{self.address}/readyz", timeout=5, trust_env=False)
                if answer.status_code == 200 and answer.json()["status"] == "ready":
                    return
                said = f"{answer.status_code} {answer.text[:300]}"
            time.sleep(0.1)
        raise StackProblem(f"the portal is not ready after {READY_S:.0f} s: {said}")

    def _enrol(self, node: LocalNode, prepared: Prepared) -> None:
        if trouble := prepared["node_troubles"].get(node.name):
            raise StackProblem(f"node {node.name} is not started: {trouble}")
        if token := prepared["node_tokens"].get(node.name):
            self._introduce(node, token)
            return
        folder = self.places.node(node.name)
        try:
            known = read_identity(folder)
            if known.server != self.address:
                # The last port was taken by something else; the node follows.
                write_identity(folder, replace(known, server=self.address))
        except (ConfigProblem, OSError) as problem:
            raise StackProblem(f"node {node.name} is not started: {problem}") from None

    def _introduce(self, node: LocalNode, token: str) -> None:
        try:
            result = subprocess.run(
                programs.enrolment(node, self.places, self.address),
                cwd=ROOT,
                env={**self.environment(), "TRAINYARD_ENROL_TOKEN": token},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise StackProblem(f"node {node.name} could not enrol within two minutes") from None
        if result.returncode != 0:
            raise StackProblem(
                f"node {node.name} could not enrol:\n{result.stderr.strip()[-2000:]}"
            )
