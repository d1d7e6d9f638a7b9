"""What a deputy does in a lead's place is on record with both names, wherever it is done."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import AuditEvent, User
from accounts.services import delegate, invite, revoke_invitation
from scheduler.services.bookings import cancel_booking, plan_booking
from scheduler.services.changing.by_hand import hold_job
from scheduler.services.composing.templates import create_template, retire_template
from scheduler.services.jobs import cancel_job
from scheduler.services.kept.pruning import set_retention
from scheduler.services.seconding.proposing import propose_to_cancel_set
from scheduler.services.secrets.keeping import delete_secret, set_secret
from scheduler.services.sets import cancel_set
from scheduler.services.sharing.budgets import remove_budget, set_budget
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.scenes import submit
from tests.seconding import WHY

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=4)


@pytest.fixture
def deputy(lead, carol, team) -> User:
    now = timezone.now()
    times = {"starts_at": now, "ends_at": now + 24 * HOUR}
    delegate(actor=lead, deputy=carol, scope="manage_team", team=team, **times)
    return User.objects.get(pk=carol.pk)


def walk(actor, cluster, root, alice, team, project) -> None:
    """Every kind of thing that the right to manage a team and its projects lets one do."""
    now = timezone.now()
    set_quota(actor=root, owner=team, guaranteed=8)
    set_quota(actor=actor, owner=project, guaranteed=1)
    period = {"valid_from": now - HOUR, "valid_until": now + 99 * HOUR}
    set_budget(actor=root, owner=team, gpu_hours=99, **period)
    budget = set_budget(actor=actor, owner=project, gpu_hours=9, **period)
    remove_budget(actor=actor, budget=budget)
    secret = set_secret(actor=actor, name="hub-token", value="not-a-short-one", project=project)
    delete_secret(actor=actor, secret=secret)
    set_retention(actor=actor, project=project, log_days=9, file_days=9)
    version = create_template(
        actor=actor, team=team, name="Usual", document={"gpus_per_node": 1}, rules={}
    )
    retire_template(actor=actor, template=version.template)
    hours = {"from_at": now + HOUR, "until_at": now + 2 * HOUR}
    booking = plan_booking(actor=actor, owner=project, pool=cluster.pool, nodes=1, **hours)
    cancel_booking(actor=actor, booking=booking)
    job = submit(alice, project, now=now)
    hold_job(actor=actor, job=job, reason=WHY)
    cancel_job(actor=actor, job=job, reason=WHY)
    few = submit(alice, project, now=now, array="0-3").job_set
    cancel_set(actor=actor, job_set=few, reason=WHY)
    many = submit(alice, project, now=now, array="0-100%4").job_set
    propose_to_cancel_set(actor=actor, job_set=many, reason="They all fail.")
    sent, _ = invite(actor=actor, team=team, email="new@example.org")
    revoke_invitation(actor=actor, invitation=sent)


ACTS = {
    *("quota.set", "budget.set", "budget.remove", "secret.set", "secret.delete"),
    *("project.retention", "template.create", "template.retire", "booking.plan"),
    *("booking.cancel", "job.held", "job.cancelled", "set.cancel", "invitation.send"),
    *("invitation.revoke", "bulk_cancel.propose"),
}


def test_with_the_givers_name(cluster, root, alice, team, project, deputy):
    walk(deputy, cluster, root, alice, team, project)
    done = AuditEvent.objects.filter(actor=deputy)
    names = set(done.values_list("action", "on_behalf_of_name"))
    assert names == {(action, "lead") for action in ACTS}


def test_without_one_in_ones_own_right(cluster, root, alice, team, project, lead):
    walk(lead, cluster, root, alice, team, project)
    done = AuditEvent.objects.filter(actor=lead)
    assert set(done.values_list("on_behalf_of_name", flat=True)) == {""}
