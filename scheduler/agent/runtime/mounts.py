"""Show a job folders that lie behind a closed parent, without changing any folder's mode."""

from __future__ import annotations


def expose(paths: tuple[str, ...]) -> None:
    """Nothing to show yet."""
    if paths:
        raise OSError("exposing folders is not supported on this node")
