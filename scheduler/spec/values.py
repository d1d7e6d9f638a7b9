"""Single values as people write them: each function checks one and says what to write instead."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

from scheduler.spec import text, units
from scheduler.spec.problems import given

WHOLE_MILLI = 1000
MIN_MILLI = 10
MAX_LISTED = 64
MAX_LICENCES = 16
MAX_TOKENS = 10_000
_DIGITS = re.compile(r"-?\d{1,18}", re.ASCII)
_SLUG_PATH = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
_GIT_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@{}^~+-]{0,254}", re.ASCII)
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LICENCE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_CONSTRAINT = re.compile(
    r"([a-z0-9][a-z0-9._/-]{0,62})(!?=)([A-Za-z0-9][A-Za-z0-9._-]{0,62})", re.ASCII
)
_PART = re.compile(r"([01])\.(\d{1,3})", re.ASCII)
_MILLI = re.compile(r"(\d{1,4})m", re.ASCII)

_PROFILE = re.compile(r"(\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb", re.ASCII)

PART_HELP = "write it like 0.25 or 250m, from 0.01 to 1.0 GPU"
_LAST_YEAR = 2099
MOMENT_HELP = "write it like 2026-12-31T08:00:00Z or 2026-12-31 08:00 (UTC)"


def whole(value: object) -> object:
    """Integers and their plain ASCII spelling; 1.5, 1_000, NaN, full-width digits are refused."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"must be a whole number, such as 8, not {given(value)}")
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value.strip()):
            raise ValueError(f"must be a whole number, such as 8, not {given(value)}")
        return int(value)
    return value


def milli(value: object) -> int:
    """Milli-GPU from `0.25`, `"0.25"`, `"250m"`, or a whole count of milli-GPU such as 250."""
    if isinstance(value, float):
        # Floats come from JSON and YAML alone; their shortest spelling is what was written.
        value = repr(value)
    found = None
    if isinstance(value, int) and not isinstance(value, bool):
        found = value
    elif isinstance(value, str):
        spelt = value.strip()
        if match := _PART.fullmatch(spelt):
            found = int(match[1]) * WHOLE_MILLI + int(match[2].ljust(3, "0"))
        elif match := _MILLI.fullmatch(spelt):
            found = int(match[1])
    if found is None:
        raise ValueError(f"{given(value)} is not a part of a GPU; {PART_HELP}")
    if not MIN_MILLI <= found <= WHOLE_MILLI:
        raise ValueError(f"{given(value)} is not between 0.01 and one GPU; {PART_HELP}")
    return found


def is_mig_profile(model: str) -> bool:
    """Whether a model names MIG instances by their profile alone, such as `1g.10gb`."""
    return _PROFILE.fullmatch(model) is not None


def format_milli(value: int) -> str:
    """`250` -> `0.25`, as `milli` reads it back."""
    return f"{value // WHOLE_MILLI}.{value % WHOLE_MILLI:03d}".rstrip("0").ljust(3, "0")


def moment(value: object) -> datetime | None:
    """A time in UTC, whole seconds; without an offset it is UTC. Empty text is no time."""
    if value is None or value == "":
        return None
    if isinstance(value, str) and len(value) <= 40:
        try:
            value = datetime.fromisoformat(value.strip().upper().replace(" ", "T", 1))
        except ValueError:
            raise ValueError(f"{given(value)} is not a time; {MOMENT_HELP}") from None
    if not isinstance(value, datetime):
        raise ValueError(f"{given(value)} is not a time; {MOMENT_HELP}")
    try:
        found = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{given(str(value))} is not a time; {MOMENT_HELP}") from None
    if found.year < 2000:
        raise ValueError(f"lies before the year 2000; {MOMENT_HELP}")
    if found.year > _LAST_YEAR:
        raise ValueError(f"lies after the year {_LAST_YEAR}; {MOMENT_HELP}")
    return found.replace(microsecond=0)


def format_moment(value: datetime) -> str:
    """As `moment` reads it back: `2026-12-31T08:00:00Z`."""
    return value.strftime("%Y-%m-%dT%H:%M:%SZ")


def listed(value: object) -> object:
    """One text with commas as a list, so that a form and a command line need no other way."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def model_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """GPU models in the order of preference, each once."""
    cleaned = tuple(name.strip() for name in value)
    for name in cleaned:
        if not name or len(name) > 96:
            raise ValueError("must hold model names of 1 to 96 characters")
        text.refuse_controls(name)
    return _each_once(cleaned)


def node_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of nodes, each once."""
    for name in value:
        if not _NODE_NAME.fullmatch(name):
            raise ValueError(f"{name[:40]!r} is not the name of a node; list names with commas")
    return _each_once(value)


