"""Code from git and from folders, with the exact version told; refusals that say what to do."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.runtime import processes
from scheduler.agent.setup.code import MAX_PATCH_BYTES
from scheduler.agent.setup.git import GitRules, end_rest, processes_of, run_git
from scheduler.agent.setup.problems import SetupStopped
from scheduler.states import EndReason
from scheduler.wire.messages import Code
from scheduler.wire.sessions import SessionLaunch
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal

SHOW = ("/bin/sh", "-c", "cat train.txt; pwd")


def git(folder: Path, *arguments: str) -> str:
    names = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ["git", *names, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def repository(folder: Path) -> Path:
    """Two commits on `main`, one more on `topic`, a tag on the first."""
    place = folder / "repository"
    place.mkdir(mode=0o755)
    git(place, "init", "--quiet", "--initial-branch=main")
    for number, text in enumerate(("first", "second")):
        (place / "train.txt").write_text(f"{text}\n")
        git(place, "add", "train.txt")
        git(place, "commit", "--quiet", "-m", text)
        if number == 0:
            git(place, "tag", "v1")
    git(place, "checkout", "--quiet", "-b", "topic")
    (place / "train.txt").write_text("topic\n")
    git(place, "commit", "--quiet", "-am", "topic")
    git(place, "checkout", "--quiet", "main")
    return place


@pytest.mark.parametrize(
    ("ref", "text"), [("", "second"), ("main", "second"), ("v1", "first"), ("topic", "topic")]
)
def test_a_ref_is_fetched_and_its_commit_told(
    portal: Portal, agent: Agent, repository: Path, ref: str, text: str
) -> None:
    code = Code(git_url=repository.as_uri(), git_ref=ref)
    report, log = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.COMPLETED, report.detail
    assert log.splitlines()[0] == text
    assert report.code_commit == git(repository, "rev-parse", ref or "HEAD")
    assert report.code_patch == ""


def test_a_commit_can_be_named_by_its_hash(portal: Portal, agent: Agent, repository: Path) -> None:
    commit = git(repository, "rev-parse", "main~1")
    code = Code(git_url=repository.as_uri(), git_ref=commit[:10])
    report, log = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.code_commit == commit and log.startswith("first")


def test_a_working_folder_inside_the_code(portal: Portal, agent: Agent, repository: Path) -> None:
    code = Code(git_url=repository.as_uri())
    order = assignment(command=("/bin/pwd",), code=code, working_dir=".git")
    _, log = portal.outcome("alpha", order)
    assert log.strip().endswith("/code/.git")


def test_hooks_of_the_repository_do_not_run(
    portal: Portal, agent: Agent, repository: Path, folder: Path
) -> None:
    template = repository / ".git" / "hooks" / "post-checkout"
    template.write_text(f"#!/bin/sh\ntouch {folder}/hooked\n")
    template.chmod(0o755)
    portal.outcome("alpha", assignment(command=SHOW, code=Code(git_url=repository.as_uri())))
    assert not (folder / "hooked").exists()


@pytest.mark.parametrize(
    ("url", "ref", "words"),
    [
        ("file:///nowhere/at/all", "", "code.git_url: git could not fetch it"),
        ("ssh://host/x", "", "code.git_url: ssh is not allowed on this node; use https or file"),
        ("ext::sh -c whoami", "", "code.git_url: ext is not allowed"),
    ],
)
def test_what_cannot_be_fetched_says_why(
    portal: Portal, agent: Agent, url: str, ref: str, words: str
) -> None:
    code = Code(git_url=url, git_ref=ref)
    report, _ = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert words in report.detail


def test_an_unknown_ref_says_so(portal: Portal, agent: Agent, repository: Path) -> None:
    code = Code(git_url=repository.as_uri(), git_ref="nowhere")
    report, _ = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert "code.git_ref: nowhere is no branch, tag or commit" in report.detail


def test_a_folder_runs_in_place_and_its_changes_are_told(
    portal: Portal, agent: Agent, repository: Path
) -> None:
    (repository / "train.txt").write_text("changed\nwith swordfish\n")
    env = {"DB_PASSWORD": "swordfish"}
    try:
        code = Code(folder=str(repository))
        report, log = portal.outcome("alpha", assignment(command=SHOW, code=code, env=env))
    finally:
        git(repository, "checkout", "--quiet", "train.txt")
    assert log.split() == ["changed", "with", "***", str(repository)]
    assert report.code_commit == git(repository, "rev-parse", "HEAD")
    told = [r for r in portal.nodes["alpha"].history if r.fence == report.fence and r.code_patch]
    assert "-second" in told[0].code_patch and "+changed\n+with ***" in told[0].code_patch


def test_a_long_patch_is_cut_and_says_so(portal: Portal, agent: Agent, repository: Path) -> None:
    (repository / "train.txt").write_text("\u00e4" * MAX_PATCH_BYTES)
    try:
        code = Code(folder=str(repository))
        report, _ = portal.outcome("alpha", assignment(command=("/bin/true",), code=code))
    finally:
        git(repository, "checkout", "--quiet", "train.txt")
    told = [r for r in portal.nodes["alpha"].history if r.fence == report.fence and r.code_patch]
    patch = told[0].code_patch
    assert patch.endswith(f"[cut here: the first {MAX_PATCH_BYTES} bytes of the patch are kept]\n")
    assert len(patch.encode()) < MAX_PATCH_BYTES + 100


def test_a_folder_without_git_has_no_commit(portal: Portal, agent: Agent, folder: Path) -> None:
    plain = folder / "plain"
    plain.mkdir(mode=0o755)
    (plain / "train.txt").write_text("plain\n")
    report, log = portal.outcome("alpha", assignment(command=SHOW, code=Code(folder=str(plain))))
    assert log.split() == ["plain", str(plain)]
    assert report.code_commit == ""


def test_a_missing_folder_is_named(portal: Portal, agent: Agent) -> None:
    code = Code(folder="/nowhere/at/all")
    report, _ = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert report.detail.startswith("code.folder: /nowhere/at/all is no folder on this node")


def test_files_are_refused_where_the_operator_did_not_allow_them(
    portal: Portal, agents: Any, repository: Path
) -> None:
    strict = agents("strict", start=False)
    strict.start(file_git=False)
    code = Code(git_url=repository.as_uri())
    report, _ = portal.outcome("strict", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert "file is not allowed on this node; use https" in report.detail


def _owned(place: Path) -> None:
    """Everybody's to read; a repository that nobody else may write to."""
    for one in (place, *place.rglob("*")):
        one.chmod(one.stat().st_mode | (0o055 if one.is_dir() else 0o044))


