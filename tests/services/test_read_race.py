"""Readings of a call that takes long are in a sum or read raw, on PostgreSQL as well."""

from __future__ import annotations

import threading

import pytest
from django.db import connections, transaction
from django.utils import timezone

from scheduler.models import HoursSummed, Pool
from scheduler.services.timeline.readings import late

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.django_db(transaction=True),
]


def test_sums_end_before_the_oldest_that_may_still_write():
    has_begun, may_end = threading.Event(), threading.Event()

    def call():
        try:
            with transaction.atomic():
                Pool.objects.create(name="written")
                has_begun.set()
                may_end.wait(30)
        finally:
            connections.close_all()

    assert late.writing_for_s() == 0
    other = threading.Thread(target=call)
    other.start()
    assert has_begun.wait(30)
    first = late.writing_for_s()
    assert 0 < first < late.writing_for_s(), "it goes on"
    now = timezone.now()
    due_s = late.begin(now).due_s
    assert due_s <= now.timestamp() - first - late.YOUNG_S
    may_end.set()
    other.join()
    assert late.writing_for_s() == 0
    assert HoursSummed.objects.get().aims_s == due_s
