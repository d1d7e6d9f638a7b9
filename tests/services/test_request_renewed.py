"""What was granted for a time, renewed before its end and ended early."""

from __future__ import annotations

import pytest

from accounts.services import remove_member
from scheduler.models import Grant, Notification, NotificationMute, OutboundMail
from scheduler.services.mailing.ending import notify_of_ends
from scheduler.services.requesting.asking import submit_request
from scheduler.services.requesting.reminding import renew_request
from scheduler.services.sharing.grants import revoke_grant
from scheduler.services.sharing.limits import set_quota
from tests import scenes
from tests.requesting import DAY_S, ask, decide
from tests.scenes import MODEL, at

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


@pytest.fixture
def access(cluster, root, team, project, alice, lead):
    """Granted until the thirtieth day."""
    set_quota(actor=root, owner=team, gpu_model=MODEL, maximum=0)
    asked = ask(alice, team, kind="access", gpu_model=MODEL, amount=4)
    return decide(root, decide(lead, asked))


def test_access_is_renewed_before_it_ends(access, alice):
    made = renew_request(actor=alice, request=access, now=at(20 * DAY_S))
    text = made.versions.get()
    assert (made.state, text.amount, text.valid_from) == ("draft", 4, at(30 * DAY_S))


def test_a_longer_time_is_held_against_what_holds_then(cluster, root, team, project, alice, lead):
    """Once the grant is over, its hours are no part of what is asked for on top."""
    set_quota(actor=root, owner=team, max_hours=48)
    set_quota(actor=root, owner=project, max_hours=24)
    done = decide(lead, ask(alice, project, kind="walltime", amount=24))
    assert done.state == "approved"
    assert renew_request(actor=alice, request=done, now=at(20 * DAY_S)).state == "draft"


@pytest.fixture
def guarantee(cluster, root, team, project, alice, lead):
    """Two GPUs for thirty days."""
    set_quota(actor=root, owner=team, guaranteed=4)
    return decide(lead, ask(alice, project))


def ends(person):
    return [
        one.text for one in OutboundMail.objects.filter(person=person, key__startswith="grants:")
    ]


def test_the_end_of_what_goes_on_is_told_to_nobody(guarantee, alice, lead):
    made = renew_request(actor=alice, request=guarantee, now=at(DAY_S))
    made = submit_request(actor=alice, request_id=made.pk, version=made.version, now=at(DAY_S))
    assert notify_of_ends(now=at(17 * DAY_S)) == 2
    (text,) = ends(lead)
    assert f"its renewal, {made}, waits for a decision" in text and "renew: " not in text
    done = decide(lead, made, now=at(18 * DAY_S))
    assert notify_of_ends(now=at(29 * DAY_S)) == 0
    Grant.objects.filter(pk=done.granted_id).update(revoked_at=at(29 * DAY_S))
    assert notify_of_ends(now=at(29 * DAY_S)) == 2


def test_each_is_told_what_they_can_do_and_where_they_want_it(guarantee, root, team, alice, lead):
    NotificationMute.objects.create(person=alice, subject=f"request:{guarantee.pk}", at=at(0))
    assert notify_of_ends(now=at(17 * DAY_S)) == 2
    assert ends(alice) == [] and "who asked for it may renew it" in ends(lead)[0]
    told = Notification.objects.filter(title__contains="comes to its end")
    assert {one.person for one in told} == {alice, lead}
    remove_member(actor=root, team=team, user=alice)
    assert notify_of_ends(now=at(29 * DAY_S)) == 1


def test_the_page_says_what_was_revoked_and_offers_no_renewal_of_it(client, guarantee, root, alice):
    client.force_login(alice)
    here = f"/requests/{guarantee.pk}/"
    page = client.get(here).content.decode()
    assert ">Renew<" in page and "<dt>Ends</dt>" in page
    revoke_grant(actor=root, grant_id=guarantee.granted_id, now=at(DAY_S))
    page = client.get(here).content.decode()
    assert ">Renew<" not in page
    assert "<dt>Revoked</dt>" in page and "<dt>Ends</dt>" not in page
