"""Setting and deleting secrets. Nobody, not even who set it, reads a value again."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from accounts.models import Project, User
from accounts.permissions import can, managed_for
from accounts.services.audit import Subject, record
from scheduler.models import Secret
from scheduler.services.errors import Forbidden, Invalid, NotFound
from scheduler.services.secrets.cipher import seal
from scheduler.spec.values import SLUG

# Shorter ones cannot be masked in logs without blackening ordinary words; longer ones cannot be
# searched for while a program talks.
SHORTEST, LONGEST = 6, 8192
MOST = 200


@transaction.atomic
def set_secret(
    *,
    actor: User,
    name: str,
    value: str,
    project: Project | None = None,
    now: datetime | None = None,
) -> Secret:
    """Keep `value` for the actor, or for a project that the actor manages; replaces an older one.

    Raises Invalid, NotFound for a project that the actor does not see, Forbidden.
    """
    _require(actor, project)
    _check_name(name)
    _check_value(value)
    now = now or timezone.now()
    keeper = _keeper(actor, project)
    known = Secret.objects.select_for_update().filter(**keeper, name=name).first()
    if known is None and Secret.objects.filter(**keeper).count() >= MOST:
        raise Invalid(f"There are {MOST} secrets already; delete one first.", field="name")
    secret = known or Secret(**keeper, name=name, created_at=now)
    secret.sealed = seal(value.encode(), place_of(secret))
    secret.set_by, secret.set_at = actor, now
    try:
        with transaction.atomic():
            secret.save()
    except IntegrityError:
        # Somebody has set it for the first time in this moment; this value is the later one.
        known = Secret.objects.select_for_update().get(**keeper, name=name)
        secret.pk, secret.created_at = known.pk, known.created_at
        secret.save(force_update=True)
    giver = managed_for(actor, project) if project else None
    after = {"replaced": known is not None}
    record(actor, "secret.set", subject_of(secret), after=after, on_behalf_of=giver)
    return secret


@transaction.atomic
def delete_secret(*, actor: User, secret: Secret) -> None:
    """Forget it; jobs that name it fail from then on. Raises NotFound, Forbidden."""
    if secret.project is None and secret.owner_id != actor.pk:
        raise NotFound("There is no such secret of yours.")
    _require(actor, secret.project)
    subject = subject_of(secret)
    giver = managed_for(actor, secret.project) if secret.project else None
    Secret.objects.filter(pk=secret.pk).delete()
    record(actor, "secret.delete", subject, on_behalf_of=giver)


def place_of(secret: Secret) -> str:
    """Where a value belongs; it opens nowhere else."""
    keeper = f"person:{secret.owner_id}" if secret.owner_id else f"project:{secret.project_id}"
    return f"{keeper}/{secret.name}"


def subject_of(secret: Secret) -> Subject:
    """How the audit names it."""
    team = secret.project.team_id if secret.project else None
    whose = secret.project.path if secret.project else "a person"
    return Subject("secret", str(secret.pk), f"{secret.name} of {whose}", team)


def _require(actor: User, project: Project | None) -> None:
    if project is None:
        return
    if not can(actor, "view_project", project):
        raise NotFound("There is no such project for you.")
    if not can(actor, "manage_project", project):
        raise Forbidden("Only who leads the project may change its secrets. Ask a lead.")


def _keeper(actor: User, project: Project | None) -> dict[str, User | Project | None]:
    return {"owner": None if project else actor, "project": project}


def _check_name(name: str) -> None:
    if not SLUG.fullmatch(name):
        raise Invalid(
            "A secret's name is lower-case letters, digits and dashes, such as hub-token.",
            field="name",
        )


def _check_value(value: str) -> None:
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise Invalid("The value holds a NUL or a lone surrogate; remove it.", field="value")
    size = len(value.encode())
    if len(value.strip().encode()) < SHORTEST:
        raise Invalid(
            f"The value is shorter than {SHORTEST} bytes, too short to be masked in logs. Use a "
            "longer one.",
            field="value",
        )
    if size > LONGEST:
        raise Invalid(
            f"The value is {size} bytes long; at most {LONGEST} are kept. Split it.", field="value"
        )
