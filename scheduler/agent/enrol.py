"""A node's first words: a single-use token buys its identity."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from scheduler.agent.client import Client
from scheduler.agent.config import ConfigProblem, NodeIdentity, write_identity
from scheduler.agent.gpus import Gpus
from scheduler.agent.node import host
from scheduler.agent.runtime import processes
from scheduler.wire.messages import AGENT_VERSION, PROTOCOL, EnrolRequest

TOKEN_VARIABLE = "TRAINYARD_ENROL_TOKEN"  # noqa: S105 - the name of a variable
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


def checked_name(name: str) -> str:
    """A node's name, or this host's; raises ConfigProblem when it cannot be one."""
    name = name or socket.gethostname().lower()
    if not _NAME.fullmatch(name):
        raise ConfigProblem(
            f"--name: {name!r} is no node name; use up to 63 lower-case letters, digits, dots "
            "and dashes, beginning and ending with a letter or digit"
        )
    return name


def read_token(token: str, token_file: Path | None) -> str:
    """The enrolment token from the option, a file or the environment, in this order."""
    if not token and token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigProblem(f"--token-file: {error}") from None
    token = (token or os.environ.get(TOKEN_VARIABLE, "")).strip()
    if not token:
        raise ConfigProblem(
            f"give the enrolment token with --token, --token-file or {TOKEN_VARIABLE}; an "
            "operator makes one on the portal's page Nodes"
        )
    return token


def enrol(state: Path, wish: NodeIdentity, token: str, gpus: Gpus) -> NodeIdentity:
    """Introduce this node to `wish.server` and store who it is in `state`.

    `wish` carries name, simulation and overrides; its id, pool and token come from the server.
    Raises Refused when the token or the name is not accepted, ServerAway when it cannot be
    reached.
    """
    client = Client(wish.server)
    request = EnrolRequest(
        token=token,
        name=wish.name,
        protocol=PROTOCOL,
        agent_version=AGENT_VERSION,
        boot_id=processes.boot_id(),
        host=host.read_host(
            state,
            wish.server,
            cpus=wish.cpus,
            memory_mib=wish.memory_mib,
            address=wish.address,
            driver=gpus.driver,
        ),
        devices=gpus.inventory(),
    )
    try:
        reply = client.enrol(request)
    finally:
        client.close()
    identity = NodeIdentity(
        server=wish.server.rstrip("/"),
        node_id=reply.node_id,
        name=reply.name,
        pool=reply.pool,
        node_token=reply.node_token,
        simulated_gpus=wish.simulated_gpus,
        simulated_model=wish.simulated_model,
        cpus=wish.cpus,
        memory_mib=wish.memory_mib,
        address=wish.address,
    )
    write_identity(state, identity)
    return identity
