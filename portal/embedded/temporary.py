"""A stack for one purpose: everything real, in a folder that is gone afterwards."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from portal.embedded.places import Places, StackProblem, free_port
from portal.embedded.postgres import throw_away
from portal.embedded.programs import LocalNode
from portal.embedded.stack import Stack, StackOptions

# There one program calls for everybody: limits are far away, but calls are counted as always.
FAST_CALLERS: Mapping[str, str] = MappingProxyType(
    {
        f"TRAINYARD_{calls}": "1000000"
        for calls in (
            *("SIGN_INS_PER_MINUTE", "API_PER_MINUTE", "SUBMITS_PER_MINUTE"),
            *("SEARCHES_PER_MINUTE", "EXPORTS_PER_HOUR", "SOCKETS_PER_MINUTE"),
            "INVITATIONS_PER_HOUR",
        )
    }
)
# Programs that webhooks tell may be on this machine, at any port.
OWN_RECEIVERS: Mapping[str, str] = MappingProxyType(
    {
        "TRAINYARD_WEBHOOK_NETWORKS": "127.0.0.0/8",
        "TRAINYARD_WEBHOOK_PORTS": "any",
        "TRAINYARD_WEBHOOKS_IN_THE_CLEAR": "true",
        "TRAINYARD_CHAT_HOSTS": "127.0.0.1,hooks.slack.com",
    }
)


@contextlib.contextmanager
def temporary_stack(
    *,
    tell: Callable[[str], None],
    nodes: tuple[LocalNode, ...] = (LocalNode("local"),),
    runs_agents: bool = True,
    database: str = "sqlite",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Stack]:
    """A stack with the demonstration's people in a folder that is removed afterwards.

    The folder is above `stack.places.state`; jobs may pass through it. `database`: sqlite, or
    postgres, a cluster beside the stack whose commits survive a crash of its processes.
    `environment`: settings of this stack alone.
    """
    with throw_away(database, keeps_commits=True) as url:
        yield from _temporary(tell, nodes, runs_agents, {**environment, "DATABASE_URL": url})


def _temporary(
    tell: Callable[[str], None],
    nodes: tuple[LocalNode, ...],
    runs_agents: bool,
    environment: Mapping[str, str],
) -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="trainyard-"))
    # Jobs run under user ids of their own and must be able to pass through.
    folder.chmod(0o711)
    stack = Stack(
        Places(folder / "state", folder / "run"),
        StackOptions(
            port=free_port() or 0,
            nodes=nodes,
            environment={**FAST_CALLERS, **environment, "REDIS_URL": ""},
            with_demo=True,
            api_tokens_for=("admin", "alice"),
            runs_agents=runs_agents,
        ),
        tell=tell,
    )
    try:
        with stack:
            yield stack
    except StackProblem as problem:
        # The folder goes now, so what its logs say must be said here.
        raise StackProblem(f"{problem}\n{_last_words(folder / 'state' / 'logs')}") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _last_words(logs: Path) -> str:
    kept = []
    for path in sorted(logs.glob("*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        kept.append("\n".join([f"--- {path.name}", *lines]))
    return "\n".join(kept)
