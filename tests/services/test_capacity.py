"""What may be guaranteed in all: no more than there is, unless somebody else decides."""

from __future__ import annotations

from decimal import Decimal

import pytest

from accounts.services import create_team, set_rate
from scheduler.models import Headroom
from scheduler.models.cluster import slot_model
from scheduler.services.errors import Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.sharing.grants import add_grant
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.scenes import at

pytestmark = pytest.mark.django_db


class TestCapacity:
    """Guarantees stay within what is in service, less the headroom."""

    def test_more_than_there_is_is_refused_by_name(self, root, team, other_team):
        cluster = scenes.build_cluster(root, nodes=2, gpus=4)
        set_quota(actor=root, owner=team, guaranteed=5)
        with pytest.raises(Invalid, match="at most 3") as refused:
            set_quota(actor=root, owner=other_team, guaranteed=4)
        assert refused.value.field == "guaranteed"
        assert refused.value.facts == {"in_service": 8, "headroom": 0, "guaranteed": 5}
        set_quota(actor=root, owner=other_team, guaranteed=3)
        with pytest.raises(Invalid, match="at most 0"):
            set_quota(actor=root, owner=create_team(actor=root, name="Third"), guaranteed=1)
        # A pool's guarantee is part of what the whole cluster has.
        with pytest.raises(Invalid):
            set_quota(actor=root, owner=team, pool=cluster.pool, guaranteed=6)
        set_quota(actor=root, owner=team, pool=cluster.pool, guaranteed=5)

    def test_headroom_is_nobodys(self, root, team):
        cluster = scenes.build_cluster(root, nodes=1, gpus=4)
        Headroom.objects.create(pool=cluster.pool, gpus=1)
        with pytest.raises(Invalid, match="less 1 of headroom"):
            set_quota(actor=root, owner=team, guaranteed=4)
        set_quota(actor=root, owner=team, guaranteed=3)

    def test_lowering_is_always_allowed_and_nothing_is_checked_before_there_are_nodes(
        self, root, team, project
    ):
        set_quota(actor=root, owner=team, guaranteed=50)
        scenes.build_cluster(root, nodes=1, gpus=2)
        set_quota(actor=root, owner=team, guaranteed=40)
        set_quota(actor=root, owner=project, guaranteed=30)
        with pytest.raises(Invalid):
            set_quota(actor=root, owner=team, guaranteed=41)

    def test_a_card_that_is_cut_is_still_one(self, root, team):
        cluster = scenes.build_cluster(root, nodes=1, gpus=2)
        third = slot_model(scenes.MODEL, 3)
        set_rate(actor=root, device_model=third, price_per_gpu_hour=Decimal(1))
        cut_card(actor=root, device=cluster.node(1).devices.first(), slots=3)
        with pytest.raises(Invalid, match="the 2 GPUs in service"):
            set_quota(actor=root, owner=team, guaranteed=3)
        set_quota(actor=root, owner=team, guaranteed=2)

    def test_a_grant_is_held_to_what_is_there_while_it_counts(self, root, team, other_team):
        scenes.build_cluster(root, nodes=1, gpus=8)
        own = set_quota(actor=root, owner=team, guaranteed=2)
        others = set_quota(actor=root, owner=other_team, guaranteed=3)

        def grant(quota, gpus, begin, end):
            return add_grant(
                actor=root,
                quota=quota,
                guaranteed=gpus,
                valid_from=at(begin),
                valid_until=at(end),
                now=at(0),
            )

        with pytest.raises(Invalid, match="Grant at most 3") as refused:
            grant(own, 4, 10, 20)
        assert refused.value.field == "guaranteed"
        assert refused.value.facts == {"in_service": 8, "headroom": 0, "guaranteed": 3}
        grant(own, 3, 10, 20)
        # What begins later within its time counts; what is over before, or begins after it, not.
        with pytest.raises(Invalid, match="Grant at most 0"):
            grant(others, 1, 5, 11)
        grant(others, 3, 5, 10)
        grant(others, 3, 20, 30)
        with pytest.raises(Invalid, match="With the 5 it has then"):
            grant(own, 1, 15, 25)
