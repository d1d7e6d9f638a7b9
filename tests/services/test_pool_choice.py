"""Several pools to choose from: each is checked at the submit as the first one is."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from accounts.services import set_rate
from scheduler.loop.supposing.quoting import quote_job
from scheduler.models import Job, SchedulerLease
from scheduler.selectors.jobs import clone_document
from scheduler.services.composing.templates import create_template, submit_from_template
from scheduler.services.errors import Invalid
from scheduler.services.sharing.limits import set_quota
from scheduler.spec import SpecInvalid, parse_spec
from tests.loop.otherwise import OTHER, two_pools
from tests.scenes import MODEL, NOON, submit

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    """Two nodes of two GPUs in `default`, two of four others in `spare`."""
    made = two_pools(root)
    price = {"currency": "EUR", "valid_from": NOON - timedelta(days=9), "restated_for": "as then"}
    set_rate(actor=root, device_model=OTHER, price_per_gpu_hour=Decimal("7.20"), **price)
    return made


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"other_pools": ["nowhere"]}, "other_pools: there is no pool nowhere"),
        ({"other_pools": "spare", "gpu_model": MODEL}, "in pool spare: gpu_model pool spare has"),
        ({"pool": "spare,default", "gpus_per_node": 4}, "in pool default: gpus_per_node the larg"),
        ({"other_pools": "spare", "booking": "exam"}, "a booking is of one pool"),
        ({"other_pools": "spare", "max_cost": "0.15"}, "in pool spare: max_cost does not pay for"),
    ],
)
def test_a_pool_where_it_can_never_start_is_refused_by_name(cluster, alice, project, asked, words):
    with pytest.raises(SpecInvalid, match=words):
        submit(alice, project, **asked)
    assert not Job.objects.exists()


def test_the_longest_time_of_each_pool_counts(cluster, root, team, alice, project):
    spare = submit(alice, project, pool="spare").pool
    set_quota(actor=root, owner=team, pool=spare, max_hours=1)
    submit(alice, project, time_limit="2h")
    with pytest.raises(SpecInvalid, match="in pool spare: time_limit may be 1h at most") as refused:
        submit(alice, project, time_limit="2h", other_pools=["spare"])
    assert [one.field for one in refused.value.problems] == ["other_pools"]


def test_the_choice_is_kept_once_each_and_cloned(cluster, alice, project):
    job = submit(alice, project, other_pools=["spare", "default"])
    assert job.pool_choice == ["default", "spare"]
    assert clone_document(alice, job)["other_pools"] == ["spare", "default"]
    assert submit(alice, project, pool="spare").pool_choice is None
    assert submit(alice, project, other_pools=["default"]).pool_choice is None


def test_a_quote_is_of_the_pool_where_it_starts_and_of_the_dearest(cluster, alice, project):
    SchedulerLease.objects.all().delete()
    document = {"name": "t", "project": project.path, "script": "true", "time_limit": "1h"}

    def quoted(**asked):
        return quote_job(actor=alice, spec=parse_spec({**document, **asked}), now=NOON)

    told = quoted(pool="default,spare", gpus_per_node=2)
    assert (told.pool, told.worst_case_cost) == ("default", Decimal("14.40"))
    assert told.choice.endswith("room: default, spare. Now that is default.")
    assert quoted(gpus_per_node=2).choice == ""
    for _ in range(2):
        submit(alice, project, gpus_per_node=2)
    told = quoted(pool="default,spare", gpus_per_node=2)
    assert (told.pool, told.choice[-18:]) == ("spare", "Now that is spare.")


def test_a_template_that_holds_the_pool_holds_the_choice(cluster, lead, team, alice, project):
    def made(document, **rules):
        told = {"name": "one", "document": document, "rules": rules}
        version = create_template(actor=lead, team=team, **told)

        def take(**asked):
            spec = {"name": "t", "project": project.path, "script": "true", **asked}
            return submit_from_template(actor=alice, version=version, spec=parse_spec(spec)).job

        return take

    locked = made({"pool": "default,spare"}, pool="locked")
    assert locked(pool="default", other_pools=["spare"]).pool_choice == ["default", "spare"]
    for asked in ({"pool": "default"}, {"pool": "spare,default"}):
        with pytest.raises((SpecInvalid, Invalid)):
            locked(**asked)
    some = made({"pool": "default"}, pool="default, big")
    with pytest.raises(SpecInvalid, match="other_pools: must be of default, big"):
        some(pool="default,spare")
    free = made({"pool": "default"}, pool="locked", other_pools="spare, big")
    assert free(pool="default,spare").pool_choice == ["default", "spare"]
