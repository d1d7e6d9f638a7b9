"""Bring a job's code to the node and say exactly which code it is."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scheduler.agent.setup.boxing import check_places
from scheduler.agent.setup.git import GitRules, end_rest, processes_of, run_git, without_filters
from scheduler.agent.setup.identities import give
from scheduler.agent.setup.problems import SetupProblem
from scheduler.wire.messages import Code

MAX_PATCH_BYTES = 256 * 1024
_LOOK_S = 20.0
# Into modules git would look with their own settings, whatever it is told here.
_DIFFERENCE = ("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", "HEAD")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where the code lies. `commit` and `patch` are empty where nobody keeps versions."""

    folder: Path
    commit: str = ""
    patch: str = ""


def fetch_code(code: Code, target: Path, rules: GitRules) -> CodePlace | None:
    """The folder the program starts in, None when the code brings none.

    A git URL is cloned into `target`; a folder on the node is used where it is. Raises
    SetupProblem, or SetupStopped when `rules.is_stopped` turns true while git works, and OSError
    where git left something that cannot be killed.
    """
    if not (code.git_url or code.folder):
        return None
    before = processes_of(rules)
    try:
        if code.git_url:
            return _clone(code, target, rules)
        return _look_at(Path(code.folder), rules)
    finally:
        end_rest(rules, before)


def _clone(code: Code, target: Path, rules: GitRules) -> CodePlace:
    scheme = urlsplit(code.git_url).scheme
    allowed = ("https", "file") if rules.allow_file else ("https",)
    if scheme not in allowed:
        raise SetupProblem(
            f"code.git_url: {scheme or 'a plain path'} is not allowed on this node; "
            f"use {' or '.join(allowed)}."
        )
    if scheme == "file" and rules.sandbox is not None:
        check_places(rules.sandbox, [("code.git_url", unquote(urlsplit(code.git_url).path))])
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
        search = _find_again if code.git_named else _resolve
        commit = search(code, target, rules)
    checkout = ["checkout", "--quiet", "--detach", commit]
    _git(checkout, target, rules, f"could not check out {ref}")
    return CodePlace(target, _git(["rev-parse", "HEAD"], target, rules, "lost its commit").strip())


def _find_again(code: Code, target: Path, rules: GitRules) -> str:
    """The commit that the job was fetched at before, in the history of what it asks for."""
    with suppress(SetupProblem):
        return _resolve(code, target, rules)
    with suppress(SetupProblem):
        # It may be neither a branch nor a tag: the head of a request to merge.
        _git(["fetch", "--quiet", "origin", code.git_named], target, rules, "")
        return _resolve(code, target, rules)
    raise SetupProblem(
        f"code.git_ref: commit {code.git_ref}, which this job was run with before, is no longer in "
        f"the history of {code.git_named}. Push it again, or clone the job to run what is there."
    )


def _resolve(code: Code, target: Path, rules: GitRules) -> str:
    ref = code.git_ref or "HEAD"
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
    look = replace(rules, timeout_s=_LOOK_S, fetches=False)
    try:
        commit = _git(["rev-parse", "HEAD"], folder, look, "").strip()
        settings = without_filters(folder, look)
        most = MAX_PATCH_BYTES + 1
        patch = run_git(_DIFFERENCE, folder, look, "", settings=settings, most=most)
    except SetupProblem:
        return CodePlace(folder)  # not under git, or not to be read: run it as it is
    return CodePlace(folder, commit, _shortened(patch.decode("utf-8", "replace")))


def _shortened(patch: str) -> str:
    content = patch.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
    if len(content) <= MAX_PATCH_BYTES:
        return content.decode()
    kept = content[:MAX_PATCH_BYTES].decode("utf-8", "ignore")
    return f"{kept}\n[cut here: the first {MAX_PATCH_BYTES} bytes of the patch are kept]\n"


def _git(arguments: list[str], folder: Path, rules: GitRules, problem: str) -> str:
    return run_git(arguments, folder, rules, problem).decode("utf-8", "replace")
