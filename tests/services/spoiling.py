"""Hands in the database, one for each promise that rows tell of; the nightly check sees them."""

from __future__ import annotations

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
    UsageEntry,
)
from scheduler.services.reaping import mark_silent
from tests.scenes import at
from tests.services.unlocking import unlocked


def lives_beside_another(house):
    Attempt.objects.filter(number=2).update(assigned_at=at(60))


def device_was_held_twice(house):
    Allocation.objects.filter(placement__attempt__number=2).update(acquired_at=at(100))


def numbers_have_a_hole(house):
    Attempt.objects.filter(number=2).update(number=3)


def final_state_was_left(house):
    Job.objects.filter(name="first").update(state="running")


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


SPOILT = [
    ("I1", lives_beside_another),
    ("I2", device_was_held_twice),
    ("I3", numbers_have_a_hole),
    ("I4", final_state_was_left),
    ("I7", success_without_its_exit),
    ("I8", node_away_and_nobody_cares),
    ("I8", stopping_for_ever),
    ("I9", offered_in_trouble),
    ("I9", handed_out_in_quarantine),
    ("I10", left_quarantine_by_itself),
    ("I11", counted_too_few),
    ("I16", over_and_at_work),
    ("I17", hole_in_a_log),
    ("I20", changed_without_an_event),
    ("I4", move_was_forgotten),
    ("I21", given_up_untried),
    ("I22", charged_too_little),
    ("I22", segments_part),
    ("I25", token_was_used_on),
]
