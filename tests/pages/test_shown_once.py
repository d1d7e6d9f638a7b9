"""Forms whose answer shows a secret: what is sent again, as a reload does, makes no second one."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.signing import TimestampSigner
from django.urls import reverse
from django.utils import timezone

from accounts.models import ApiToken, Invitation, SpentKey
from accounts.services import make_service_account
from accounts.services.ending.access import forget_over
from accounts.services.tokens import prune_spent_keys
from portal.serving import once
from scheduler.models import NodeToken, Webhook
from tests import scenes

pytestmark = pytest.mark.django_db

_KEY = re.compile(r'name="form_key" value="([^"]+)"')
_TOKEN = {"name": "laptop", "scopes": "jobs:read", "expires_in_days": "9"}
_HOOK = {"url": "https://chat.example.org/hook"}
_NODE = {"pool": "default", "minutes": "15"}
_GUEST = {"invite-email": "new@example.org", "invite-role": "member"}
# Page, where its form goes, what is sent, what is made, what the answer shows.
DOORS = {
    "node": ("nodes:enrol", "nodes:enrol", _NODE, NodeToken, "tyn_"),
    "token": ("tokens:list", "tokens:list", _TOKEN, ApiToken, "not shown again"),
    "service": ("teams:services", "teams:service_token", _TOKEN, ApiToken, "not shown again"),
    "webhook": ("webhooks:list", "webhooks:list", _HOOK, Webhook, "is shown this once"),
    "guest": ("teams:detail", "teams:invite", _GUEST, Invitation, "is shown only now"),
}


@pytest.fixture
def service(root, team):
    scenes.build_cluster(root, nodes=0)
    return make_service_account(actor=root, team=team, name="ci")


@pytest.fixture
def door(request, client, root, team, service):
    """Send its form, with a key if there is one; `ask` opens its page."""
    page, form, data, made, shows = DOORS[request.param]
    args = {"teams:services": [team.slug], "teams:detail": [team.slug], "teams:invite": [team.slug]}
    args["teams:service_token"] = [team.slug, service.pk]
    client.force_login(root)

    class Door:
        model, secret_shown = made, shows

        def ask(self):
            return key_of(client.get(reverse(page, args=args.get(page))))

        def send(self, key="", **more):
            sent = {**data, **({"form_key": key} if key else {}), **more}
            return client.post(reverse(form, args=args.get(form)), sent)

    return Door()


def key_of(page) -> str:
    return _KEY.findall(page.content.decode())[0]


every_door = pytest.mark.parametrize("door", DOORS, indirect=True)


@every_door
def test_a_form_that_is_sent_again_makes_nothing_more_and_shows_nothing(door):
    before, key = door.model.objects.count(), door.ask()
    first = door.send(key).content.decode()
    assert door.secret_shown in first and door.model.objects.count() == before + 1
    made, letters = list(door.model.objects.values()), len(mail.outbox)
    again = door.send(key)
    text = again.content.decode()
    assert "with this form already" in text and again.status_code in (200, 422)
    assert door.secret_shown not in text.replace("it is not shown again. If", "")
    assert list(door.model.objects.values()) == made and len(mail.outbox) == letters
    assert key_of(again) != key


@pytest.mark.parametrize("door", ["node", "token", "service", "guest"], indirect=True)
def test_the_form_that_comes_back_makes_another(door):
    before = door.model.objects.count()
    door.send(key := door.ask())
    again = door.send(key_of(door.send(key)))
    assert door.secret_shown in again.content.decode()
    assert door.model.objects.count() == before + 2


@every_door
def test_without_a_key_as_before(door):
    before = door.model.objects.count()
    assert door.secret_shown in door.send().content.decode()
    assert door.model.objects.count() == before + 1


@every_door
def test_a_key_that_is_not_ours_or_old_makes_nothing(door, monkeypatch):
    before, key = door.model.objects.count(), door.ask()
    for odd in (f"{key}x", "x", "a:b:c", TimestampSigner(salt="another").sign("x")):
        assert "open for too long" in door.send(odd).content.decode(), odd
    monkeypatch.setattr(once, "FORM_OPEN", timedelta(seconds=-1))
    text = door.send(key).content.decode()
    assert "open for too long" in text and door.model.objects.count() == before


@pytest.mark.parametrize("door", ["webhook"], indirect=True)
def test_what_was_refused_may_be_sent_again_with_the_same_key(door):
    key = door.ask()
    assert door.send(key, url="ftp://example.org").status_code == 422
    assert not Webhook.objects.exists()
    assert door.secret_shown in door.send(key).content.decode()


@pytest.mark.parametrize("door", ["node"], indirect=True)
def test_the_secret_is_kept_nowhere(door, client):
    page = door.send(key := door.ask())
    secret = re.search(r"tyn_[\w-]+", page.content.decode())[0]
    assert secret not in str(list(NodeToken.objects.values()))
    assert secret not in str(dict(client.session))
    assert SpentKey.objects.get().key == key.rpartition(":")[0].rpartition(":")[0]


@pytest.mark.parametrize("door", ["token"], indirect=True)
def test_a_key_is_forgotten_when_it_is_no_longer_good_and_not_before(door):
    """Not by how many others there are either, as entries of a cache are."""
    key, others = door.ask(), [SpentKey(key=str(n), spent_at=timezone.now()) for n in range(30_000)]
    door.send(key)
    SpentKey.objects.bulk_create(others)
    cache.clear()
    now, made = timezone.now(), ApiToken.objects.count()
    for hours in (1, 23, 24):
        assert prune_spent_keys(now=now + timedelta(hours=hours)) == 0
        assert "with this form already" in door.send(key).content.decode()
    assert ApiToken.objects.count() == made
    assert forget_over(now=now + timedelta(hours=24, minutes=11)) >= 30_001
    assert not SpentKey.objects.exists()
