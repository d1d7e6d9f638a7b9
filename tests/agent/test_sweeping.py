"""What an attempt leaves in its scratch folder is gone at its end; an empty folder may wait."""

from __future__ import annotations

from pathlib import Path

from scheduler.agent.node.sweeping import remove_old_work
from scheduler.agent.runtime.space.scratch import remove_scratch


def test_what_was_left_in_scratch_is_deleted(tmp_path: Path) -> None:
    kept, scratch = tmp_path / "kept", tmp_path / "scratch"
    for folder in (kept, scratch / "deep"):
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    (scratch / "link").symlink_to(kept)
    remove_scratch(scratch)
    assert not scratch.exists() and (kept / "file").exists()
    remove_scratch(scratch)


def test_an_empty_one_goes_with_the_other_folders(tmp_path: Path) -> None:
    scratch = tmp_path / "attempts" / "1-0" / "scratch"
    scratch.mkdir(parents=True)
    remove_scratch(scratch)
    assert scratch.is_dir()
    remove_old_work(tmp_path, -1.0, ())
    assert not scratch.parent.exists()


def test_a_link_instead_of_scratch_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "somebodys"
    target.mkdir()
    scratch = tmp_path / "scratch"
    scratch.symlink_to(target)
    remove_scratch(scratch)
    (target / "file").write_text("x")
    remove_scratch(scratch)
    assert (target / "file").exists()
