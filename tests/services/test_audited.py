"""Acts on the cluster, on limits and on others' jobs are on record; on one's own jobs not."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from accounts.models import AuditEvent, User
from scheduler.models import Account, Device, NodeToken, Quota
from scheduler.services import queues
from scheduler.services.changing.by_hand import hold_job, pause_job, release_job
from scheduler.services.jobs import cancel_job
from scheduler.services.nodes import drain_node, issue_node_token, resume_node
from scheduler.services.nodes.devices.by_hand import act_on_device
from scheduler.services.sets import cancel_set
from scheduler.services.sharing.grants import add_grant, revoke_grant
from scheduler.services.sharing.limits import remove_quota, set_caps, set_quota
from scheduler.services.sharing.policies import set_policy
from scheduler.services.sites.licences import remove_licence, set_licence
from scheduler.services.sites.places import label_node, place_node
from scheduler.services.sites.windows import cancel_window, plan_window
from tests import scenes
from tests.scenes import at, start, submit
from tests.seconding import WHY

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=2)


def told_by(act: Callable[[], object]) -> list[AuditEvent]:
    """The events that come of it."""
    last = AuditEvent.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    act()
    return list(AuditEvent.objects.filter(pk__gt=last).order_by("pk"))


def actions(events: list[AuditEvent]) -> list[str]:
    return [event.action for event in events]


def test_nodes_and_devices(cluster, root):
    node, device = cluster.node(1), Device.objects.first()
    assert (
        told_by(lambda: drain_node(actor=root, node=node, reason="new fan"))[0].reason == "new fan"
    )
    (event,) = told_by(lambda: resume_node(actor=root, node=node))
    assert (event.action, event.area, event.subject_label) == ("node.resume", "cluster", node.name)
    assert json.loads(event.after) == {"state": "ready"}
    place_node(actor=root, node=node, rack="r1")
    label_node(actor=root, node=node, labels={"net": "ib"})
    act_on_device(actor=root, device=device, action="quarantine", reason="hot")
    act_on_device(actor=root, device=device, action="return")
    assert actions(list(AuditEvent.objects.order_by("-pk")[:4]))[::-1] == [
        "node.placed",
        "node.labelled",
        "node.device_quarantined",
        "node.device_returned",
    ]


def test_an_enrolment_names_who_let_the_node_in(cluster, root):
    event = AuditEvent.objects.get(action="node.enrol")
    assert (event.actor_name, event.on_behalf_of_name) == ("", "root")
    _, secret = issue_node_token(actor=root, pool=cluster.pool)
    token = NodeToken.objects.latest("pk")
    kept = AuditEvent.objects.filter(action="node.issue_token").latest("pk")
    assert kept.subject_id == str(token.pk)
    assert secret not in kept.after
    assert token.token_hash not in kept.after


def test_queues_windows_and_licences(cluster, root):
    queue = cluster.pool.queues.get()
    (event,) = told_by(lambda: queues.pause_queue(actor=root, queue=queue))
    assert (event.action, json.loads(event.before)) == ("queue.pause", {"is_paused": False})
    window = plan_window(
        actor=root, pool=cluster.pool, from_at=at(10**6), until_at=at(2 * 10**6), now=at(0)
    )
    assert actions(told_by(lambda: cancel_window(actor=root, window=window, now=at(1)))) == [
        "window.cancel"
    ]
    assert not told_by(lambda: cancel_window(actor=root, window=window, now=at(2)))
    licence = set_licence(actor=root, name="matlab", total=2)
    (event,) = told_by(lambda: set_licence(actor=root, name="matlab", total=5))
    assert (json.loads(event.before), json.loads(event.after)) == ({"total": 2}, {"total": 5})
    assert actions(told_by(lambda: remove_licence(actor=root, licence=licence))) == [
        "licence.remove"
    ]


def test_limits_and_policies(cluster, root, team, project):
    set_quota(actor=root, owner=team, guaranteed=2, maximum=4)
    (event,) = told_by(lambda: set_quota(actor=root, owner=team, guaranteed=1, maximum=4))
    assert (event.action, event.team_id, event.subject_label) == ("quota.set", team.pk, "vision")
    assert json.loads(event.before)["guaranteed"] == 2
    assert json.loads(event.after)["guaranteed"] == 1
    quota = Quota.objects.get()
    grant = add_grant(
        actor=root,
        quota=quota,
        valid_from=at(0),
        valid_until=at(10**8),
        maximum=2,
        reason="paper",
        now=at(0),
    )
    assert AuditEvent.objects.get(action="quota.grant").reason == "paper"
    assert told_by(lambda: revoke_grant(actor=root, grant_id=grant.pk))[0].team_id == team.pk
    assert actions(told_by(lambda: remove_quota(actor=root, quota_id=quota.pk))) == ["quota.remove"]
    (event,) = told_by(lambda: set_caps(actor=root, owner=project, max_running=3))
    assert event.subject_label == project.path
    assert json.loads(event.before) == {"max_running": None}
    assert Account.objects.get(project=project).max_running == 3
    assert actions(told_by(lambda: set_policy(actor=root, name="fair"))) == ["policy.set"]


def test_only_what_others_do_to_a_job_is_on_record(cluster, alice, lead, project):
    job = submit(alice, project)
    assert not told_by(lambda: hold_job(actor=alice, job=job))
    assert not told_by(lambda: release_job(actor=alice, job=job))
    (event,) = told_by(lambda: hold_job(actor=lead, reason=WHY, job=job))
    assert (event.action, event.team_id) == ("job.held", project.team_id)
    assert (json.loads(event.after), event.reason) == ({"state": "held"}, WHY)
    assert actions(told_by(lambda: release_job(actor=lead, job=job))) == ["job.released"]
    start(job, cluster.node(1))
    job.refresh_from_db()
    (event,) = told_by(lambda: pause_job(actor=lead, job=job, reason=WHY))
    assert (event.action, event.reason) == ("job.stop_requested", WHY)
    other = submit(alice, project)
    (event,) = told_by(lambda: cancel_job(actor=lead, job=other, reason=WHY))
    assert (event.action, event.reason) == ("job.cancelled", WHY)


def test_an_array_is_on_record_as_a_whole(cluster, alice, lead, project):
    owner: User = alice
    job = submit(owner, project, array={"range": "0-4"})
    (event,) = told_by(lambda: cancel_set(actor=lead, reason=WHY, job_set=job.job_set))
    assert json.loads(event.after) == {"waiting_tasks": 5}
