"""A job that goes on is given the commit it had, whatever its branch is at by then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.setup.code import fetch_code
from scheduler.agent.setup.git import GIT_SETTINGS, GitRules, run_git
from scheduler.agent.setup.problems import SetupProblem
from scheduler.wire.messages import Code
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal
from tests.agent.test_code import SHOW, git


@pytest.fixture(scope="module")
def repository(folder: Path) -> Path:
    """Two commits on `main`."""
    place = folder / "pinned"
    place.mkdir(mode=0o755)
    git(place, "init", "--quiet", "--initial-branch=main")
    for text in ("first", "second"):
        (place / "train.txt").write_text(f"{text}\n")
        git(place, "add", "train.txt")
        git(place, "commit", "--quiet", "-m", text)
    return place


@pytest.fixture
def fetch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Code], Any]:
    """`fetch_code` from a server that gives out no commit by its hash."""

    def asked(arguments: list[str], *rest: Any, **more: Any) -> bytes:
        if "--depth=1" in arguments:
            raise SetupProblem("not our ref")
        return run_git(arguments, *rest, **more)

    monkeypatch.setattr("scheduler.agent.setup.code.run_git", asked)
    settings = tmp_path / "gitconfig"
    settings.write_text(GIT_SETTINGS)
    rules = GitRules(None, tmp_path, settings, True, 20.0, lambda: False)
    return lambda code: fetch_code(code, tmp_path / "code", rules)


def test_a_job_that_goes_on_takes_the_commit_it_had(
    portal: Portal, agent: Agent, repository: Path
) -> None:
    commit = git(repository, "rev-parse", "main~1")
    code = Code(git_url=repository.as_uri(), git_ref=commit, git_named="main")
    report, log = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert (report.code_commit, log.split()[0]) == (commit, "first")


@pytest.mark.parametrize("is_merge", [False, True])
def test_a_server_that_gives_out_no_commit_is_asked_for_what_the_job_names(
    fetch: Callable[[Code], Any], repository: Path, is_merge: bool
) -> None:
    commit, named = git(repository, "rev-parse", "main~1"), "main"
    if is_merge:
        named = "refs/pull/7/head"
        tree = git(repository, "rev-parse", "main~1^{tree}")
        commit = git(repository, "commit-tree", tree, "-m", "asked to be merged")
        newer = git(repository, "commit-tree", tree, "-p", commit, "-m", "and more of it")
        git(repository, "update-ref", named, newer)
    place = fetch(Code(git_url=repository.as_uri(), git_ref=commit, git_named=named))
    assert place.commit == commit
    assert (place.folder / "train.txt").read_text() == "first\n"


def test_a_commit_that_is_gone_is_told_with_what_to_do(
    fetch: Callable[[Code], Any], repository: Path
) -> None:
    with pytest.raises(SetupProblem) as told:
        fetch(Code(git_url=repository.as_uri(), git_ref="5" * 40, git_named="main"))
    assert f"code.git_ref: commit {'5' * 40}" in str(told.value)
    assert "no longer in the history of main" in str(told.value)
