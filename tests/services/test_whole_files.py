"""Stored files: whole or not there, and where it is asked for, there after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.core.files.base import ContentFile, File

from portal.whole_files import WholeFiles

pytestmark = pytest.mark.once


def test_bytes_and_every_new_name_are_flushed_before_a_save_returns(tmp_path, monkeypatch):
    flushed: list[str] = []

    def fsync(number: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{number}"))
        flushed.append(str(path.relative_to(tmp_path)) + "/" * path.is_dir())
        assert path.is_dir() or path.stat().st_size == 4  # not before the bytes are written

    monkeypatch.setattr(os, "fsync", fsync)
    files = WholeFiles(location=str(tmp_path), lasts=True)
    files.save("logs/7/one", ContentFile(b"one\n"))
    first, *folders = flushed
    assert first.startswith("logs/7/.one.")
    assert folders == ["logs/7/", "logs/", "./"]
    flushed.clear()
    files.save("logs/7/two", ContentFile(b"two\n"))
    assert flushed[1:] == ["logs/7/"]
    flushed.clear()
    WholeFiles(location=str(tmp_path)).save("logs/8/one", ContentFile(b"one\n"))
    assert flushed == []


class _Breaking(File):
    """Fails after its first bytes."""

    def chunks(self, chunk_size=None):
        yield b"tw"
        raise OSError(28, "No space left on device")


def test_what_cannot_be_written_leaves_what_was_there(tmp_path):
    files = WholeFiles(location=str(tmp_path))
    files.save("a/one", ContentFile(b"one"))
    with pytest.raises(OSError, match="No space"):
        files.save("a/one", _Breaking(None))
    assert (tmp_path / "a/one").read_bytes() == b"one"
    assert os.listdir(tmp_path / "a") == ["one"]
    with files.open("a/one") as reader:
        assert files.save("a/one", ContentFile(b"other")) == "a/one"
        assert reader.read() == b"one"  # who reads meanwhile has the old one whole
    assert (tmp_path / "a/one").read_bytes() == b"other"
