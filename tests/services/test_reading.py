"""Queries whose statement is built once give what the queries themselves give."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.models import Device, Node
from scheduler.services.rows.reading import BuiltOnce
from scheduler.services.timeline.segments import _facts_known, _known_of_devices
from tests import scenes
from tests.scenes import NOON, start, submit

pytestmark = pytest.mark.django_db


def test_rows_are_those_of_the_query_for_any_number_of_ids(root, alice, project):
    cluster = scenes.build_cluster(root, gpus=8)
    start(submit(alice, project), cluster.node(1))
    every = list(Device.objects.order_by("pk").values_list("pk", flat=True))
    built = BuiltOnce(_known_of_devices)
    for count in (1, 3, 7, 8, 5, 2):
        ids = every[:count]
        asked = _facts_known(Device.objects.filter(pk__in=ids), NOON)
        assert built.rows(ids, NOON) == list(asked)
    assert built.rows([], NOON) == []
    with CaptureQueriesContext(connection) as seen:
        built.rows(every[:8], NOON)
    assert len(seen) == 1


def _heard_since(ids, now):
    late = Node.objects.filter(pk__in=ids, last_seen_at__gt=now - timedelta(hours=1))
    return late.values_list("pk")


def test_a_query_that_reckons_with_its_arguments_is_refused(root):
    """Its first answer would be frozen into the statement."""
    with pytest.raises(ValueError, match="cannot be built once"):
        BuiltOnce(_heard_since).rows([1], NOON)
