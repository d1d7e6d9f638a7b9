"""Bring a job's code to the node and say exactly which code it is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from scheduler.agent.setup.identities import give
from scheduler.wire.messages import Code

# In a file, not on the command line: git does not hand those on to the program at the other
# end of a file:// URL. Job and repository may well belong to different users.
GIT_SETTINGS = """[core]
\thooksPath = /dev/null
\tfsmonitor = false
[safe]
\tdirectory = *
"""
MAX_PATCH_BYTES = 256 * 1024
_SHOWN_ERROR = 600
_POLL_S = 0.1
_LOOK_S = 20.0


class SetupProblem(Exception):
    """The job cannot be set up as asked; the text names the field and the remedy."""


class SetupStopped(Exception):
    """A stop order came before the program was started."""


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where the code lies. `commit` and `patch` are empty where nobody keeps versions."""

    folder: Path
    commit: str = ""
    patch: str = ""


@dataclass(frozen=True, slots=True)
class GitRules:
    """What git may do here. `uid` None: as the agent's own user. `settings`: its only file."""

    uid: int | None
    home: Path
    settings: Path
    allow_file: bool
    timeout_s: float
    is_stopped: Callable[[], bool]


def fetch_code(code: Code, target: Path, rules: GitRules) -> CodePlace | None:
    """The folder the program starts in, None when the code brings none.

    A git URL is cloned into `target`; a folder on the node is used where it is. Raises
    SetupProblem, or SetupStopped when `rules.is_stopped` turns true while git works.
    """
    if code.git_url:
        return _clone(code, target, rules)
    if code.folder:
        return _look_at(Path(code.folder), rules)
    return None


def _clone(code: Code, target: Path, rules: GitRules) -> CodePlace:
    scheme = urlsplit(code.git_url).scheme
    allowed = ("https", "file") if rules.allow_file else ("https",)
    if scheme not in allowed:
        raise SetupProblem(
            f"code.git_url: {scheme or 'a plain path'} is not allowed on this node; "
            f"use {' or '.join(allowed)}."
        )
    ref = code.git_ref or "HEAD"
    target.mkdir(mode=0o700)
    give(target, rules.uid)
    _git(["init", "--quiet", "."], target, rules, "could not prepare a folder")
    _git(["remote", "add", "origin", code.git_url], target, rules, "does not accept the URL")
    try:
        # One commit is enough to train on; not every server hands out commits by their hash.
        _git(["fetch", "--quiet", "--depth=1", "origin", ref], target, rules, "")
        commit = "FETCH_HEAD"
    except SetupProblem:
        refs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"]
        _git(["fetch", "--quiet", "origin", *refs], target, rules, "could not fetch it")
        commit = _resolve(ref, target, rules)
    checkout = ["checkout", "--quiet", "--detach", commit]
    _git(checkout, target, rules, f"could not check out {ref}")
    return CodePlace(target, _git(["rev-parse", "HEAD"], target, rules, "lost its commit").strip())


def _resolve(ref: str, target: Path, rules: GitRules) -> str:
    for name in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref):
        try:
            text = ["rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"]
            return _git(text, target, rules, "").strip()
        except SetupProblem:
            continue
    raise SetupProblem(
        f"code.git_ref: {ref} is no branch, tag or commit of the repository. Push it first, "
        "or name one that exists."
    )


def _look_at(folder: Path, rules: GitRules) -> CodePlace:
    if not folder.is_dir():
        raise SetupProblem(
            f"code.folder: {folder} is no folder on this node. Copy the code there, "
            "or use a script or a git URL."
        )
    look = replace(rules, timeout_s=_LOOK_S)
    try:
        commit = _git(["rev-parse", "HEAD"], folder, look, "").strip()
        difference = ["diff", "--no-ext-diff", "--no-textconv", "HEAD"]
        patch = _git(difference, folder, look, "", most=MAX_PATCH_BYTES + 1)
    except SetupProblem:
        return CodePlace(folder)  # not under git, or not to be read: run it as it is
    return CodePlace(folder, commit, _shortened(patch))


def _shortened(patch: str) -> str:
    content = patch.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    if len(content) <= MAX_PATCH_BYTES:
        return content.decode()
    kept = content[:MAX_PATCH_BYTES].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: the first {MAX_PATCH_BYTES} bytes of the patch are kept]\n"


def _git(
    arguments: list[str], folder: Path, rules: GitRules, problem: str, *, most: int = 0
) -> str:
    """Run git as the job's user, deaf to hooks, prompts and outer configuration.

    Returns what it printed, at most `most` bytes of it unless that is 0.
    """
    # The outer clock holds even when the agent is gone.
    clock = ["timeout", "--kill-after=5", f"{rules.timeout_s + 5:.0f}"]
    command = [*clock, "git", *arguments]
    if most:
        command = ["/bin/sh", "-c", f'"$@" | head -c {most}', "sh", *command]
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_surroundings(rules),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            extra_groups=None if rules.uid is None else [],
            user=rules.uid,
            group=rules.uid,
        )
    except PermissionError as error:
        raise SetupProblem(
            f"code.folder: {error.filename} is closed to the job's user. Let other users enter it."
        ) from None
    output, errors = _finish(process, rules)
    if process.returncode == 127:
        raise SetupProblem("code.git_url: git is not installed on this node. Ask its operator.")
    if process.returncode != 0:
        said = errors.decode("utf-8", "replace").strip()[-_SHOWN_ERROR:]
        raise SetupProblem(
            f"code.git_url: git {problem}: {said or 'no reason given'}. "
            "Check the address and that this node may read it without a password."
        )
    return output.decode("utf-8", "replace")


def _surroundings(rules: GitRules) -> dict[str, str]:
    protocols = "https:file" if rules.allow_file else "https"
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(rules.home),
        "LANG": "C.UTF-8",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/false",
        "GIT_ALLOW_PROTOCOL": protocols,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(rules.settings),
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }


def _finish(process: subprocess.Popen[bytes], rules: GitRules) -> tuple[bytes, bytes]:
    give_up_at = time.monotonic() + rules.timeout_s
    while True:
        try:
            return process.communicate(timeout=_POLL_S)
        except subprocess.TimeoutExpired:
            if rules.is_stopped():
                _kill(process)
                raise SetupStopped from None
            if time.monotonic() > give_up_at:
                _kill(process)
                raise SetupProblem(
                    f"code.git_url: git did not finish within {rules.timeout_s:.0f} s. Use a "
                    "smaller repository, or a folder that is already on the node."
                ) from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, 9)
    process.communicate()
