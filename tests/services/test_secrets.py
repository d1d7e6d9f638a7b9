"""Secrets: kept sealed, handed to the node at work, never shown."""

from __future__ import annotations

import json
from functools import partial

import pytest

from accounts.models import AuditEvent, User
from scheduler.models import MeantSecrets, Secret
from scheduler.selectors.jobs import clone_document, shown_spec
from scheduler.selectors.secrets import get_visible_secret, visible_secrets
from scheduler.services.errors import Conflict, Forbidden, Invalid, NotFound
from scheduler.services.inbox import add_webhook, webhooks
from scheduler.services.secrets import delete_secret, hand_secrets, keeping, set_secret
from scheduler.services.secrets.cipher import Unsealable, seal, unseal
from scheduler.services.secrets.keeping import place_of
from scheduler.spec import SpecInvalid
from tests import scenes
from tests.locks import just_before

pytestmark = pytest.mark.django_db
VALUE = "hunter2-but-longer"


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=2, gpus=2)


def test_a_seal_opens_in_its_place_alone(settings):
    sealed = seal(VALUE.encode(), "person:1/a")
    assert VALUE.encode() not in sealed and seal(VALUE.encode(), "person:1/a") != sealed
    assert unseal(sealed, "person:1/a") == VALUE.encode()
    for other in (
        sealed[:-1] + bytes([sealed[-1] ^ 1]),
        sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:],
        b"",
        b"1",
    ):
        with pytest.raises(Unsealable):
            unseal(other, "person:1/a")
    with pytest.raises(Unsealable):
        unseal(sealed, "person:2/a")
    settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "another" * 9
    assert unseal(sealed, "person:1/a") == VALUE.encode()
    settings.SECRET_KEY_FALLBACKS = []
    with pytest.raises(Unsealable):
        unseal(sealed, "person:1/a")


@pytest.mark.parametrize("size", [1, 31, 32, 33, 8192])
def test_every_length_comes_back(size):
    assert unseal(seal(b"x" * size, "p"), "p") == b"x" * size


def test_who_may_set_and_delete(alice, bob, lead, finance, carol, project):
    mine = set_secret(actor=alice, name="hub-token", value=VALUE)
    ours = set_secret(actor=lead, name="hub-token", value=VALUE, project=project)
    with pytest.raises(Forbidden):
        set_secret(actor=alice, name="other", value=VALUE, project=project)
    with pytest.raises(NotFound):
        set_secret(actor=carol, name="other", value=VALUE, project=project)
    assert list(visible_secrets(alice)) == [mine, ours]
    assert list(visible_secrets(bob)) == [ours] and not visible_secrets(carol)
    for stranger in (bob, lead, carol):
        with pytest.raises(NotFound):
            get_visible_secret(stranger, mine.pk)
        with pytest.raises(NotFound):
            delete_secret(actor=stranger, secret=mine)
    with pytest.raises(Forbidden):
        delete_secret(actor=alice, secret=ours)
    delete_secret(actor=lead, secret=ours)
    assert list(Secret.objects.all()) == [mine]


def test_the_value_is_nowhere_but_sealed(alice, lead, project):
    set_secret(actor=alice, name="hub-token", value=VALUE)
    set_secret(actor=alice, name="hub-token", value=VALUE + "-2")
    assert Secret.objects.count() == 1
    events = AuditEvent.objects.filter(action__startswith="secret.")
    told = [json.loads(event.after) for event in events.order_by("pk")]
    assert told == [{"replaced": False}, {"replaced": True}]
    assert VALUE.encode() not in bytes(Secret.objects.get().sealed)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "Hub Token"}, "name"),
        ({"name": "../etc"}, "name"),
        ({"name": ""}, "name"),
        ({"value": "short"}, "value"),
        ({"value": " x    \n"}, "value"),
        ({"value": "x" * 8193}, "value"),
        ({"value": "x\x00" * 9}, "value"),
        ({"value": "\ud800" * 9}, "value"),
    ],
)
def test_what_cannot_be_kept_is_named(alice, fields, field):
    with pytest.raises(Invalid) as refused:
        set_secret(**{"actor": alice, "name": "hub-token", "value": VALUE, **fields})
    assert refused.value.field == field and not Secret.objects.exists()


def test_a_job_names_only_what_is_there_for_it(alice, carol, lead, other_project, project, cluster):
    set_secret(actor=carol, name="theirs", value=VALUE)
    for name in ("theirs", "nowhere"):
        with pytest.raises(SpecInvalid) as refused:
            scenes.submit(alice, project, secrets=[name])
        assert [(p.field, p.message.replace(name, "X")) for p in refused.value.problems] == [
            (
                "secrets",
                f"there is no secret 'X' of yours or of {project.path}; keep it first with "
                "`trainyard secrets set`",
            )
        ]
    set_secret(actor=lead, name="ours", value=VALUE, project=project)
    assert scenes.submit(alice, project, secrets="ours").spec["secrets"] == ["ours"]


