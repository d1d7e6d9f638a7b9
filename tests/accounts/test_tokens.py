"""API tokens: hashed, scoped, expiring, revocable."""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta

import pytest

from accounts.errors import Invalid, NotFound
from accounts.models import ApiToken, User
from accounts.selectors import tokens_of
from accounts.services import SCOPES, authenticate_token, issue_token, revoke_token
from accounts.services.tokens import MAX_TOKENS
from tests.scenes import NOON, at

pytestmark = pytest.mark.django_db


def _issue(user, **fields):
    given = {"name": "laptop", "scopes": ["jobs:read"], "expires_in_days": 30, "now": NOON}
    return issue_token(actor=user, **{**given, **fields})


def test_the_secret_has_its_form_and_only_its_hash_is_stored(alice):
    token, secret = _issue(alice)
    assert re.fullmatch(r"ty_[0-9a-f]{8}_[\w-]{43}", secret)
    assert secret.startswith(token.prefix)
    stored = ApiToken.objects.values().get()
    assert stored["token_hash"] == hashlib.sha256(secret.encode()).hexdigest()
    assert secret not in str(stored)
    assert authenticate_token(secret, now=NOON).user == alice


def test_scopes_are_kept_sorted_and_once(alice):
    token, _ = _issue(alice, scopes=["logs:read", "jobs:read", "logs:read"])
    assert token.scopes == ["jobs:read", "logs:read"]
    assert _issue(alice, scopes=SCOPES)[0].scopes == sorted(SCOPES)


def test_a_token_ends_by_time_by_hand_and_with_its_owner(alice, bob):
    _, by_time = _issue(alice, expires_in_days=1)
    assert authenticate_token(by_time, now=NOON + timedelta(hours=23))
    assert authenticate_token(by_time, now=NOON + timedelta(days=1)) is None
    token, by_hand = _issue(alice)
    revoke_token(actor=alice, token=token, now=NOON)
    assert authenticate_token(by_hand, now=NOON) is None
    _, with_owner = _issue(bob)
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert authenticate_token(with_owner, now=NOON) is None


def test_revoking_twice_keeps_the_first_moment(alice):
    token, _ = _issue(alice)
    first = revoke_token(actor=alice, token=token, now=NOON).revoked_at
    assert revoke_token(actor=alice, token=token, now=at(60)).revoked_at == first


def test_nobody_revokes_or_sees_anothers_token(alice, root):
    token, secret = _issue(alice)
    with pytest.raises(NotFound):
        revoke_token(actor=root, token=token)
    assert authenticate_token(secret, now=NOON)
    assert not tokens_of(root).exists()


def test_use_is_noted_at_most_once_a_minute(alice, django_assert_num_queries):
    _, secret = _issue(alice)

    def used_at(second):
        authenticate_token(secret, now=at(second))
        return ApiToken.objects.get().last_used_at

    assert used_at(0) == used_at(59) == NOON
    assert used_at(61) == at(61)
    with django_assert_num_queries(1):
        authenticate_token(secret, now=at(62))


@pytest.mark.parametrize(
    "secret", ["", "ty_", "ty_00000000_" + "x" * 43, "\x00", "\ud800", "x" * 100_000]
)
def test_what_is_no_token_opens_nothing(alice, secret):
    _issue(alice)
    assert authenticate_token(secret, now=NOON) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\x00"}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["admin:all"]}, "scopes"),
        ({"expires_in_days": 0}, "expires_in_days"),
        ({"expires_in_days": -1}, "expires_in_days"),
        ({"expires_in_days": 366}, "expires_in_days"),
    ],
)
def test_bad_wishes_name_their_field_and_write_nothing(alice, change, field):
    with pytest.raises(Invalid) as refused:
        _issue(alice, **change)
    assert refused.value.field == field
    assert not ApiToken.objects.exists()


def test_live_tokens_are_limited(alice):
    for number in range(MAX_TOKENS):
        token, _ = _issue(alice, name=f"t{number}")
    with pytest.raises(Invalid, match="revoke one"):
        _issue(alice)
    revoke_token(actor=alice, token=token, now=NOON)
    assert _issue(alice)
