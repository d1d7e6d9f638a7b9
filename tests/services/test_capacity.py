"""What may be guaranteed in all: no more than there is, unless somebody else decides."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest

from accounts.errors import DomainError
from accounts.services import create_team, set_rate
from scheduler.models import Grant, Headroom, Quota
from scheduler.models.cluster import slot_model
from scheduler.services.errors import Invalid
from scheduler.services.nodes.cutting import cut_card
from scheduler.services.sharing.grants import add_grant, revoke_grant
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

    def test_a_guarantee_is_held_to_what_is_there_beside_the_grants_of_all(
        self, root, team, other_team
    ):
        scenes.build_cluster(root, nodes=1, gpus=8)
        quota = set_quota(actor=root, owner=team, guaranteed=2)
        period = {"valid_from": at(100), "valid_until": at(200), "now": at(0)}
        add_grant(actor=root, quota=quota, guaranteed=3, **period)
        with pytest.raises(Invalid, match="Guarantee at most 3") as refused:
            set_quota(actor=root, owner=other_team, guaranteed=4, now=at(0))
        assert refused.value.facts == {"in_service": 8, "headroom": 0, "guaranteed": 5}
        with pytest.raises(Invalid, match=r"With the 3 of its grants, .* Guarantee at most 5"):
            set_quota(actor=root, owner=team, guaranteed=6, now=at(0))
        # Once it is over, what was granted is free again.
        set_quota(actor=root, owner=other_team, guaranteed=6, now=at(200))

    def test_what_an_account_has_of_several_models_adds_up(self, root, team, other_team):
        cluster = scenes.build_cluster(root, nodes=2, gpus=4)
        set_quota(actor=root, owner=other_team, guaranteed=4)
        set_quota(actor=root, owner=team, gpu_model=scenes.MODEL, guaranteed=3)
        with pytest.raises(Invalid, match=r"the 3 it has of other pools .* at most 1,"):
            set_quota(actor=root, owner=team, pool=cluster.pool, guaranteed=2)
        set_quota(actor=root, owner=team, pool=cluster.pool, guaranteed=1)

    @pytest.mark.parametrize("seed", range(5))
    def test_nothing_that_is_let_through_oversells_at_any_moment(
        self, seed, root, team, other_team
    ):
        """Random settings, grants and revocations; what is refused changes nothing."""
        dice, accepted = Random(seed), 0
        pools = [None, scenes.build_cluster(root, nodes=1, gpus=6).pool]
        for _ in range(14):
            scope = {"pool": dice.choice(pools), "gpu_model": dice.choice(["", scenes.MODEL])}
            known = list(Quota.objects.order_by("pk"))
            quota = dice.choice(known) if known else None
            begin = dice.randrange(50)
            period = {"valid_from": at(begin), "valid_until": at(begin + dice.randrange(1, 50))}
            try:
                if dice.random() < 0.5 or quota is None:
                    owner = dice.choice([team, other_team])
                    most = dice.randrange(1, 6)
                    set_quota(actor=root, owner=owner, guaranteed=most, now=at(0), **scope)
                elif dice.random() < 0.2 and (grant := Grant.objects.first()):
                    revoke_grant(actor=root, grant_id=grant.pk, now=at(0))
                else:
                    more = dice.randrange(1, 4)
                    add_grant(actor=root, quota=quota, guaranteed=more, now=at(0), **period)
            except DomainError:
                continue
            accepted += 1
            assert _most_claimed() <= 6
        assert accepted > 3


def _most_claimed():
    """What is guaranteed in all at the worst moment, in a cluster of one pool and one model."""
    grants, quotas = list(Grant.objects.filter(revoked_at=None)), list(Quota.objects.all())
    moments = [at(0), *(grant.valid_from for grant in grants)]
    return max(_claimed(one, quotas, grants) for one in moments)


def _claimed(moment, quotas, grants):
    own = {}
    for quota in quotas:
        more = [
            grant.guaranteed
            for grant in grants
            if grant.quota_id == quota.pk and grant.valid_from <= moment < grant.valid_until
        ]
        fine = bool(quota.pool_id or quota.gpu_model)
        key = quota.account_id, fine
        own[key] = own.get(key, 0) + quota.guaranteed + sum(more)
    accounts = {account for account, _ in own}
    return sum(max(own.get((one, False), 0), own.get((one, True), 0)) for one in accounts)