def test_only_the_node_at_work_is_handed_the_values(alice, lead, project, cluster):
    set_secret(actor=lead, name="hub-token", value="of the project", project=project)
    set_secret(actor=lead, name="data-key", value="of the project too", project=project)
    set_secret(actor=alice, name="hub-token", value="of alice")
    job = scenes.submit(alice, project, secrets=["hub-token", "data-key"])
    node, other = cluster.node(1), cluster.node(2)
    with pytest.raises(NotFound):
        hand_secrets(node=node, fence=1)
    attempt = scenes.start(job, node)
    reply = scenes.sync(node)
    (told,) = reply.assignments
    assert told.launch.secrets == ("hub-token", "data-key")
    assert "of alice" not in repr(reply)
    with pytest.raises(NotFound):
        hand_secrets(node=other, fence=attempt.pk)
    handed = hand_secrets(node=node, fence=attempt.pk)
    assert {one.name: one.value for one in handed.secrets} == {
        "hub-token": "of alice",
        "data-key": "of the project too",
    }
    assert Secret.objects.filter(used_at=None).count() == 1
    assert hand_secrets(node=node, fence=attempt.pk) == handed
    noted = AuditEvent.objects.get(action="secret.hand")
    assert (noted.subject_kind, noted.subject_id) == ("job", str(job.pk))
    assert noted.team_id == project.team_id and noted.actor_id is None
    assert json.loads(noted.after) == {
        "attempt": attempt.pk,
        "rank": 0,
        "node": node.name,
        "names": ["hub-token", "data-key"],
    }
    assert "of alice" not in noted.after and "of the project" not in noted.after
    Secret.objects.filter(name="data-key").delete()
    with pytest.raises(Conflict, match="data-key was deleted"):
        hand_secrets(node=node, fence=attempt.pk)


def _handed(job, node):
    attempt = scenes.start(job, node)
    return {one.name: one.value for one in hand_secrets(node=node, fence=attempt.pk).secrets}


@pytest.mark.parametrize("array", [None, "1-2"])
def test_what_the_submit_meant_is_handed_whatever_is_made_later(
    alice, lead, project, cluster, array
):
    set_secret(actor=lead, name="hub-token", value="of the project", project=project)
    more = {"array": array} if array else {}
    job = scenes.submit(alice, project, secrets=["hub-token"], **more)
    mine = set_secret(actor=alice, name="hub-token", value="of alice")
    assert _handed(job, cluster.node(1)) == {"hub-token": "of the project"}
    later = scenes.submit(alice, project, secrets=["hub-token"], **more)
    # A new value of the same secret is what a rotation is for.
    set_secret(actor=alice, name="hub-token", value="of alice, turned")
    assert _handed(later, cluster.node(2)) == {"hub-token": "of alice, turned"}
    delete_secret(actor=alice, secret=mine)
    attempt = later.attempts.get()
    with pytest.raises(Conflict, match="hub-token was deleted"):
        hand_secrets(node=cluster.node(2), fence=attempt.pk)


def test_a_job_of_before_this_was_kept_gets_what_is_there(alice, lead, project, cluster):
    set_secret(actor=lead, name="hub-token", value="of the project", project=project)
    job = scenes.submit(alice, project, secrets=["hub-token"])
    MeantSecrets.objects.all().delete()
    assert _handed(job, cluster.node(1)) == {"hub-token": "of the project"}


def test_a_bound_token_gets_the_projects_secret_and_never_ones_own(alice, lead, project, cluster):
    """Both have the name; the submit may not know of the person's."""
    set_secret(actor=lead, name="hub-token", value="of the project", project=project)
    set_secret(actor=alice, name="hub-token", value="of alice")
    bound = User.objects.get(pk=alice.pk)
    bound.bound_project = project.pk
    job = scenes.submit(bound, project, secrets=["hub-token"])
    assert _handed(job, cluster.node(1)) == {"hub-token": "of the project"}


def test_others_do_not_see_secrets_in_variables(alice, bob, project, cluster):
    env = {"HUB_TOKEN": VALUE, "EPOCHS": "3"}
    job = scenes.submit(alice, project, env=env)
    assert shown_spec(alice, job).env == env
    assert shown_spec(bob, job).env == {"HUB_TOKEN": "***", "EPOCHS": "3"}
    assert clone_document(alice, job)["env"] == env
    assert clone_document(bob, job)["env"] == {"EPOCHS": "3"}


def test_two_first_values_at_once_are_one_secret(alice, monkeypatch):
    first = partial(set_secret, actor=alice, name="hub-token", value="the-first-one")
    just_before(monkeypatch, keeping, "seal", first)
    kept = set_secret(actor=alice, name="hub-token", value="the-second-one")
    assert Secret.objects.get() == kept
    assert unseal(bytes(Secret.objects.get().sealed), place_of(kept)) == b"the-second-one"


def test_the_same_address_twice_at_once_is_a_conflict(root, monkeypatch):
    first = partial(add_webhook, actor=root, url="http://127.0.0.1:9/hook")
    just_before(monkeypatch, webhooks, "seal", first)
    with pytest.raises(Conflict, match="told already"):
        add_webhook(actor=root, url="http://127.0.0.1:9/hook")
