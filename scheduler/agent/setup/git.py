"""Run git as a job's user on what the job names, and leave nothing of it behind.

A repository's own settings name programs: to look for changes, to filter contents, to fetch what is
missing. They would run before the job's limits hold, so none of them does.
"""

from __future__ import annotations

import os
import resource
import selectors
import subprocess
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from scheduler.agent.runtime import killing, processes
from scheduler.agent.runtime.records import SandboxPlan
from scheduler.agent.runtime.space import sandbox
from scheduler.agent.setup.problems import SetupProblem, SetupStopped

# In a file, not on the command line: git does not hand those on to the program at the other
# end of a file:// URL. Job and repository may well belong to different users.
GIT_SETTINGS = """[core]
\thooksPath = /dev/null
\tfsmonitor = false
[safe]
\tdirectory = *
"""
# On the command line as well, where they outrank the repository's own. Empty: git of before 2.36
# takes `false` for the name of a program.
_OUTRANKING = ("core.fsmonitor=", "core.hooksPath=/dev/null", "core.attributesFile=/dev/null")
_SHOWN_ERROR = 600
_KEPT_ERROR = 4096
_MOST = 1024 * 1024
_POLL_S = 0.1
_LAST_WORDS_S = 1.0
_DYING_S = 5.0
_MOST_FILTERS = 100
_MOST_PROCESSES = 1024
_OOM_SCORE_ADJUST = "500"


@dataclass(frozen=True, slots=True)
class GitRules:
    """What git may do here. `uid` None: as the agent's own user. `settings`: its only file.

    With `fetches` unset it asks nobody for anything, not even for what a repository lacks.
    `sandbox`: what it sees where jobs are in one; it writes into the folder that it fetches to.
    """

    uid: int | None
    home: Path
    settings: Path
    allow_file: bool
    timeout_s: float
    is_stopped: Callable[[], bool]
    fetches: bool = True
    sandbox: SandboxPlan | None = None


def run_git(
    arguments: Iterable[str],
    folder: Path,
    rules: GitRules,
    problem: str,
    *,
    settings: Iterable[str] = (),
    most: int = _MOST,
) -> bytes:
    """What git printed, deaf to hooks, prompts and outer configuration; at most `most` bytes.

    Raises SetupProblem, or SetupStopped when `rules.is_stopped` turns true meanwhile.
    """
    # The outer clock holds even when the agent is gone. It is what says that there is no git.
    clock = ["timeout", "--kill-after=5", f"{rules.timeout_s + 5:.0f}"]
    given = [word for one in (*_OUTRANKING, *settings) for word in ("-c", one)]
    try:
        process = subprocess.Popen(
            [*_box(folder, rules), *clock, "git", "--no-pager", *given, *arguments],
            cwd=folder,
            env=_surroundings(rules),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            extra_groups=None if rules.uid is None else [],
            user=rules.uid,
            group=rules.uid,
        )
    except PermissionError as error:
        raise SetupProblem(
            f"code.folder: {error.filename} is closed to the job's user. Let other users enter it."
        ) from None
    try:
        _bound(process.pid, rules.uid)
        output, errors = _heard(process, rules, most)
    finally:
        _kill(process)
    if process.returncode == 127:
        raise SetupProblem("code.git_url: git is not installed on this node. Ask its operator.")
    if process.returncode != 0 and len(output) < most:
        said = errors.decode("utf-8", "replace").strip()[-_SHOWN_ERROR:]
        raise SetupProblem(
            f"code.git_url: git {problem}: {said or 'no reason given'}. "
            "Check the address and that this node may read it without a password."
        )
    return output


def _box(folder: Path, rules: GitRules) -> list[str]:
    """The sandbox's command line, with a network where git has to ask for something."""
    if rules.sandbox is None:
        return []
    own = (str(folder),) if rules.fetches else ()
    plan = replace(rules.sandbox, own=own, network=rules.fetches)
    return [*sandbox.arguments(plan, str(folder)), "--"]


