"""The programs of a stack, in the order they start; they stop in the reverse."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from portal.embedded import broker
from portal.embedded.places import ROOT, Places

LEASH = Path(__file__).with_name("leash.py")
BROKER, WEB, SCHEDULER, BACKGROUND, BEAT = "broker", "web", "scheduler", "background", "beat"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node on this machine. `simulated_gpus` 0: its real ones. Cpus and MiB 0: the host's."""

    name: str
    simulated_gpus: int = 8
    simulated_model: str = ""
    cpus: int = 0
    memory_mib: int = 0
    pool: str = "default"
    run_arguments: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """What supervisord calls its agent."""
        return f"node-{self.name}"


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised program. `umask` 0o077 keeps what it writes to this user."""

    name: str
    command: tuple[str, ...]
    priority: int
    stop_wait_s: int = 10
    umask: int = 0o077
    stops_group: bool = False


def python(*words: str) -> tuple[str, ...]:
    """A command line of this very interpreter."""
    return (sys.executable, *words)


def leashed(command: tuple[str, ...], parent: int = 0) -> tuple[str, ...]:
    """The command as it dies with its parent."""
    return (sys.executable, "-I", "-S", str(LEASH), str(parent), *command)


def environment_with(own: Mapping[str, str]) -> dict[str, str]:
    """This process's environment, but `own` in it whatever was told otherwise: settings believe the
    file that NAME_FILE names before NAME itself."""
    hidden = {f"{name}_FILE" for name in own}
    rest = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**rest, **own}


def own_broker(places: Places) -> Program:
    """The embedded broker."""
    return Program(BROKER, tuple(broker.server_arguments(places)), priority=10)


def servers(address: str, *, reloads: bool) -> list[Program]:
    """Web server, the two workers and the clock."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    web = [
        *("-m", "uvicorn", "portal.asgi:application", "--host", host, "--port", port),
        *("--lifespan", "off", "--timeout-graceful-shutdown", "5", "--no-access-log"),
        *("--no-server-header", "--timeout-keep-alive", "30", "--log-level", "warning"),
        *("--http", "portal.serving.patience:PatientProtocol"),
        # A browser that is gone without a word is let go within a minute.
        *("--ws-ping-interval", "30", "--ws-ping-timeout", "20"),
    ]
    if reloads:
        web += ["--reload", *(f"--reload-dir={ROOT / room}" for room in _ROOMS)]
    celery = ("-m", "celery", "-A", "portal.celery")
    worker = (
        *celery,
        "worker",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
        "--loglevel",
        "INFO",
    )
    return [
        Program(WEB, python(*web), priority=20, stop_wait_s=12, stops_group=reloads),
        Program(
            SCHEDULER,
            python(*worker, "-Q", "scheduling", "-P", "threads", "-c", "4", "-n", "scheduler@%h"),
            priority=30,
            stop_wait_s=15,
        ),
        Program(
            BACKGROUND,
            python(*worker, "-Q", "default", "-P", "threads", "-c", "2", "-n", "background@%h"),
            priority=40,
            stop_wait_s=15,
        ),
        Program(BEAT, python(*celery, "beat", "--loglevel", "WARNING", "--pidfile="), priority=50),
    ]


_ROOMS = ("accounts", "scheduler", "portal", "templates")


def agent(node: LocalNode, places: Places) -> Program:
    """The agent of a local node. Stopping it leaves its attempts running, to be adopted.

    Jobs find this installation's Python first on their PATH, so the samples find their libraries.
    """
    run = ("-m", "scheduler.agent", "run", "--state", str(places.node(node.name)), "--own-python")
    command = python(*run, *node.run_arguments)
    return Program(node.program, command, priority=60, umask=0o022)


def enrolment(node: LocalNode, places: Places, server: str) -> tuple[str, ...]:
    """The command that introduces a local node; its token comes through the environment."""
    words = ["-m", "scheduler.agent", "enrol", "--state", str(places.node(node.name))]
    words += ["--server", server, "--name", node.name, "--address", "127.0.0.1"]
    words += ["--simulated-gpus", str(node.simulated_gpus)]
    if node.simulated_model:
        words += ["--simulated-model", node.simulated_model]
    if node.cpus:
        words += ["--cpus", str(node.cpus)]
    if node.memory_mib:
        words += ["--memory-mib", str(node.memory_mib)]
    return python(*words)
