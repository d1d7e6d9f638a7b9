"""Hands in the database, one for each promise that rows tell of; the nightly check sees them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import F

from accounts.models import ApiToken
from scheduler.models import (
    Allocation,
    Attempt,
    Device,
    Job,
    JobEvent,
    LogChunk,
    Node,
    NodeEvent,
    OutboundMail,
    Placement,
    Quota,
    SubmitKey,
    UsageEntry,
)
from scheduler.services.nodes import create_pool
from scheduler.services.reaping import mark_silent
from tests.scenes import at
from tests.services.unlocking import unlocked


def lives_beside_another(house):
    Attempt.objects.filter(number=2).update(assigned_at=at(60))


def device_was_held_twice(house):
    Allocation.objects.filter(placement__attempt__number=2).update(acquired_at=at(100))


def held_whole_and_in_part(house):
    """The card that is at work and one of its halves, by another rank."""
    held = Allocation.objects.get(released_at__isnull=True)
    card = held.device
    half = Device.objects.create(
        node=card.node, parent=card, uuid=f"{card.uuid}-0", index=card.index, model=card.model,
        memory_mib=1, milli=500, slot=0,
    )  # fmt: skip
    other = Placement.objects.filter(attempt__number=2).first()
    Allocation.objects.create(
        placement=other, device=half, acquired_at=at(3000), released_at=at(3100)
    )


def numbers_have_a_hole(house):
    Attempt.objects.filter(number=2).update(number=3)


def final_state_was_left(house):
    Job.objects.filter(name="first").update(state="running")


def began_twice(house):
    event = JobEvent.objects.filter(job__name="first", to_state="running").first()
    JobEvent.objects.create(
        job=event.job, attempt=event.attempt, at=at(20), kind="running", from_state="starting",
        to_state="running",
    )  # fmt: skip


def ran_beside_the_next(house):
    """As a node tells that comes back long after its rank was given up."""
    Placement.objects.filter(attempt__number=1, attempt__job__name="first").update(
        ran_until=at(190), ran_told_at=at(3000)
    )


def nobody_handed_it_in(house):
    JobEvent.objects.filter(job__name="work", kind="submitted").delete()


def task_is_gone(house):
    Job.objects.get(name="many", array_index=2).delete()


def job_has_two_keys(house):
    key = SubmitKey.objects.get()
    SubmitKey.objects.create(
        user=key.user, key="other", request_hash="x", job=key.job, created_at=at(5)
    )


def key_of_somebody_else(house):
    SubmitKey.objects.update(user=house.root)


def key_names_two_jobs(house):
    """What a database without its constraint would hold; SQLite lets none go in a transaction."""
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL lets a constraint go in a transaction")
    key = SubmitKey.objects.get()
    [named] = [one for one in SubmitKey._meta.constraints if one.name == "submit_key_once_per_user"]
    connection.check_constraints()
    with connection.schema_editor() as editor:
        editor.remove_constraint(SubmitKey, named)
    other = Job.objects.get(name="elastic")
    SubmitKey.objects.create(
        user=key.user, key=key.key, request_hash="x", job=other, created_at=at(5)
    )


def piece_of_another_attempt(house):
    piece = LogChunk.objects.first()
    LogChunk.objects.filter(pk=piece.pk).update(path="logs/000/999999/0/x")


def secret_in_an_event(house):
    JobEvent.objects.filter(job__name="work", kind="running").update(
        detail={"said": 'got hush"hush'}
    )


def secret_as_a_reason(house):
    Placement.objects.filter(attempt__job__name="work").update(detail='x hush"hush')


def nobody_looked_at_it(house):
    Job.objects.filter(name="many").update(wait_reason="evaluating")


def nobody_could_start_it(house):
    Job.objects.filter(name="many").update(wait_reason="start_dropped")


def success_without_its_exit(house):
    Placement.objects.filter(attempt__number=2).update(exit_code=None)


def node_away_and_nobody_cares(house):
    Node.objects.update(last_seen_at=at(-8000))
    mark_silent(now=at(-7200))


def stopping_for_ever(house):
    Attempt.objects.exclude(state="ended").update(stopping_at=at(-7200))


def offered_in_trouble(house):
    Device.objects.update(trouble="xid")


def handed_out_in_quarantine(house):
    NodeEvent.objects.create(
        node=house.node(1), at=at(5), kind="device_quarantined", from_state="healthy",
        to_state="quarantined", detail={"reason": "GPU 0: fell off"},
    )  # fmt: skip


def left_quarantine_by_itself(house):
    NodeEvent.objects.create(
        node=house.node(1), at=at(5), kind="heard_again", from_state="quarantined",
        to_state="ready",
    )  # fmt: skip


def counted_too_few(house):
    Quota.objects.update(held=F("held") - 1)


def over_and_at_work(house):
    Job.objects.filter(name="work").update(state="succeeded", ended_at=at(300))


def hole_in_a_log(house):
    LogChunk.objects.filter(offset=4).update(offset=5)


def changed_without_an_event(house):
    Job.objects.filter(name="first").update(version=F("version") + 1)


def move_was_forgotten(house):
    JobEvent.objects.filter(job__name="first", kind="ended").delete()


def given_up_untried(house):
    OutboundMail.objects.update(sent_at=None, given_up_at=at(30), tries=0)


def charged_too_little(house):
    UsageEntry.objects.filter(attempt__number=2).update(gpu_seconds=3)


def segments_part(house):
    with unlocked(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE scheduler_devicesegment SET end_s = end_s - 1 WHERE bucket = 'run' "
            "AND end_s IS NOT NULL"
        )


def token_was_used_on(house):
    ApiToken.objects.update(last_used_at=at(60))


def at_work_outside_its_pool(house):
    Job.objects.filter(name="work").update(pool=create_pool(actor=house.root, name="elsewhere"))


SPOILT = [
    ("I1", lives_beside_another),
    ("I2", device_was_held_twice),
    ("I2", held_whole_and_in_part),
    ("I3", numbers_have_a_hole),
    ("I4", final_state_was_left),
    ("I5", began_twice),
    ("I6", ran_beside_the_next),
    ("I7", success_without_its_exit),
    ("I8", node_away_and_nobody_cares),
    ("I8", stopping_for_ever),
    ("I9", offered_in_trouble),
    ("I9", handed_out_in_quarantine),
    ("I10", left_quarantine_by_itself),
    ("I11", counted_too_few),
    ("I14", nobody_handed_it_in),
    ("I14", task_is_gone),
    ("I15", job_has_two_keys),
    ("I15", key_of_somebody_else),
    pytest.param("I15", key_names_two_jobs, marks=pytest.mark.postgres),
    ("I16", over_and_at_work),
    ("I17", hole_in_a_log),
    ("I18", piece_of_another_attempt),
    ("I19", secret_in_an_event),
    ("I19", secret_as_a_reason),
    ("I20", changed_without_an_event),
    ("I4", move_was_forgotten),
    ("I21", given_up_untried),
    ("I22", charged_too_little),
    ("I22", segments_part),
    ("I25", token_was_used_on),
    ("I38", at_work_outside_its_pool),
    ("I26", nobody_looked_at_it),
    ("I26", nobody_could_start_it),
]
