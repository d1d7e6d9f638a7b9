"""Secrets on their way to jobs: which ones a job gets, and their values for the node at work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from accounts.models import AuditEvent, Project, User
from accounts.services.audit import record, subject_of, written
from scheduler.models import Job, MeantSecrets, Node, Placement, Secret
from scheduler.services.errors import Conflict, NotFound
from scheduler.services.secrets.cipher import Unsealable, unseal
from scheduler.services.secrets.keeping import place_of
from scheduler.spec import JobSpec, SpecProblem
from scheduler.states import AttemptState
from scheduler.wire.secrets import SecretsReply, SecretValue

# Running too: the first rank may have begun before the last one's node asks.
_HANDED = (AttemptState.ASSIGNED, AttemptState.STARTING, AttemptState.RUNNING)
_HAND = "secret.hand"


def secret_problems(actor: User, project: Project, names: Sequence[str]) -> list[SpecProblem]:
    """One for each secret that is neither the actor's nor the project's; foreign ones included."""
    if not names:
        return []
    known = _named(actor, project, names)
    words = "there is no secret {!r} of yours or of {}; keep it first with `trainyard secrets set`"
    return [
        SpecProblem("secrets", words.format(name, project.path))
        for name in names
        if name not in known
    ]


def note_meant(actor: User, jobs: Iterable[Job]) -> None:
    """Keep whose secrets each of these new jobs is to get; who makes one later changes nothing.

    A statement to write them, and one for each combination of names; none for jobs without any.
    """
    found: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    rows = []
    for job in jobs:
        if names := tuple(job.spec["secrets"]):
            key = (job.project_id, names)
            if key not in found:
                known = _named(actor, job.project, names)
                found[key] = [name for name, secret in known.items() if secret.owner_id]
            rows.append(MeantSecrets(job=job, own=found[key]))
    MeantSecrets.objects.bulk_create(rows)


@transaction.atomic
def hand_secrets(*, node: Node, fence: int, now: datetime | None = None) -> SecretsReply:
    """The values for an attempt that this node is about to start.

    Those that the submit meant: a person's own, if there was one then, before the project's of the
    same name. Their names go into the audit, once for each attempt and rank. Raises NotFound for
    another node's attempt, Conflict for one that is over or whose secrets are gone.
    """
    placement = (
        Placement.objects.select_related("attempt__job__project__team", "attempt__job__owner")
        .filter(node=node, attempt_id=fence, ended_at__isnull=True)
        # Asked again while the first answer is on its way: one of the two notes it.
        .select_for_update(of=("attempt",), no_key=True)
        .first()
    )
    if placement is None:
        raise NotFound("This node has no such attempt.")
    if placement.attempt.state not in _HANDED:
        raise Conflict("The attempt is ending.", code="ending")
    job = placement.attempt.job
    names = JobSpec.model_validate(job.spec).secrets
    known = _meant(job, names)
    values = []
    for name in names:
        secret = known.get(name)
        try:
            if secret is None:
                raise Unsealable(name)
            value = unseal(secret.sealed, place_of(secret)).decode()
        except Unsealable:
            raise Conflict(
                f"secrets: {name} was deleted, or cannot be opened with the server's key. Set it "
                "again.",
                code="secret_gone",
            ) from None
        values.append(SecretValue(name, value))
    now = now or timezone.now()
    used = [secret.pk for secret in known.values()]
    Secret.objects.filter(pk__in=used).update(used_at=now)
    _note_handed(placement, node, names, now)
    return SecretsReply(tuple(values))


def _note_handed(placement: Placement, node: Node, names: Sequence[str], now: datetime) -> None:
    job = placement.attempt.job
    after = {"attempt": placement.attempt_id, "rank": placement.rank, "node": node.name}
    after |= {"names": list(names)}
    subject = subject_of(job)
    noted = AuditEvent.objects.filter(subject_kind=subject.kind, subject_id=subject.id)
    if not noted.filter(action=_HAND, after=written(after)).exists():
        record(None, _HAND, subject, after=after, now=now)


def _meant(job: Job, names: Sequence[str]) -> dict[str, Secret]:
    """As the submit found them; jobs of before this was kept get what is there now."""
    noted = MeantSecrets.objects.filter(job=job).first()
    if noted is None:
        return _named(job.owner, job.project, names)
    own = Q(owner=job.owner, project=None, name__in=noted.own)
    shared = Q(project=job.project, owner=None, name__in=[*set(names) - set(noted.own)])
    return {secret.name: secret for secret in Secret.objects.filter(own | shared)}


def _named(actor: User, project: Project, names: Iterable[str]) -> dict[str, Secret]:
    mine = Q(project=project, owner=None)
    if actor.bound_project is None:
        # Whoever got hold of a bound token is not to get at what the person keeps for themselves.
        mine |= Q(owner=actor, project=None)
    rows = Secret.objects.filter(mine, name__in=list(names)).select_related("project")
    # The person's own come last and win.
    return {secret.name: secret for secret in sorted(rows, key=lambda one: one.owner_id or 0)}
