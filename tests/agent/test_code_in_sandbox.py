"""Git in a sandbox of its own, where jobs are in one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scheduler.agent.config import Options
from scheduler.agent.setup.boxing import plan_git
from scheduler.agent.setup.git import GitRules, run_git
from scheduler.states import EndReason
from scheduler.wire.messages import Code
from tests.agent.conftest import Agent, assignment
from tests.agent.portal import Portal
from tests.agent.test_code import git
from tests.agent.test_sandbox import needs_sandbox

SHOW = ("/bin/cat", "a")


@pytest.fixture(scope="module")
def shared(folder: Path) -> Path:
    """A folder that jobs are shown."""
    return _opened(folder / "shared")


@pytest.fixture(scope="module")
def agent(agents: Any, shared: Path) -> Agent:
    made: Agent = agents("alpha", "--isolation", "sandbox", "--share", str(shared))
    return made


def _opened(place: Path) -> Path:
    place.mkdir(parents=True)
    place.chmod(0o777)
    return place


def _repository(place: Path) -> Path:
    git(_opened(place), "init", "--quiet")
    (place / "a").write_text("first\n")
    git(place, "add", "a")
    git(place, "commit", "--quiet", "-m", "a")
    return place


@needs_sandbox
def test_code_is_fetched_and_looked_at_where_it_is_shown(
    portal: Portal, agent: Agent, shared: Path
) -> None:
    place = _repository(shared / "repository")
    order = assignment(command=SHOW, code=Code(git_url=place.as_uri()))
    report, log = portal.outcome("alpha", order)
    assert (report.end_reason, log) == (EndReason.COMPLETED, "first\n"), report.detail
    assert report.code_commit == git(place, "rev-parse", "HEAD")
    (place / "a").write_text("second\n")
    order = assignment(command=SHOW, code=Code(folder=str(place)))
    changed, log = portal.outcome("alpha", order)
    assert (log, changed.code_commit) == ("second\n", report.code_commit)
    told = [r for r in portal.nodes["alpha"].history if r.fence == changed.fence and r.code_patch]
    assert "-first\n+second" in told[0].code_patch


@needs_sandbox
def test_a_repository_that_is_not_shown_is_not_read(
    portal: Portal, agent: Agent, folder: Path
) -> None:
    code = Code(git_url=_repository(folder / "elsewhere").as_uri())
    report, _ = portal.outcome("alpha", assignment(command=SHOW, code=code))
    assert report.end_reason == EndReason.SETUP_FAILED
    assert report.detail.startswith("code.git_url: "), report.detail
    assert "is not shown to jobs" in report.detail


@needs_sandbox
def test_git_sees_what_jobs_are_shown_and_writes_where_it_fetches_to(tmp_path: Path) -> None:
    """An alias is a program, as are those that a repository's settings may name."""
    for place in (tmp_path, *tmp_path.parents[:-2]):
        place.chmod(0o755)
    shown, other = (_opened(tmp_path / name) for name in ("shown", "other"))
    work, _, code = (_opened(tmp_path / "root" / name) for name in ("work", "scratch", "code"))
    (tmp_path / "root" / "gitconfig").touch()
    options = Options(other, other, share=(str(shown),))
    rules = GitRules(
        64_000 if os.geteuid() == 0 else None,
        work,
        tmp_path / "root" / "gitconfig",
        False,
        20.0,
        lambda: False,
        sandbox=plan_git("/usr/bin/bwrap", options, tmp_path / "root"),
    )
    marks = [place / "mark" for place in (code, work, shown, other)]
    tried = f"touch {' '.join(map(str, marks))}; ls {tmp_path} /proc; grep -c : /proc/net/dev"
    alias = ["-c", f"alias.x=!({tried}) 2>&1", "x"]
    said = run_git(alias, code, rules, "").decode()
    assert [mark.exists() for mark in marks] == [True, False, False, False]
    assert "shown\n" in said and "other\n" not in said, said
    assert sum(word.isdigit() for word in said.split()) < 10, said
    marks[0].unlink()
    said = run_git(alias, shown, replace(rules, fetches=False), "").decode()
    assert not any(mark.exists() for mark in marks)
    assert said.split()[-1] == "1", "it has a network beside its own loopback"
