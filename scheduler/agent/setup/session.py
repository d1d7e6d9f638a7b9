"""What an interactive session starts, and where its program listens."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from scheduler.agent.setup.identities import give
from scheduler.agent.setup.problems import SetupProblem
from scheduler.wire.messages import Launch
from scheduler.wire.sessions import SOCKET_NAME

_MAX_SOCKET = 107


def session_environment(launch: Launch, root: Path) -> dict[str, str]:
    """Where the program listens and below which address people see it; nothing for other jobs.

    Raises SetupProblem where the folder's name leaves no room for the socket's.
    """
    if launch.session is None:
        return {}
    place = str(root / SOCKET_NAME)
    if len(os.fsencode(place)) > _MAX_SOCKET:
        raise SetupProblem(
            f"session: {place} is too long for a socket. Have the node's operator start the agent "
            "with a shorter --work folder."
        )
    return {
        "TRAINYARD_SESSION_SOCKET": place,
        "TRAINYARD_SESSION_PATH": launch.session.path,
    }


def session_command(launch: Launch, root: Path, uid: int | None) -> tuple[str, ...]:
    """The command of a session that the node starts; empty where the user gives it.

    `root` is the agent's yet: nobody else writes there.
    """
    if launch.session is None or launch.session.app == "command":
        return ()
    if launch.session.app == "shell":
        place = _program("terminal.py", root, uid)
        # -I: a folder of the user's must not stand in for the standard library.
        return ("python3", "-I", place, str(root), SOCKET_NAME)
    if launch.session.app == "vscode":
        return _vscode(root)
    if launch.session.app == "tensorboard":
        return ("python3", _program("board.py", root, uid), str(root / SOCKET_NAME))
    if launch.session.app == "jupyter":
        return _jupyter(launch.session.path, root)
    raise SetupProblem(
        f"session: this node's agent does not know the app {launch.session.app!r}. Update it."
    )


def _program(name: str, root: Path, uid: int | None) -> str:
    """A program of ours, as the job may read it."""
    place = root / name
    place.write_bytes(files("scheduler.agent.sessions").joinpath(name).read_bytes())
    place.chmod(0o400)
    give(place, uid)
    return str(place)


def _vscode(root: Path) -> tuple[str, ...]:
    """VS Code as code-server serves it; as notebooks, it needs no password of its own."""
    return (
        *("code-server", "--socket", str(root / SOCKET_NAME), "--socket-mode", "600"),
        *("--auth", "none", "--disable-telemetry", "--disable-update-check"),
        # Its own proxy would open ports of the node, which are other jobs', to the browser.
        *(
            "--disable-proxy",
            "--disable-workspace-trust",
            "--disable-getting-started-override",
            ".",
        ),
    )


def _jupyter(path: str, root: Path) -> tuple[str, ...]:
    """Jupyter Lab behind the tunnel, which has asked who is there: it needs no token of its own."""
    return (
        *("jupyter", "lab", "--no-browser", f"--ServerApp.base_url={path}"),
        f"--ServerApp.sock={root / SOCKET_NAME}",
        "--IdentityProvider.token=",
        # Its own guesses about hosts are for servers that listen on a network.
        "--ServerApp.allow_remote_access=True",
        "--ServerApp.terminado_settings=shell_command=['/bin/bash']",
        "--ServerApp.quit_button=False",
        # A node asks nobody outside: no news, no look for updates, no catalogue of extensions.
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
    )
