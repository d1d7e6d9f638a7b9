"""What was granted for a time, renewed before its end and ended early."""

from __future__ import annotations

import pytest

from scheduler.services.requesting.reminding import renew_request
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
