"""What a job waits for, who waits for it, and how it stands to its moment, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rest_framework import serializers

from scheduler.selectors.waits.waiters import Waiters
from scheduler.states import DependencyKind, Finish, FinishPolicy, Outlook


class AwaitedSetShape(serializers.Serializer[Any]):
    """An array that the job waits for: of `size` tasks, `done` have ended, or for `after` started
    or ended."""

    id = serializers.IntegerField()
    kind = serializers.ChoiceField([str(kind) for kind in DependencyKind])
    size = serializers.IntegerField()
    done = serializers.IntegerField()
    words = serializers.CharField()


class AwaitedJobShape(serializers.Serializer[Any]):
    """A job that it waits for. `ends_by`: at its time limit, where it runs; `starts_by`: by when it
    has started in nine of ten cases, where it waits. `state` is empty of one that you may not see.
    """

    id = serializers.IntegerField()
    state = serializers.CharField(allow_blank=True)
    ends_by = serializers.DateTimeField(allow_null=True)
    starts_by = serializers.DateTimeField(allow_null=True)


class WaitedForBy(serializers.Serializer[Any]):
    """Who waits for it and is held, of those you may see: numbers of `jobs`, and of `sets`, each
    once for all its tasks; ten in all, and `has_more`."""

    jobs = serializers.ListField(child=serializers.IntegerField())
    sets = serializers.ListField(child=serializers.IntegerField())
    has_more = serializers.BooleanField()


class FinishShape(serializers.Serializer[Any]):
    """How a job that waits, or is not submitted, stands to the moment it has to be finished by.

    `slack_s`: what is left between its end in half of all cases and the moment, negative if it is
    expected to be late; of one that is cancelled when late between its start and the latest one
    that leaves its time limit. `end_p50_at` and `end_p90_at`: by when it has ended in half of all
    cases, and in nine of ten. Null: nobody knows. Of an array: its last task, at the latest.
    """

    finish_by = serializers.DateTimeField()
    finish_by_policy = serializers.ChoiceField(list(FinishPolicy))
    outlook = serializers.ChoiceField(list(Outlook))
    end_p50_at = serializers.DateTimeField(allow_null=True)
    end_p90_at = serializers.DateTimeField(allow_null=True)
    slack_s = serializers.IntegerField(allow_null=True)
    sentence = serializers.CharField()


def show_waiters(found: Waiters) -> dict[str, Any]:
    """Who waits as WaitedForBy."""
    return {
        "jobs": [one.number for one in found.shown if not one.is_set],
        "sets": [one.number for one in found.shown if one.is_set],
        "has_more": found.has_more,
    }


def show_finish(finish: Finish | None) -> dict[str, Any] | None:
    """Null unless it has a moment to be finished by, and waits."""
    return asdict(finish) if finish else None
