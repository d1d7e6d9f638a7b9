"""The call before a start that needs secrets: nothing but the fence goes, values come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretValue:
    """A kept secret on its way to a job's file; never stored on the way."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class SecretsReply:
    """What an attempt that is about to start gets as files."""

    secrets: tuple[SecretValue, ...] = ()
