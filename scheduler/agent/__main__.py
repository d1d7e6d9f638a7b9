"""Entry of the agent: `python -m scheduler.agent enrol|run|preflight`; see README.md."""

from __future__ import annotations

import argparse
import fcntl
import logging
import os
import signal
import sys
from enum import IntEnum
from pathlib import Path

from scheduler.agent.arguments import build_parser, options_of, wish_of
from scheduler.agent.client import Client, Refused, ServerAway
from scheduler.agent.config import (
    ConfigProblem,
    NodeIdentity,
    make_state_folder,
    read_identity,
    with_libraries,
)
from scheduler.agent.daemon import Daemon
from scheduler.agent.enrol import enrol, read_token
from scheduler.agent.gpus import GpuProblem, open_gpus
from scheduler.agent.gpus.driver import library_folders
from scheduler.agent.node.isolation import settle_isolation
from scheduler.agent.node.preflight import inspect_node

logger = logging.getLogger("scheduler.agent")


class Exit(IntEnum):
    """Stable exit codes; `--help` and README.md list them."""

    DONE = 0
    FAILED = 1
    NOT_CONFIGURED = 3
    PREFLIGHT_FAILED = 4
    ENROL_REFUSED = 5
    SERVER_AWAY = 6
    IDENTITY_CONFLICT = 7
    PROTOCOL_UNSUPPORTED = 8
    ALREADY_RUNNING = 9


def main(argv: list[str] | None = None) -> int:
    """Parse, set up the agent's own log on standard error, carry out one command."""
    arguments = build_parser().parse_args(argv)
    level = logging.DEBUG if arguments.verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(message)s")
    try:
        return _COMMANDS[arguments.command](arguments)
    except ConfigProblem as problem:
        logger.error("%s", problem)
        return Exit.NOT_CONFIGURED
    # These may pass: who keeps the agent up starts it again.
    except GpuProblem as problem:
        logger.error("%s", problem)
        return Exit.FAILED
    except OSError as problem:
        remedy = "Check the folder and that this user may write there." if problem.filename else ""
        logger.error("%s. %s", problem, remedy)
        return Exit.FAILED


def _enrol(arguments: argparse.Namespace) -> int:
    wish = wish_of(arguments)
    token = read_token(arguments.token, arguments.token_file)
    state = arguments.state.absolute()
    if not arguments.skip_preflight and not _looks_well(state, wish):
        return Exit.PREFLIGHT_FAILED
    gpus = open_gpus(wish.name, wish.simulated_gpus, wish.simulated_model)
    try:
        identity = enrol(state, wish, token, gpus)
    except Refused as problem:
        logger.error("enrolment refused: %s", problem.refusal.detail or problem)
        return Exit.ENROL_REFUSED
    except ServerAway as problem:
        logger.error("%s. Check the address and that the portal is up.", problem)
        return Exit.SERVER_AWAY
    logger.info("enrolled as node %s in pool %s", identity.name, identity.pool or "(none)")
    return _run(arguments) if arguments.run else Exit.DONE


def _preflight(arguments: argparse.Namespace) -> int:
    is_well = _looks_well(arguments.state.absolute(), wish_of(arguments))
    return Exit.DONE if is_well else Exit.PREFLIGHT_FAILED


def _looks_well(state: Path, wish: NodeIdentity) -> bool:
    findings = list(inspect_node(state, wish))
    for finding in findings:
        print(finding.line(), file=sys.stderr)
    return all(finding.is_ok is not False for finding in findings)


def _run(arguments: argparse.Namespace) -> int:
    options = options_of(arguments)
    make_state_folder(options.state)
    identity = read_identity(options.state)
    lock = os.open(options.state / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        logger.error("another agent uses %s; stop it or choose another --state", options.state)
        return Exit.ALREADY_RUNNING
    faults = options.state / "simulated-faults.json"
    gpus = open_gpus(identity.name, identity.simulated_gpus, identity.simulated_model, faults)
    if not identity.simulated_gpus:
        options = with_libraries(options, library_folders())
    client = Client(identity.server, identity.node_token)
    keeping = settle_isolation(options)
    daemon = Daemon(identity, options, gpus, client, keeping)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: daemon.stop())
    logger.info(
        "node %s serves %s, jobs' folders in %s, isolation: %s",
        identity.name,
        identity.server,
        options.work,
        keeping.level,
    )
    daemon.serve()
    if daemon.failure is not None:
        return Exit.FAILED
    if daemon.fatal is None:
        return Exit.DONE
    is_conflict = daemon.fatal.status == 409
    return Exit.IDENTITY_CONFLICT if is_conflict else Exit.PROTOCOL_UNSUPPORTED


_COMMANDS = {"enrol": _enrol, "run": _run, "preflight": _preflight}

if __name__ == "__main__":
    sys.exit(main())