def secret_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Names of kept secrets, each once."""
    if len(value) > MAX_LISTED:
        raise ValueError(f"names {len(value)} secrets; at most {MAX_LISTED} are allowed")
    for name in value:
        if not SLUG.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not the name of a secret; names are lower-case letters, digits "
                "and dashes, such as hub-token"
            )
    return _each_once(value)


def constraints(value: tuple[str, ...]) -> tuple[str, ...]:
    """`label=value` and `label!=value`, each once."""
    found = tuple(one.replace(" ", "") for one in value)
    for one in found:
        if not _CONSTRAINT.fullmatch(one):
            raise ValueError(
                f"{one[:40]!r} is not a constraint; write label=value or label!=value, "
                "such as network=ib"
            )
    return _each_once(found)


def dataset_names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Data sets that operators know by these names, each once."""
    for name in value:
        if not _LICENCE.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not the name of a data set; use lower-case letters, digits, "
                "dots and dashes, such as imagenet-2012"
            )
    return _each_once(value)


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > MAX_LISTED:
        raise ValueError(f"names {len(value)}; at most {MAX_LISTED} are allowed")
    twice = next((one for number, one in enumerate(value) if one in value[:number]), None)
    if twice is not None:
        raise ValueError(f"names {twice[:40]!r} twice; name it once")
    return value


def licence_counts(value: object) -> object:
    """`{name: count}`, or `name=2,other` as one text; a name alone asks for one."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, (list, tuple)):
        pairs = [str(part).partition("=") for part in value]
        names = [name.strip() for name, _, _ in pairs]
        if len(set(names)) != len(names):
            raise ValueError("names a licence twice; name it once with the whole count")
        value = {name.strip(): count.strip() or 1 for name, _, count in pairs}
    return value


def licence_names(value: Mapping[str, int]) -> dict[str, int]:
    """Names of licences and how many tokens of each, from 1 to MAX_TOKENS."""
    if len(value) > MAX_LICENCES:
        raise ValueError(f"names {len(value)} licences; at most {MAX_LICENCES} are allowed")
    for name, count in value.items():
        if not _LICENCE.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not the name of a licence; use lower-case letters, digits, "
                "dots and dashes"
            )
        if not 1 <= count <= MAX_TOKENS:
            raise ValueError(f"asks for {count} of {name}; ask for 1 to {MAX_TOKENS}")
    return dict(value)


def command(value: object) -> object:
    """A line is split as a shell would; a list stays as it is."""
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise ValueError(f"cannot be split into arguments: {error}") from None
    return value


def checked_command(value: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments that can be started; empty means there is none."""
    if value and not value[0].strip():
        raise ValueError("must begin with the program to start")
    for argument in value:
        text.refuse_controls(argument, allowed="\n\r\t\x1b")
    if sum(len(argument.encode()) for argument in value) > text.MAX_COMMAND_BYTES:
        raise ValueError(f"is longer than {text.MAX_COMMAND_BYTES} bytes; put it into a script")
    return value


def slug(value: str) -> str:
    """A pool's or booking's name; empty means none."""
    if value and not SLUG.fullmatch(value):
        raise ValueError(
            f"{given(value)} is no name here; write lower-case letters, digits and dashes, such as "
            "gpu-large"
        )
    return value


def booking(value: object) -> object:
    """A booking's name, or its number as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value.strip() if isinstance(value, str) else value


def project(value: str) -> str:
    """team/project."""
    if not _SLUG_PATH.fullmatch(value):
        raise ValueError(f"must be written team/project, such as vision/digits, not {given(value)}")
    return value


def git_url(value: str) -> str:
    """An address the node may fetch from, without credentials; empty means none."""
    if not value:
        return value
    text.refuse_controls(value)
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        raise ValueError(
            "is not an address; write it like https://git.example.org/team/code.git"
        ) from None
    if parts.scheme not in ("https", "file"):
        raise ValueError("must begin with https://, such as https://git.example.org/code.git")
    if parts.username or parts.password:
        raise ValueError("must not carry a user name or password")
    if parts.scheme == "https" and not host:
        raise ValueError("must name a host, such as https://git.example.org/code.git")
    return value


def git_ref(value: str) -> str:
    """A branch, tag or commit; empty means the default branch."""
    if value and (not _GIT_REF.fullmatch(value) or ".." in value):
        raise ValueError(
            f"{given(value)} is not a branch, tag or commit; write it like main or v1.2"
        )
    return value


Whole = Annotated[int, BeforeValidator(whole)]
Duration = Annotated[int, BeforeValidator(units.parse_duration)]
Size = Annotated[int, BeforeValidator(units.parse_size_mib)]
Path = Annotated[str, AfterValidator(text.clean_path)]
Milli = Annotated[int, BeforeValidator(milli)]
Moment = Annotated[
    datetime | None,
    BeforeValidator(moment),
    PlainSerializer(lambda value: value and format_moment(value), return_type=str | None),
]
