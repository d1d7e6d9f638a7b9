"""`trainyard checkpoint` writes exactly the note that an agent confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler.agent.runtime.checkpoints import CheckRequest, look

pytestmark = pytest.mark.once


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoints"
    (made / "sub").mkdir(parents=True)
    (made / "sub" / "step-3").write_bytes(b"weights" * 1000)
    return made


def test_an_agent_confirms_what_it_wrote(shell, folder):
    shell.variables = {"TRAINYARD_CHECKPOINT_DIR": str(folder)}
    said = shell.json("checkpoint", f"{folder}/sub/step-3", "--step", "3")
    assert json.loads((folder / "checkpoint.json").read_text()) == said
    found = look(CheckRequest(str(folder))).confirmed
    assert found is not None
    assert (found.step, found.bytes, found.path) == (3, 7000, f"{folder}/sub/step-3")
    assert sorted(one.name for one in folder.iterdir()) == ["checkpoint.json", "sub"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{folder}/gone", "--step", "1"], "No such file"),
        (["/etc/hostname", "--step", "1"], "does not lie in the checkpoint folder"),
        (["{folder}/sub/../../outside", "--step", "1"], "does not lie in"),
        (["{folder}/link", "--step", "1"], "is a link"),
        (["{folder}/sub", "--step", "1"], "Name one file"),
        (["{folder}/sub/step-3", "--step", "-1"], "--step"),
        (["{folder}/sub/step-3"], "--step"),
    ],
)
def test_wrong_use_says_what_to_do_and_writes_nothing(shell, folder, words, said):
    (folder / "link").symlink_to("/etc/hostname")
    words = [word.format(folder=folder) for word in words]
    _, err = shell.run("checkpoint", *words, "--dir", str(folder), code=2)
    assert said in err
    assert not (folder / "checkpoint.json").exists()


def test_outside_a_job_it_asks_for_the_folder(shell, folder):
    _, err = shell.run("checkpoint", f"{folder}/sub/step-3", "--step", "1", code=2)
    assert "there is no checkpoint folder" in err
