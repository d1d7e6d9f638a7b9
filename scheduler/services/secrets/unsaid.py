"""What a person writes about jobs, without the secrets of these jobs: as their logs show it."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Q, QuerySet

from scheduler.models import Job, Secret
from scheduler.services.secrets.cipher import Unsealable, unseal
from scheduler.services.secrets.keeping import SHORTEST, place_of
from scheduler.states import MASK, is_secret_name


def unsaid(text: str, jobs: QuerySet[Job]) -> str:
    """The text with MASK in the place of every value of a kept secret that one of these jobs names,
    and of their variables that are secrets by their names.

    It is masked and not refused: who guesses at a value would learn from a refusal, and nothing
    would have happened. No statement for an empty text, else one, and one more for kept secrets.
    """
    if not text:
        return text
    for value in sorted(_values(jobs), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def _values(jobs: QuerySet[Job]) -> set[str]:
    """Of an array with thousands of tasks this is one row."""
    whose = jobs.order_by().values_list("owner_id", "project_id", "spec__secrets", "spec__env")
    owners, projects, names = set[int](), set[int](), set[str]()
    found: set[str] = set()
    for owner, project, named, env in whose.distinct():
        if named:
            owners.add(owner)
            projects.add(project)
            names.update(named)
        found.update(value for name, value in (env or {}).items() if is_secret_name(name))
    if names:
        theirs = Q(owner__in=owners, project=None) | Q(project__in=projects, owner=None)
        kept = Secret.objects.filter(theirs, name__in=names).select_related("project")
        found.update(value for secret in kept for value in _opened(secret))
    bare = (str(value).strip() for value in found)
    # What logs do not mask for its shortness either is in too many words.
    return {value for value in bare if len(value.encode()) >= SHORTEST}


def _opened(secret: Secret) -> Iterator[str]:
    """A reason is one line, so that each line of a longer value is one, too."""
    try:
        yield from unseal(secret.sealed, place_of(secret)).decode().splitlines()
    except Unsealable:
        return
