"""What a service refuses, in words that name the cause and the remedy.

Faces translate: `status` is the HTTP answer of the API, `field` the form field to mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime


class DomainError(Exception):
    """A refusal; `code` is stable, `detail` is for people, `facts` for programs."""

    status = 400
    code = "refused"

    def __init__(
        self,
        detail: str,
        *,
        field: str = "",
        code: str = "",
        facts: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.field = field
        self.code = code or self.code
        self.facts = dict(facts or {})


class NotFound(DomainError):
    """Missing, or not for this viewer: both look the same."""

    status = 404
    code = "not_found"

    def __init__(self, detail: str = "There is no such thing here.", **more: object) -> None:
        super().__init__(detail, **more)  # type: ignore[arg-type]


class Forbidden(DomainError):
    """Visible, but this action is not for this actor."""

    status = 403
    code = "forbidden"


class Conflict(DomainError):
    """The thing is not in a state that allows it."""

    status = 409
    code = "conflict"


class Invalid(DomainError):
    """A value that cannot be accepted; `field` names it."""

    status = 422
    code = "invalid"


class IdempotencyConflict(DomainError):
    """The same idempotency key came with another body."""

    status = 422
    code = "idempotency_key_reused"


class StaleVersion(DomainError):
    """The thing has changed since the client read it; `facts["version"]` is the current one."""

    status = 412
    code = "stale_version"


def moment_words(at: datetime) -> str:
    """A moment in what is refused, as `scheduler.states` says it: `31 Dec 2026, 08:00 UTC`."""
    return f"{at.astimezone(UTC):%-d %b %Y, %H:%M} UTC"
