"""What a person changes is on record: services with an actor record, or say here why not."""

from __future__ import annotations

import pytest

from tests.architecture.calls import Function, functions, reaches

RECORD = "accounts.services.audit.record"
EVERY = functions()
# Each with its reason; an entry that is not needed any more fails.
NOT_RECORDED = {
    "scheduler.services.secrets.handing.note_meant": "a step of submit_job",
    "accounts.services.people.keep_columns": "which columns one's own table has",
    "accounts.services.people.keep_scope": "what one's own pages are narrowed to",
    "scheduler.services.composing.drafts.save_draft": "one's own notes; nothing comes of them yet",
    "scheduler.services.composing.drafts.drop_draft": "one's own notes; nothing came of them",
    "scheduler.services.holding.moves.cancel_each": "one's own, by the submit of a newer one",
    "scheduler.services.holding.moves.cancel_waiting": "cancel_set records the set as a whole",
    "scheduler.services.inbox.hours.set_hours": "when one wants to be told oneself",
    "scheduler.services.inbox.sorting.choose_kind": "where one's own notifications arrive",
    "scheduler.services.inbox.sorting.mark_read": "one's own notifications, read",
    "scheduler.services.inbox.sorting.mute": "what one does not want to hear oneself",
    "scheduler.services.inbox.watching.unwatch_job": "what one wants to hear of others no more",
    "scheduler.services.inbox.watching.unwatch_set": "what one wants to hear of others no more",
    "scheduler.services.inbox.watching.watch_job": "what one wants to hear of others",
    "scheduler.services.inbox.watching.watch_set": "what one wants to hear of others",
    "scheduler.services.inbox.sorting.unmute": "what one wants to hear oneself again",
    "scheduler.services.saved.keeping.delete_view": "one's own way of looking at a table",
    "scheduler.services.saved.keeping.rename_view": "one's own way of looking at a table",
    "scheduler.services.saved.keeping.set_default": "one's own way of looking at a table",
}


def told(start: str) -> bool:
    return any(
        isinstance(found, Function) and found.name == RECORD for found in reaches(start, EVERY)
    )


def writes(start: str) -> bool:
    return any(isinstance(found, Function) and found.writes for found in reaches(start, EVERY))


ACTING = sorted(
    name
    for name, function in EVERY.items()
    if function.has_actor
    and not function.name.rpartition(".")[2].startswith("_")
    and not name.startswith("accounts.services.audit.")
    and writes(name)
)


def test_there_are_services_to_look_at():
    assert len(ACTING) > 40
    assert told("accounts.services.teams.rename_team")


@pytest.mark.parametrize("name", ACTING)
def test_a_service_with_an_actor_records(name):
    if name in NOT_RECORDED:
        assert not told(name), f"{name} records; take it off the list"
    else:
        assert told(name), f"{name} changes something and records nothing"


def test_the_list_names_services_that_are_there():
    assert NOT_RECORDED.keys() <= set(ACTING)
    assert all(len(reason) > 10 for reason in NOT_RECORDED.values())