def without_filters(folder: Path, rules: GitRules) -> tuple[str, ...]:
    """Settings that leave out every filter the repository defines; raises SetupProblem.

    Filters are named in files of the repository; what they run, in its settings.
    """
    listed = run_git(["config", "--list", "--name-only", "-z"], folder, rules, "")
    keys = [os.fsdecode(key) for key in listed.split(b"\0")]
    names = {key.rpartition(".")[0] for key in keys if key.startswith("filter.")}
    if len(listed) >= _MOST or len(names) > _MOST_FILTERS or any("=" in name for name in names):
        raise SetupProblem("code.folder: the repository's filters cannot be left out.")
    values = ("clean=", "smudge=", "process=", "required=false")
    return tuple(f"{name}.{value}" for name in sorted(names) for value in values)


def processes_of(rules: GitRules) -> Collection[int]:
    """Who runs as the job's user before git does: looks at what an earlier attempt left."""
    return () if rules.uid is None else processes.owned_by(rules.uid)


def end_rest(rules: GitRules, before: Collection[int]) -> None:
    """End what git left behind; raises OSError where that does not go."""
    left = killing.kill_remains(_marker(rules), rules.uid, (), spared=before)
    if left:
        shown = ", ".join(map(str, left[:8]))
        raise OSError(f"what git started could not be killed: process {shown}; check the node")


def _marker(rules: GitRules) -> str:
    return f"TRAINYARD_SETUP={rules.home}"


def _surroundings(rules: GitRules) -> dict[str, str]:
    protocols = "https:file" if rules.allow_file else "https"
    name, _, value = _marker(rules).partition("=")
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(rules.home),
        "LANG": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": protocols if rules.fetches else "none",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(rules.settings),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
        name: value,
    }


def _bound(pid: int, uid: int | None) -> None:
    """The agent's own place in the queue of who goes when memory runs out is not git's."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(_OOM_SCORE_ADJUST)
    if uid is not None:
        with suppress(OSError, ValueError):
            resource.prlimit(pid, resource.RLIMIT_NPROC, (_MOST_PROCESSES, _MOST_PROCESSES))


def _heard(process: subprocess.Popen[bytes], rules: GitRules, most: int) -> tuple[bytes, bytes]:
    """What it says until it ends: the first `most` bytes, and the last of its complaints.

    Who keeps a stream open after git's end is waited for a moment only.
    """
    give_up_at = time.monotonic() + rules.timeout_s
    ended_at: float | None = None
    output, errors = bytearray(), b""
    with selectors.DefaultSelector() as selector:
        for stream in _streams(process):
            selector.register(stream, selectors.EVENT_READ)
        while len(output) < most:
            ready = selector.select(_POLL_S) if selector.get_map() else []
            for key, _ in ready:
                piece = os.read(key.fd, 65_536)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    output += piece
                else:
                    errors = (errors + piece)[-_KEPT_ERROR:]
            now, is_open = time.monotonic(), bool(selector.get_map())
            if _has_ended(process, 0.0 if is_open else _POLL_S):
                ended_at = ended_at or now
                if not (is_open and ready) or now > ended_at + _LAST_WORDS_S:
                    break
            if rules.is_stopped():
                raise SetupStopped
            if now > give_up_at:
                raise SetupProblem(
                    f"code.git_url: git did not finish within {rules.timeout_s:.0f} s. Use a "
                    "smaller repository, or a folder that is already on the node."
                )
    return bytes(output[:most]), errors


def _streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdout is not None and process.stderr is not None
    return process.stdout, process.stderr


def _has_ended(process: subprocess.Popen[bytes], wait_s: float) -> bool:
    try:
        process.wait(wait_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Waits for its end, but not for ever: it may hang in a broken file system."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, 9)
        _has_ended(process, _DYING_S)
    for stream in _streams(process):
        stream.close()