def _watched(folder: Path, name: str, script: str) -> Path:
    """A repository with a change in it, whose settings have git run `script` at every look.

    To see what changed, and to clean what is to be compared.
    """
    place = folder / name
    place.mkdir(mode=0o755)
    git(place, "init", "--quiet", "--initial-branch=main")
    (place / "train.txt").write_text("first\n")
    git(place, "add", "train.txt")
    git(place, "commit", "--quiet", "-m", "first")
    hook = place / ".git" / "watch"
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    (place / ".gitattributes").write_text("*.txt filter=x.Y\n")
    git(place, "config", "filter.x.Y.clean", f"{hook}; cat")
    git(place, "config", "filter.x.Y.required", "true")
    git(place, "config", "core.fsmonitor", str(hook))
    (place / "train.txt").write_text("second\n")
    return place


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could write where a link leads")
@pytest.mark.parametrize("name", ["terminal.py", "script"])
def test_links_of_the_code_lead_the_agent_nowhere(
    portal: Portal, agent: Agent, folder: Path, name: str
) -> None:
    target = folder / f"of-root-{name}"
    target.write_text("root's")
    target.chmod(0o600)
    repository = _watched(folder, f"planting-{name}", f'ln -sf {target} "$HOME/../{name}"')
    _owned(repository)
    is_session = name == "terminal.py"
    code = Code(folder=str(repository), script="" if is_session else "true")
    order = assignment(code=code, time_limit_s=2)
    if is_session:
        session = SessionLaunch("shell", "/sessions/1/")
        order = replace(order, launch=replace(order.launch, session=session))
    portal.outcome("alpha", order)
    assert (target.stat().st_uid, target.read_text()) == (0, "root's")
    assert target.stat().st_mode & 0o777 == 0o600


def test_no_program_of_the_repository_runs(portal: Portal, agent: Agent, folder: Path) -> None:
    mark = folder / "ran"
    mark.mkdir()
    mark.chmod(0o777)
    script = f"touch {mark}/it; setsid sleep 306 >&2 & :"
    repository = _watched(folder, "running", script)
    _owned(repository)
    report, log = portal.outcome(
        "alpha", assignment(command=SHOW, code=Code(folder=str(repository)))
    )
    assert log.split()[0] == "second" and not list(mark.iterdir())
    assert report.code_commit == git(repository, "-c", "core.fsmonitor=", "rev-parse", "HEAD")
    told = [r for r in portal.nodes["alpha"].history if r.fence == report.fence and r.code_patch]
    assert "-first\n+second" in told[0].code_patch


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change a job's user")
def test_git_is_not_waited_for_by_what_it_leaves_and_that_goes(folder: Path) -> None:
    """An alias is a program too, here in place of what no setting keeps git from."""
    uid = 60_777
    place = folder / "left"
    place.mkdir()
    os.chown(place, uid, uid)
    rules = GitRules(uid, place, place / "none", False, 20.0, lambda: False)
    before = processes_of(rules)
    began = time.monotonic()
    noisy = "!(while :; do echo x >&2; sleep 0.01; done) & env -i setsid sleep 306 >&2 & echo done"
    assert run_git(["-c", f"alias.x={noisy}", "x"], place, rules, "") == b"done\n"
    assert time.monotonic() - began < 5
    assert processes.owned_by(uid)
    end_rest(rules, before)
    assert not processes.owned_by(uid)
    with pytest.raises(SetupStopped):
        stopped = replace(rules, is_stopped=lambda: True)
        run_git(["-c", "alias.x=!sleep 306", "x"], place, stopped, "")
    end_rest(rules, before)
    endless = ["-c", "alias.x=!yes >&2 & yes", "x"]
    assert len(run_git(endless, place, rules, "", most=1000)) == 1000
    end_rest(rules, before)
    assert not processes.owned_by(uid)
