"""An administrator sees what a role sees: through the eyes of nobody, and with nobody's things.

A preview is a user that is in no table, with the rights of the role's groups. It owns nothing, so
it shows nobody's tokens, secrets, drafts or notifications; and an administrator may do whatever a
role may, so it shows nothing that they could not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from accounts.errors import Forbidden, Invalid
from accounts.models import AuditEvent, OrganisationRole, Role, Team, User
from accounts.permissions import can
from accounts.policy import ORGANISATION, TEAM
from accounts.services.audit import Subject, record, written

# Requests that began before its end was told are over by then.
_LATE = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Preview:
    """A role of a team, or one of the organisation; until when."""

    role: str
    team: Team | None
    until: datetime

    @property
    def words(self) -> str:
        """Who sees this."""
        if self.team is not None:
            return f"{Role(self.role).label} of {self.team.name}"
        return f"{OrganisationRole(self.role).label} of the organisation"


def kept_preview(role: str, team_id: int | None, until: datetime) -> Preview | None:
    """One that was begun, from what was kept of it; None when its team is gone."""
    team = Team.objects.filter(pk=team_id).first() if team_id else None
    return None if team_id and team is None else Preview(role, team, until)


def preview_as(preview: Preview) -> User:
    """Somebody with the rights of that role and nothing else; not to be saved."""
    if preview.team is not None:
        group = f"{TEAM}{preview.team.pk}:{preview.role}"
    else:
        group = ORGANISATION + preview.role
    seen = User(pk=0, username="preview", display_name=preview.words)
    seen.preview_groups = frozenset({group})
    seen.scope = f"team:{preview.team.slug}" if preview.team is not None else None
    return seen


@transaction.atomic
def begin_preview(*, actor: User, role: str, team: Team | None, until: datetime) -> Preview:
    """On record before anything is shown. Raises Invalid for a role that is not there."""
    if not can(actor, "administer_cluster", None):
        raise Forbidden("Only administrators see the portal as a role sees it.")
    known = set(Role.values) if team else set(OrganisationRole.values) - {OrganisationRole.ADMIN}
    if role not in known:
        raise Invalid(f"Choose one of {', '.join(sorted(known))}.", field="role")
    preview = Preview(role, team, until)
    record(actor, "preview.begin", _subject(preview), after={"role": role, "until": until})
    return preview


@transaction.atomic
def end_preview(*, actor: User, preview: Preview, reason: str) -> None:
    """Why it ended is on record, too: once, whichever of several requests found it over."""
    User.objects.select_for_update(no_key=True).get(pk=actor.pk)
    after = {"until": preview.until}
    told = AuditEvent.objects.filter(
        actor_name=actor.username,
        action="preview.end",
        after=written(after),
        at__gt=timezone.now() - _LATE,
    )
    if not told.exists():
        record(actor, "preview.end", _subject(preview), after=after, reason=reason)


def _subject(preview: Preview) -> Subject:
    team_id = preview.team.pk if preview.team else None
    return Subject("preview", preview.role, preview.words, team_id)
