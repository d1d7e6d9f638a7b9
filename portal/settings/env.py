"""Typed readers of the environment. A malformed value refuses to start and says which one."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.core.exceptions import ImproperlyConfigured

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
# Names that Python's logging takes as well.
_SAME_LEVEL = {"WARN": "WARNING", "FATAL": "CRITICAL"}
# Unix socket paths end at 107 bytes; the longest name below the run folder has 24.
MAX_RUN_DIR = 80


def text(name: str, default: str = "") -> str:
    """The variable `name`, or the content of the file that `name`_FILE points to."""
    file = os.environ.get(f"{name}_FILE", "")
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ImproperlyConfigured(f"{name}_FILE: cannot read {file}: {error}") from None
    return os.environ.get(name, default)


def flag(name: str, default: bool) -> bool:
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be true or false, not {value!r}")


def whole(name: str, default: int, *, low: int = 0, high: int = 2**31) -> int:
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} must be a whole number from {low} to {high}")
    return int(value)


def choice(name: str, *allowed: str) -> str:
    """One of the allowed words, in large or small letters; the first is the default."""
    value = os.environ.get(name, "").strip() or allowed[0]
    found = {word.lower(): word for word in allowed}.get(value.lower())
    if found is None:
        raise ImproperlyConfigured(f"{name} must be {' or '.join(allowed)}, not {value!r}")
    return found


def log_level(name: str) -> str:
    """A level of Python's logging by any of its names, in large or small letters; INFO is usual."""
    asked = os.environ.get(name, "").strip().upper()
    if asked in _SAME_LEVEL:
        return _SAME_LEVEL[asked]
    return choice(name, "INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> tuple[Network, ...]:
    """Addresses and networks, with commas."""
    try:
        return tuple(ipaddress.ip_network(word) for word in words(name, default))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be networks with commas: {error}") from None


def ports(name: str, default: str) -> frozenset[int] | None:
    """Port numbers, with commas; None for the word any."""
    given = words(name, default)
    if given == ["any"]:
        return None
    if not all(word.isascii() and word.isdigit() and 0 < int(word) < 65536 for word in given):
        raise ImproperlyConfigured(f"{name} must be ports with commas, or any")
    return frozenset(map(int, given))


def state_dir(root: Path) -> Path:
    """Where the embedded default keeps everything: database, logs, secrets."""
    return Path(os.environ.get("TRAINYARD_STATE_DIR") or root / ".trainyard").resolve()


def run_dir(state: Path) -> Path:
    """A short folder for sockets, one for each state folder; a deep checkout exceeds the limit."""
    given = os.environ.get("TRAINYARD_RUN_DIR")
    if given:
        folder = Path(given).resolve()
        if len(str(folder).encode()) > MAX_RUN_DIR:
            raise ImproperlyConfigured(
                f"TRAINYARD_RUN_DIR is longer than {MAX_RUN_DIR} bytes; sockets would not fit"
            )
        return folder
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not _is_own_folder(base):
        # Of a session that is over, or of who typed sudo.
        base = tempfile.gettempdir()
    if len(base.encode()) > MAX_RUN_DIR - 32:
        base = "/tmp"  # noqa: S108 - the folder below is made 0700 and checked for its owner
    digest = hashlib.sha256(str(state).encode()).hexdigest()[:8]
    return Path(base) / f"trainyard-{os.getuid()}-{digest}"


def _is_own_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR((found := os.stat(path)).st_mode) and found.st_uid == os.getuid()
    except OSError:
        return False


def secret_key(state: Path) -> str:
    """TRAINYARD_SECRET_KEY, else a random one made once and kept in a 0600 file."""
    given = text("TRAINYARD_SECRET_KEY")
    if given:
        return given
    path = state / "secret_key"
    try:
        if not path.exists():
            _make_secret(path)
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(
            f"the secret key in {path} cannot be read or made: {error}. Give the folder to the "
            "user that starts this, or set TRAINYARD_STATE_DIR or TRAINYARD_SECRET_KEY"
        ) from None


def _make_secret(path: Path) -> None:
    path.parent.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.touch(mode=0o600)
    try:
        fresh.write_text(secrets.token_urlsafe(64), encoding="utf-8")
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()


def celery_broker_url(redis_url: str) -> str:
    """Celery's spelling of a Redis address; it differs for Unix sockets."""
    parts = urlsplit(redis_url)
    if parts.scheme == "unix":
        database = parse_qs(parts.query).get("db", ["0"])[0]
        return f"redis+socket://{parts.path}?virtual_host={database}"
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in parse_qs(parts.query):
        # Celery would believe any certificate.
        asked = f"{parts.query}&ssl_cert_reqs=required".lstrip("&")
        return parts._replace(query=asked).geturl()
    if parts.scheme in ("redis", "rediss"):
        return redis_url
    raise ImproperlyConfigured("REDIS_URL must begin with redis://, rediss:// or unix://")
