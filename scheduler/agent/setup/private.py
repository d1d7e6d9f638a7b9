"""What an attempt has in memory alone: its secrets, and what its local processes share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.agent.client import Refused, ServerAway
from scheduler.agent.runtime.space import memory
from scheduler.agent.setup.identities import give
from scheduler.agent.setup.problems import SetupProblem, SetupStopped
from scheduler.wire.messages import Assignment
from scheduler.wire.secrets import SecretsReply

_TRIES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
Fetch = Callable[[int], SecretsReply]


@dataclass(frozen=True, slots=True)
class Private:
    """Folders of one attempt; empty texts for what it does not have."""

    folder: str = ""
    secrets_dir: str = ""
    shared_memory: str = ""


def make_private(
    assignment: Assignment,
    *,
    agent: str,
    uid: int | None,
    in_sandbox: bool,
    fetch: Fetch,
    is_stopped: Callable[[], bool],
) -> Private:
    """Fetch the secrets and lay out the folders, as far as the attempt needs any.

    Raises SetupProblem for a secret that is gone, SetupStopped, OSError for a server that is away.
    """
    names = assignment.launch.secrets
    shares = in_sandbox and assignment.launch.processes_per_node > 1
    if not names and not shares:
        return Private()
    place = memory.memory_folder(agent, assignment.fence, assignment.rank)
    values = _fetched(fetch, assignment.fence, is_stopped) if names else SecretsReply()
    memory.make_memory_folder(place)
    try:
        secrets_dir = memory.put_secrets(place, values.secrets, uid) if names else ""
        private = Private(str(place), secrets_dir, _shared(place, uid) if shares else "")
        give(place, uid)
        return private
    except OSError:
        memory.remove_memory_folder(str(place))
        raise


def _shared(place: Path, uid: int | None) -> str:
    folder = place / "shm"
    folder.mkdir(mode=0o700)
    give(folder, uid)
    return str(folder)


def _fetched(fetch: Fetch, fence: int, is_stopped: Callable[[], bool]) -> SecretsReply:
    """The values; a server that is away is asked again a few times."""
    for wait_s in (*_TRIES_S, None):
        try:
            return fetch(fence)
        except Refused as refused:
            raise SetupProblem(refused.refusal.detail or str(refused)) from None
        except ServerAway as problem:
            if wait_s is None:
                raise OSError(f"the secrets could not be fetched: {problem}") from None
        if is_stopped():
            raise SetupStopped
        time.sleep(wait_s or 0.0)
    raise OSError("the secrets could not be fetched")
