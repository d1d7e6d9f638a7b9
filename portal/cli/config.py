"""Which server, and as whom: environment first, then a file only its owner can read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from portal.cli.exits import NOT_ALLOWED, USAGE, Failure

_HOST = re.compile(r"[\w.:%-]+")


@dataclass(frozen=True, slots=True)
class Config:
    """The server's address without a slash at its end, and an API token."""

    server: str
    token: str


def config_path() -> Path:
    """`$XDG_CONFIG_HOME/trainyard/config.json`, by default below `~/.config`."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise Failure(
            "You have no home folder.", remedy="Set TRAINYARD_SERVER and TRAINYARD_TOKEN."
        ) from None
    return folder / "trainyard" / "config.json"


def load_config() -> Config:
    """TRAINYARD_SERVER and TRAINYARD_TOKEN win over the file; raises Failure when neither is."""
    server, token = os.environ.get("TRAINYARD_SERVER"), os.environ.get("TRAINYARD_TOKEN")
    if not server or not token:
        stored = _read()
        server, token = server or stored.get("server"), token or stored.get("token")
    if not server or not token:
        raise Failure(
            "You are not signed in.",
            code=NOT_ALLOWED,
            remedy="Type: trainyard login <address of the portal>",
        )
    return Config(clean_server(server), clean_token(token))


def stored_server() -> str:
    """The server of the last login, or of the environment; empty when there is none."""
    return os.environ.get("TRAINYARD_SERVER") or _read().get("server", "")


def save_config(config: Config) -> Path:
    """Write the file whole or not at all, readable by its owner only."""
    path = config_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)  # made 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"server": config.server, "token": config.token}, file)
                file.write("\n")
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise Failure(
            f"The login cannot be kept in {path}: {error.strerror}.",
            remedy="Make the folder writable, or set TRAINYARD_SERVER and TRAINYARD_TOKEN.",
        ) from None
    return path


def clean_server(text: str) -> str:
    """An http(s) address without path; raises Failure."""
    text = text.strip()
    text = (text if "://" in text else f"https://{text}").rstrip("/")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    is_plain = bool(host and _HOST.fullmatch(host)) and not parts.username and not parts.query
    if parts.scheme not in ("http", "https") or not is_plain:
        raise Failure(
            f"{text[:100]!r} is not the address of a portal.",
            remedy="Write it like https://trainyard.example.org",
        )
    return text


def clean_token(text: str) -> str:
    """A token as it was shown; raises Failure for what can never be one."""
    text = text.strip()
    if not text.startswith("ty_") or not text.isascii() or len(text) > 256 or " " in text:
        raise Failure(
            "That is not an API token; they begin with ty_.",
            code=USAGE,
            remedy="Make one in the portal under Settings, API tokens.",
        )
    return text


def _read() -> dict[str, str]:
    path = config_path()
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        raise Failure(
            f"{path} cannot be read.", remedy="Delete it and type: trainyard login"
        ) from None
    return {k: v for k, v in found.items() if isinstance(v, str)} if isinstance(found, dict) else {}
