"""Recording who changed what: one insert, in the transaction of the change itself.

Call `record` after the change and inside its transaction: either both are there or neither. Nothing
is chained here, so that writers never wait for one another; see `accounts/services/sealing.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import models, transaction
from django.utils import timezone

from accounts.errors import Forbidden, Invalid
from accounts.models import ApiToken, AuditEvent, Project, Team, User
from accounts.origin import current_origin

# The first word of an action says whose concern it is, beside the team's.
AREAS = {
    **dict.fromkeys(
        (
            "booking",
            "bulk_cancel",
            "device",
            "licence",
            "node",
            "policy",
            "pool",
            "queue",
            "quota",
            "window",
        ),
        "cluster",
    ),
    **dict.fromkeys(
        (
            "adjustment",
            "asset",
            "budget",
            "export",
            "ledger",
            "period",
            "rate",
            "refund",
            "share",
        ),
        "money",
    ),
    **dict.fromkeys(
        (
            "address",
            "channel",
            "delegation",
            "group_rule",
            "identity",
            "invitation",
            "member",
            "person",
            "preview",
            "role",
            "secret",
            "service_account",
            "token",
        ),
        "people",
    ),
}
HIDDEN = "(not recorded)"
_SECRET = re.compile(r"password|secret|token_hash|private|credential|api_key", re.IGNORECASE)
_ACTION = re.compile(r"[a-z_]+\.[a-z_]+", re.ASCII)
REFUSAL = "job.refuse"
_SPAN = timedelta(hours=1)
_MOST_IN_A_SPAN = 10
_MAX_STATE = 16_384
MAX_REASON = 1_000
_MAX_LABEL = 255


@dataclass(frozen=True, slots=True)
class Subject:
    """What a change is about where it is no row: an export, a month, the cluster."""

    kind: str
    id: str = ""
    label: str = ""
    team_id: int | None = None


def record(
    actor: User | None,
    action: str,
    subject: models.Model | Subject,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    on_behalf_of: User | None = None,
    reason: str = "",
    now: datetime | None = None,
) -> AuditEvent:
    """Add one event; call it in the transaction of the change.

    `action` is `noun.verb` ("team.rename"); `before` and `after` hold only what is different, and
    never secrets: values under names that sound like one are left out. `actor` None is the system.
    Raises ValueError for an action of another form.
    """
    if not _ACTION.fullmatch(action):
        raise ValueError(f"action: {action!r} is not of the form noun.verb")
    if actor is not None and actor.is_preview:
        raise Forbidden("This is a preview of a role: it changes and takes out nothing.")
    about = subject if isinstance(subject, Subject) else subject_of(subject)
    here = current_origin()
    return AuditEvent.objects.create(
        at=now or timezone.now(),
        actor_id=actor.pk if actor else None,
        actor_name=actor.username if actor else "",
        on_behalf_of_id=on_behalf_of.pk if on_behalf_of else None,
        on_behalf_of_name=on_behalf_of.username if on_behalf_of else "",
        action=action,
        area=AREAS.get(action.partition(".")[0], ""),
        team_id=about.team_id,
        subject_kind=about.kind,
        subject_id=about.id,
        subject_label=_clean(about.label)[:_MAX_LABEL],
        request_id=here.request_id,
        ip=here.ip,
        user_agent=here.user_agent,
        before=written(before),
        after=written(after),
        reason=_clean(reason)[:MAX_REASON],
    )


def reason_of(text: str) -> str:
    """A reason as it is kept, where one has to be given; raises Invalid that names `reason`."""
    reason = text.replace("\x00", "").strip()
    if not reason:
        raise Invalid("reason: say why, for those who look at the audit.", field="reason")
    if len(reason) > MAX_REASON:
        raise Invalid(f"reason: at most {MAX_REASON} characters.", field="reason")
    return reason


@transaction.atomic
def record_refusal(
    *, actor: User, fields: Iterable[str], now: datetime | None = None
) -> AuditEvent | None:
    """Put on record that `actor` sent these fields of a job; nothing else was changed.

    None where it is no news: the same fields within the hour, or the eleventh refusal in it.
    """
    if actor.is_preview:
        return None
    now = now or timezone.now()
    names = sorted({field.rpartition(".")[2] for field in fields})
    after = {"fields": names}
    lately = AuditEvent.objects.filter(
        actor_name=actor.username, action=REFUSAL, at__gt=now - _SPAN
    ).values_list("after", flat=True)[:_MOST_IN_A_SPAN]
    if len(lately) == _MOST_IN_A_SPAN or written(after) in lately:
        return None
    label = f"a job with the fields {', '.join(names)}"
    about = Subject("job", label=label, team_id=actor.service_team_id)
    return record(actor, REFUSAL, about, after=after, now=now)


def subject_of(row: models.Model) -> Subject:
    """Kind, id, name and team of a row; the team is its own, its project's or itself.

    A program's account and its tokens are its team's. A person's tokens are their own, also those
    that are bound to a project: what is kept of them names addresses.
    """
    return Subject(
        kind=str(row._meta.model_name),
        id=str(row.pk),
        label=str(row),
        team_id=_team_of(row),
    )


def pictured(row: models.Model, *fields: str) -> dict[str, Any]:
    """These fields of a row as they are now, for `before` and `after`."""
    return {field: getattr(row, field) for field in fields}


def _team_of(row: models.Model) -> int | None:
    if isinstance(row, Team):
        return row.pk
    if isinstance(row, Project):
        return row.team_id
    if isinstance(row, ApiToken):
        row = row.user
    if isinstance(row, User):
        return row.service_team_id
    found: int | None = getattr(row, "team_id", None)
    if found is None and getattr(row, "project_id", None) is not None:
        found = row.project.team_id  # type: ignore[attr-defined]
    return found


def written(state: Mapping[str, Any] | None) -> str:
    """A state as canonical JSON (keys sorted, no spaces), without secrets; empty for None."""
    if state is None:
        return ""
    text = json.dumps(
        _plain(state), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    if len(text) <= _MAX_STATE:
        return _clean(text)
    return json.dumps({"…": f"{len(text)} characters are too many to keep"}, ensure_ascii=False)


def _plain(value: Any, name: str = "") -> Any:
    if name and _SECRET.search(name):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(key): _plain(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(item) for item in items]
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def _clean(text: str) -> str:
    """Text that every database takes and no reader of a log mistakes for two lines."""
    text = text.encode("utf-8", "replace").decode()
    return "".join(c if c.isprintable() else " " for c in text)
