"""What several people hold, read at once: the same as of each alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.held import grants_of, read_grants_of
from accounts.models import Delegation, User
from accounts.services.delegations import delegate

pytestmark = pytest.mark.django_db


def test_it_is_what_each_holds_in_a_fixed_number_of_statements(
    root, alice, bob, carol, lead, finance, team, django_assert_num_queries
):
    begin = timezone.now()
    until = begin + timedelta(days=2)
    for deputy in (bob, carol):
        delegate(
            actor=lead,
            deputy=deputy,
            scope="manage_team",
            team=team,
            starts_at=begin,
            ends_at=until,
            reason="away",
        )
    assert Delegation.objects.count() == 2
    numbers = [one.pk for one in (root, alice, bob, carol, lead, finance)]
    alone = {one.pk: grants_of(one) for one in User.objects.filter(pk__in=numbers)}
    together = list(User.objects.filter(pk__in=numbers))
    with django_assert_num_queries(2):
        read_grants_of(together)
    with django_assert_num_queries(0):
        read_grants_of(together)
        assert {one.pk: grants_of(one) for one in together} == alone
    assert len(alone[bob.pk].acts_for) == 1
