"""API tokens: shown once, hashed, scoped, ended."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from accounts.models import ApiToken
from accounts.services import authenticate_token, issue_token
from portal.api.v1.urls import urlpatterns
from portal.forms.widgets.scopes import OPENS

pytestmark = pytest.mark.django_db

# What operations are called where people are told otherwise.
SAID = {
    "sets": "arrays",
    "bulk": "bulk cancels",
    "request": "requests",
    "scheduling": "policies",
    "datasets": "data sets",
    "users": "people",
    "services": "service accounts",
    "notification": "notices",
    "notifications": "notices",
    "channels": "chats",
    "project": "rules of projects",
    "simulator": "simulations",
    "delegations": "who acts for whom",
    "windows": "maintenance windows",
    "audit": "who",
    "watches": "watch",
}

GOOD = {"name": "laptop", "scopes": ["jobs:read"], "expires_in_days": "30"}


def test_the_secret_is_shown_once_and_only_its_hash_kept(client, alice):
    client.force_login(alice)
    page = client.post("/settings/tokens/", GOOD)
    secret = re.search(r"ty_[0-9a-f]{8}_[\w-]{43}", page.content.decode()).group(0)
    assert "no-store" in page["Cache-Control"]
    assert secret not in client.get("/settings/tokens/").content.decode()
    row = ApiToken.objects.get()
    assert secret not in (row.token_hash, row.prefix)
    found = authenticate_token(secret)
    assert found is not None
    assert (found.user, found.scopes) == (alice, ["jobs:read"])


def test_bounds_are_kept_as_written_and_shown(client, alice, project):
    client.force_login(alice)
    bounds = {"project": project.path, "networks": "192.0.2.7, 10.1.0.0/16\t2001:DB8::/48"}
    assert client.post("/settings/tokens/", GOOD | bounds).status_code == 200
    row = ApiToken.objects.get()
    assert row.project == project
    assert row.networks == ["192.0.2.7", "10.1.0.0/16", "2001:db8::/48"]
    page = client.get("/settings/tokens/").content.decode()
    assert f"only <b>{project.path}</b>, from <code>192.0.2.7</code>" in page


def test_revoked_and_expired_tokens_open_nothing(client, alice):
    client.force_login(alice)
    token, secret = issue_token(actor=alice, name="x", scopes=["jobs:read"], expires_in_days=1)
    assert authenticate_token(secret, now=timezone.now() + timedelta(days=2)) is None
    assert client.post(f"/settings/tokens/{token.pk}/revoke/").status_code == 302
    assert authenticate_token(secret) is None


def test_somebody_elses_token_does_not_exist(client, alice, carol):
    token, secret = issue_token(actor=alice, name="x", scopes=["jobs:read"])
    client.force_login(carol)
    assert client.post(f"/settings/tokens/{token.pk}/revoke/").status_code == 404
    assert token.prefix not in client.get("/settings/tokens/").content.decode()
    assert authenticate_token(secret) is not None


def test_inactive_people_have_no_tokens(alice):
    _, secret = issue_token(actor=alice, name="x", scopes=["jobs:read"])
    alice.is_active = False
    alice.save()
    assert authenticate_token(secret) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["admin:*"]}, "scopes"),
        ({"expires_in_days": "0"}, "expires_in_days"),
        ({"expires_in_days": "366"}, "expires_in_days"),
        ({"expires_in_days": "1e3"}, "expires_in_days"),
        ({"project": "vision/never"}, "project"),
        ({"networks": "192.0.2.7, 10.1.2.3/8"}, "networks"),
    ],
)
def test_bad_input_is_named_at_its_field(client, alice, change, field):
    client.force_login(alice)
    page = client.post("/settings/tokens/", GOOD | change)
    assert page.status_code == 200
    assert page.context["form"].errors[field]
    assert not ApiToken.objects.exists()


def test_the_words_of_a_scope_name_all_that_it_opens():
    views = [getattr(pattern.callback, "cls", None) for pattern in urlpatterns]
    methods = [getattr(view, verb, None) for view in views for verb in ("get", "post", "put")]
    opens = {
        (one.scope, one.operation_id.partition("_")[0])
        for one in methods
        if one is not None and hasattr(one, "operation_id")
    }
    # Reports and what they are made of are one word.
    named = {(scope, noun) for scope, noun in opens if scope in OPENS and scope != "costs:read"}
    assert named
    unsaid = [(scope, n) for scope, n in named if SAID.get(n, n) not in OPENS[scope]]
    assert sorted(unsaid) == []
