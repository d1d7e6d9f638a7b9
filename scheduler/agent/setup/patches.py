"""What of the local changes to a job's code leaves the node: everything but its secrets.

Masked are the job's own secrets in every form its log would mask, keys and tokens that their makers
gave a form that can be told, and text that is set to a name which says it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from scheduler.agent.runtime.records import LaunchRecord
from scheduler.agent.runtime.redaction import SHORTEST, Redactor, secrets_of
from scheduler.states import MASK, is_secret_name

# As GitHub, GitLab, AWS, Slack, Hugging Face, OpenAI and Google publish them for scanners;
# the last ones are our own.
_TOKENS = re.compile(
    r"\b(?:gh[pousr]_\w{36,255}|github_pat_\w{22,255}|glpat-[\w-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|ty[an]?_[\w-]{32,}|xox[abeoprs]-[\w-]{10,}|hf_[A-Za-z]{34}|sk-[\w-]{20,}|AIza[\w-]{35})"
)
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_KEY_ENDS = re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
# `name = "text"`, `"name": "text"` and lines of .env files; code that computes a value stays, and
# so do words of language models such as `eos_token = "<|end|>"`.
_SET = re.compile(
    r"""(?<![\w-])(?P<name>[A-Za-z_][\w-]{0,99})["']?\s{0,9}[:=]\s{0,9}"""
    r"""(?P<mark>["'])(?P<text>[^"'\s<>{}\[\]]+)(?P=mark)"""
)
_BARE = re.compile(
    r"""^[ +-](?:export\s+)?(?P<name>[A-Z][A-Z0-9_]{0,99})=(?P<text>[^\s"'$(]\S*)$"""
)


def clean_patch(launch: LaunchRecord) -> LaunchRecord:
    """The same launch, its patch without secrets."""
    if not launch.code_patch:
        return launch
    return replace(launch, code_patch=without_secrets(launch.code_patch, secrets_of(launch)))


def without_secrets(patch: str, secrets: Iterable[str]) -> str:
    """The patch with `***` where a secret was; its lines stay lines."""
    redactor = Redactor(secrets)
    raw = patch.encode("utf-8", "replace")
    known = (redactor.feed(raw) + redactor.finish()).decode("utf-8", "replace")
    kept, in_key = [], False
    for line in known.split("\n"):
        if in_key or _KEY_BEGINS.search(line):
            in_key = not _KEY_ENDS.search(line)
            # What is no content of a file ends a key that was cut.
            in_key = in_key and line[:1] in ("+", "-", " ")
            kept.append(line[:1] + MASK if line[:1] in ("+", "-", " ") else line)
            continue
        line = _SET.sub(_masked, _TOKENS.sub(MASK, line))
        kept.append(_BARE.sub(_masked, line))
    return "\n".join(kept)


def _masked(found: re.Match[str]) -> str:
    name = found["name"].lower().replace("-", "_")
    if not is_secret_name(name) or len(found["text"].encode()) < SHORTEST:
        return found[0]
    begin, end = (at - found.start() for at in found.span("text"))
    return found[0][:begin] + MASK + found[0][end:]
