"""The `trainyard` command as people run it: a process of its own with its own home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Shell:
    """A person's terminal; `home` holds the configuration."""

    home: Path
    variables: dict[str, str]

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "portal.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "XDG_CONFIG_HOME": str(self.home / "config"),
                "PYTHONUTF8": "1",
                **self.variables,
            },
            **more,
        )

    def run(
        self, *words: str, code: int = 0, stdin: str = "", timeout_s: float = 60
    ) -> tuple[str, str]:
        """Run one command to its end, check its exit code, and return (stdout, stderr)."""
        process = self.start(*words, stdin=subprocess.PIPE)
        out, err = process.communicate(stdin, timeout=timeout_s)
        assert process.returncode == code, (process.returncode, out, err)
        assert "Traceback" not in err
        return out, err

    def json(self, *words: str, code: int = 0, timeout_s: float = 60) -> Any:
        """The same with --json, read; it goes before a job's own command."""
        end = words.index("--") if "--" in words else len(words)
        words = (*words[:end], "--json", *words[end:])
        return json.loads(self.run(*words, code=code, timeout_s=timeout_s)[0])


Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture
def portal_is(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """`portal_is(answer)`: `answer` is the portal of this process, and no pause lasts."""

    def make(answer: Answer) -> None:
        monkeypatch.setenv("TRAINYARD_SERVER", "https://portal.example.org")
        monkeypatch.setenv("TRAINYARD_TOKEN", "ty_x")
        client = partial(httpx.Client, transport=httpx.MockTransport(answer))
        monkeypatch.setattr("portal.cli.client.httpx.Client", client)
        monkeypatch.setattr("time.sleep", lambda _s: None)

    return make


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A terminal that nobody has signed in from."""
    return Shell(tmp_path, {})


@pytest.fixture
def terminal_of(tmp_path: Path, stack: Any) -> Callable[[str], Shell]:
    """`terminal_of("alice")`: her terminal, signed in to the real servers by environment."""

    def make(username: str) -> Shell:
        return Shell(
            tmp_path,
            {"TRAINYARD_SERVER": stack.address, "TRAINYARD_TOKEN": stack.api_tokens[username]},
        )

    return make
