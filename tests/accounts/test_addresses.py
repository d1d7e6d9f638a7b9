"""A mail address changes: asked for, confirmed from the new one, taken back from the old one."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from allauth.account.forms import EmailAwarePasswordResetTokenGenerator
from allauth.account.utils import filter_users_by_email
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone

from accounts.errors import Conflict, Forbidden, Invalid, NotFound
from accounts.models import AddressChange, AuditEvent, User
from accounts.selectors.addresses import clean_email, is_held, open_change_of
from accounts.services import create_user, issue_token, make_service_account
from accounts.services.addresses.asking import (
    ask_address,
    ask_address_for,
    cancel_address,
    send_address_link,
)
from accounts.services.addresses.changing import (
    confirm_address,
    prune_addresses,
    set_address,
    undo_address,
)
from accounts.services.identities.claims import Claims
from accounts.services.identities.entering import enter
from tests.factories import PASSWORD

pytestmark = pytest.mark.django_db
NEW = "alice@new.example"
ISSUER = "https://idp.example"


@pytest.fixture
def post(mailoutbox, django_capture_on_commit_callbacks):
    """Do something; what was mailed for it: recipient and text."""

    def post(act, **given) -> list[tuple[str, str]]:
        before = len(mailoutbox)
        with django_capture_on_commit_callbacks(execute=True):
            act(**given)
        return [(mail.to[0], mail.body) for mail in mailoutbox[before:]]

    return post


def secret(text: str) -> str:
    found = re.search(r"/addresses/(?:confirm|undo)/([\w-]+)/", text)
    assert found, text
    return found[1]


def email_of(person: User) -> str:
    return User.objects.get(pk=person.pk).email


def test_it_changes_once_the_link_is_followed_and_not_before(alice, post):
    told = post(ask_address, actor=alice, email=f" {NEW} ")
    assert [to for to, _ in told] == [NEW, "alice@example.org"]
    assert email_of(alice) == "alice@example.org"
    assert open_change_of(alice, alice).new_email == NEW
    link, undo = (secret(text) for _, text in told)
    kept = AddressChange.objects.get()
    assert not {link, undo} & {kept.link_hash, kept.undo_hash}
    with pytest.raises(NotFound):
        confirm_address(secret=undo)
    after = post(confirm_address, secret=link)
    assert email_of(alice) == NEW
    assert [to for to, _ in after] == ["alice@example.org"] and NEW in after[0][1]
    with pytest.raises(NotFound):  # once
        confirm_address(secret=link)
    actions = AuditEvent.objects.filter(subject_label="alice", area="people")
    assert list(actions.order_by("pk").values_list("action", flat=True))[-2:] == [
        "address.ask",
        "address.confirm",
    ]


def test_a_link_is_good_for_an_hour_and_the_last_one_alone(alice, post):
    now = timezone.now()
    first = secret(post(ask_address, actor=alice, email=NEW, now=now)[0][1])
    with pytest.raises(NotFound):
        confirm_address(secret=first, now=now + timedelta(hours=1))
    ((to, text),) = post(send_address_link, actor=alice, now=now + timedelta(hours=2))
    assert to == NEW
    with pytest.raises(NotFound):
        confirm_address(secret=first, now=now)
    confirm_address(secret=secret(text), now=now + timedelta(hours=2.5))
    assert email_of(alice) == NEW


def test_cancelled_or_asked_anew_the_links_of_before_are_good_no_more(alice, post):
    first = [secret(text) for _, text in post(ask_address, actor=alice, email=NEW)]
    second = secret(post(ask_address, actor=alice, email="a@other.example")[0][1])
    cancel_address(actor=alice)
    for one in (first[0], second):
        with pytest.raises(NotFound):
            confirm_address(secret=one)
    with pytest.raises(NotFound):
        undo_address(secret=first[1])
    assert open_change_of(alice, alice) is None
    for act in (cancel_address, send_address_link):
        with pytest.raises(Conflict, match="No other mail address waits"):
            act(actor=alice)


@pytest.mark.parametrize("held", ["bob@example.org", "BOB@EXAMPLE.ORG", "ｂob@example.org"])
def test_anothers_address_is_answered_alike_and_its_holder_told(alice, bob, post, held):
    told = post(ask_address, actor=alice, email=held)
    assert [to.lower() for to, _ in told] == ["bob@example.org", "alice@example.org"]
    assert "belongs to another account" in told[0][1] and "/addresses/" not in told[0][1]
    assert open_change_of(alice, alice) is not None
    ((_, again),) = post(send_address_link, actor=alice)
    assert "/addresses/" not in again


def test_an_address_that_somebody_took_meanwhile_is_not_given(alice, post):
    link = secret(post(ask_address, actor=alice, email=NEW)[0][1])
    create_user(username="zoe", email=NEW.upper(), password=PASSWORD)
    with pytest.raises(Conflict, match="by now"):
        confirm_address(secret=link)
    assert email_of(alice) == "alice@example.org"


def test_the_old_address_takes_it_back_with_all_that_came_after(alice, client, post):
    client.force_login(alice)
    token, _ = issue_token(actor=alice, name="x", scopes=["jobs:read"])
    now = timezone.now()
    letters = post(ask_address, actor=alice, email="evil@new.example", now=now)
    first, undo = (secret(text) for _, text in letters)
    confirm_address(secret=first, now=now)
    assert client.get("/jobs/").status_code == 200
    alice.refresh_from_db()
    second = post(ask_address, actor=alice, email="evil@other.example", now=now)
    confirm_address(secret=secret(second[0][1]), now=now)
    # Nobody gets the old address while it may be taken back.
    assert is_held("ALICE@example.org") and not is_held("alice@example.org", but=alice)
    with pytest.raises(Invalid, match="There is an account"):
        create_user(username="zoe", email="alice@example.org", password=PASSWORD)
    with pytest.raises(NotFound):
        undo_address(secret=undo, now=now + timedelta(days=7))
    told = post(undo_address, secret=undo, now=now + timedelta(days=6))
    assert {to for to, _ in told} == {"alice@example.org", "evil@other.example"}
    assert email_of(alice) == "alice@example.org"
    assert client.get("/jobs/").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is None
    for one in (undo, secret(second[1][1])):
        with pytest.raises(NotFound):
            undo_address(secret=one, now=now)


def test_sessions_and_tokens_stay_and_letters_with_a_password_end(alice, client, post):
    client.force_login(alice)
    ways = EmailAwarePasswordResetTokenGenerator()
    letter = ways.make_token(alice)
    link = secret(post(ask_address, actor=alice, email=NEW)[0][1])
    assert ways.check_token(User.objects.get(pk=alice.pk), letter)
    confirm_address(secret=link)
    assert not ways.check_token(User.objects.get(pk=alice.pk), letter)
    assert client.get("/jobs/").status_code == 200
    assert filter_users_by_email("alice@example.org") == []
    assert filter_users_by_email(NEW) == [alice]
    assert Client().login(username="alice", password=PASSWORD)


def test_an_administrator_asks_and_the_person_confirms_it_signed_in(root, alice, bob, post):
    with pytest.raises(Forbidden):
        ask_address_for(actor=bob, user=alice, email=NEW, reason="lost")
    for reason in ("", "x" * 1001):
        with pytest.raises(Invalid, match="reason"):
            ask_address_for(actor=root, user=alice, email=NEW, reason=reason)
    told = post(ask_address_for, actor=root, user=alice, email=NEW, reason="lost her mailbox")
    assert "An administrator, root, asked" in told[1][1]
    link = secret(told[0][1])
    for reader in (None, root, bob):
        with pytest.raises(Forbidden):
            confirm_address(secret=link, viewer=reader)
    confirm_address(secret=link, viewer=alice)
    assert email_of(alice) == NEW
    event = AuditEvent.objects.get(action="address.ask")
    assert (event.actor_name, event.reason) == ("root", "lost her mailbox")


def test_set_at_once_both_are_told_and_nothing_takes_it_back(root, alice, bob, post):
    undo = secret(post(ask_address, actor=alice, email=NEW)[1][1])
    with pytest.raises(Invalid, match="Another account"):
        set_address(actor=root, user=alice, email="bob@example.org", reason="x")
    told = post(set_address, actor=root, user=alice, email="a@set.example", reason="left the firm")
    assert [to for to, _ in told] == ["alice@example.org", "a@set.example"]
    assert "left the firm" in told[0][1]
    assert email_of(alice) == "a@set.example" and open_change_of(root, alice) is None
    with pytest.raises(NotFound):
        undo_address(secret=undo)
    assert AuditEvent.objects.get(action="address.set").reason == "left the firm"


def test_whose_address_nobody_sets(root, alice, bob, team):
    other = create_user(
        username="boss", email="boss@example.org", password=PASSWORD, is_superuser=True
    )
    given = {"email": NEW, "reason": "x"}
    with pytest.raises(Forbidden, match="confirms their new address themselves"):
        set_address(actor=root, user=other, **given)
    with pytest.raises(Forbidden, match="This is you"):
        set_address(actor=root, user=root, **given)
    with pytest.raises(Forbidden):
        set_address(actor=bob, user=alice, **given)
    program = make_service_account(actor=root, team=team, name="nightly")
    with pytest.raises(Invalid, match="Programs"):
        set_address(actor=root, user=program, **given)
    with pytest.raises(Forbidden, match="Programs"):
        ask_address(actor=program, email=NEW)
    with pytest.raises(NotFound):
        open_change_of(bob, alice)
    with pytest.raises(NotFound):
        cancel_address(actor=bob, user=alice)


def test_what_is_no_address_and_what_is_the_same(alice):
    for text in ("", "alice", "a@b@c", "a" * 250 + "@x.org", "a\x00@x.org"):
        with pytest.raises(Invalid) as refused:
            ask_address(actor=alice, email=text)
        assert refused.value.field == "email"
    with pytest.raises(Invalid, match="already"):
        ask_address(actor=alice, email="alice@example.org ")
    # The sign for kelvins passes for a letter.
    assert clean_email("\u212aim@example.org") == "Kim@example.org"


def test_where_others_decide(settings, root, alice, post):
    settings.MAIL_ADDRESSES = "administrators"
    with pytest.raises(Forbidden, match="Ask one of them"):
        ask_address(actor=alice, email=NEW)
    link = secret(post(ask_address_for, actor=root, user=alice, email=NEW, reason="moved")[0][1])
    confirm_address(secret=link, viewer=alice)
    assert email_of(alice) == NEW


def test_where_the_provider_decides_the_address_follows_it(settings, root, bob, post):
    settings.OIDC_ISSUER, settings.OIDC_NAME = ISSUER, "Work"
    pat = create_user(username="pat", email="pat@corp.example", password=None)
    SocialAccount.objects.create(
        user=pat, provider=ISSUER, uid="p1", extra_data={"email": "pat@corp.example"}
    )
    for act, given in (
        (ask_address, {"actor": pat, "email": NEW}),
        (set_address, {"actor": root, "user": pat, "email": NEW, "reason": "x"}),
    ):
        with pytest.raises(Forbidden, match="Work tells of"):
            act(**given)
    for told, becomes in (
        ("pat@new.example", "pat@new.example"),
        ("bob@example.org", "pat@new.example"),  # another's
        ("", "pat@new.example"),  # not proven
    ):
        enter(claims=Claims(issuer=ISSUER, subject="p1", username="pat", email=told))
        assert email_of(pat) == becomes
    assert AuditEvent.objects.filter(action="address.follow").count() == 1
    # One with a password here decides themselves.
    SocialAccount.objects.create(
        user=bob, provider=ISSUER, uid="b", extra_data={"email": "b@corp.example"}
    )
    ask_address(actor=bob, email=NEW)


def test_what_is_long_over_is_forgotten(alice, post):
    now = timezone.now()
    link = secret(post(ask_address, actor=alice, email=NEW, now=now)[0][1])
    confirm_address(secret=link, now=now)
    assert prune_addresses(now=now + timedelta(days=89)) == 0
    assert prune_addresses(now=now + timedelta(days=91)) == 1
