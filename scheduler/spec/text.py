"""What text may hold: the rules for names, paths, commands and environment variables."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator

from scheduler.states import Wish

MAX_NAME = 128
MAX_TEXT = 4096
MAX_GROUP = 64
MAX_COMMAND_BYTES = 128 * 1024
MAX_ENV_COUNT = 256
MAX_ENV_BYTES = 32 * 1024
# Arrays up to this size may tell of each task: nobody is to get a thousand mails.
MOST_TOLD_TASKS = 50

# Set by the node for every rank; a user's value would break placement, isolation or billing.
RESERVED_ENV_NAMES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PATH", "HOME", "TMPDIR",
        "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "NODE_RANK", "GROUP_RANK", "NNODES", "NPROC_PER_NODE", "BASH_ENV", "ENV", "IFS",
    }
)  # fmt: skip
RESERVED_ENV_PREFIXES = ("LD_", "PET_", "TRAINYARD_")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/@+-]{0,63}", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_INVISIBLE = {"Cc", "Cs", "Co", "Cn"}
# Marks on a letter and around it.
_STACKED = {"Mn", "Me"}


def clean_name(value: str) -> str:
    """A one-line display name, trimmed and in Unicode NFC; raises ValueError that says why."""
    text = unicodedata.normalize("NFC", value).strip()
    if not text:
        raise ValueError("must not be empty")
    if len(text) > MAX_NAME:
        raise ValueError(f"is longer than {MAX_NAME} characters")
    refuse_controls(text)
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in _STACKED else 0
        if marks > 4:
            raise ValueError("stacks more than 4 combining marks on one letter")
    if not any(unicodedata.category(char)[0] in "LNSP" for char in text):
        raise ValueError("must hold at least one visible character")
    return text


def clean_group(value: str) -> str:
    """The name of a group of which the newest counts, trimmed, "" for none; raises ValueError."""
    name = value.strip()
    if name and not _GROUP.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} is not the name of a group; write up to {MAX_GROUP} letters, digits "
            "and . _ / @ + -, such as eval/main"
        )
    return name


def group_problems(group: str, policy: str, is_session: bool) -> Iterator[tuple[str, str]]:
    """(field, words) where a group says nothing, or is none of a session."""
    if policy != "wait" and not group:
        yield "group_policy", "says what becomes of those of its group that run; name the group too"
    if group and is_session:
        yield "group", "is for programs that end by themselves, not for sessions; remove it"


def refuse_controls(text: str, *, allowed: str = "") -> None:
    """Raise ValueError when `text` holds control characters other than `allowed`."""
    for char in text:
        if char not in allowed and unicodedata.category(char) in _INVISIBLE:
            raise ValueError(f"holds the control character U+{ord(char):04X}; remove it")


def clean_text(value: str, limit: int = MAX_TEXT) -> str:
    """Several lines of free text."""
    if len(value) > limit:
        raise ValueError(f"is longer than {limit} characters")
    refuse_controls(value, allowed="\n\r\t")
    return value


def clean_path(value: str) -> str:
    """An absolute path on the node without `..`; empty means the default."""
    if not value:
        return ""
    if len(value) > 1024:
        raise ValueError("is longer than 1024 characters")
    refuse_controls(value)
    if not value.startswith("/"):
        raise ValueError("must be an absolute path on the node, such as /data/project")
    if ".." in value.split("/"):
        raise ValueError("must not contain '..'")
    return value


def clean_env(value: dict[str, str]) -> dict[str, str]:
    """Environment variables a user may set; raises ValueError that names the first bad one."""
    if len(value) > MAX_ENV_COUNT:
        raise ValueError(f"has {len(value)} variables; at most {MAX_ENV_COUNT} are allowed")
    total = 0
    for name, text in value.items():
        if not _ENV_NAME.fullmatch(name):
            raise ValueError(
                f"{name[:40]!r} is not a variable name; use letters, digits and underscores"
            )
        if name in RESERVED_ENV_NAMES or name.startswith(RESERVED_ENV_PREFIXES):
            raise ValueError(f"{name} is set by Trainyard itself; choose another name")
        refuse_controls(text, allowed="\n\r\t\x1b")
        total += len(name) + len(text.encode())
    if total > MAX_ENV_BYTES:
        raise ValueError(f"takes {total} bytes in all; at most {MAX_ENV_BYTES} are allowed")
    return value


def wishes(value: tuple[str, ...]) -> tuple[str, ...]:
    """What a job's owner is told of (`notify`), in the order of `Wish`, each word once."""
    asked = {word.strip().lower() for word in value}
    if unknown := sorted(asked - set(Wish)):
        raise ValueError(f"{unknown[0][:40]!r} is none of {', '.join(Wish)}")
    if Wish.NONE in asked and len(asked) > 1:
        raise ValueError("none stands alone; remove it or the other words")
    if asked == {Wish.ARRAY}:
        raise ValueError("array says that each task is told of; name of what, such as fail,array")
    return tuple(str(word) for word in Wish if word in asked)


def notify_problems(asked: Collection[str], tasks: int) -> Iterator[tuple[str, str]]:
    """(field, words) where an array of so many tasks may not tell of each."""
    if Wish.ARRAY in asked and tasks > MOST_TOLD_TASKS:
        words = f"tells of each task of up to {MOST_TOLD_TASKS}; leave array out to be told once"
        yield "notify", f"{words} for all {tasks}"
