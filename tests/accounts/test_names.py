"""Names of teams, projects and people."""

from __future__ import annotations

import pytest

from accounts.errors import Invalid
from accounts.names import clean_name, clean_slug, confusable_key, slug_for
from accounts.services import create_project, create_team, create_user, rename_team
from tests.factories import PASSWORD

BAD_NAMES = [
    "",
    "   ",
    "\u200b\u200d",
    "x" * 129,
    "x" * 1_000_000,
    "a\x00b",
    "a\nb",
    "a\r\nBcc: x",
    "a\ud800b",
    "e" + "\u0301" * 6,
    "e" + "\u0301\u0489" * 3,
    "...",
]
LOOKALIKES = [
    "vision",
    "VISION",
    " Vision ",
    "Vi\u200bsion",
    "V\u0456s\u0456\u043en",
    "\uff36\uff49\uff53\uff49\uff4f\uff4e",
    "Visi\u00f3n",
    "Vis\u0307ion",
    "\u202eVision",
    "Visi0n",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_cannot_be_read_are_refused(name):
    with pytest.raises(ValueError, match=r"\."):
        clean_name(name)


@pytest.mark.parametrize(
    "name", ["Vision", "Équipe 7", "映像", "R&D <3>", "{{7*7}}", "Team 👩‍🔬", "e\u0301"]
)
def test_names_of_people_who_write_otherwise_are_kept(name):
    assert confusable_key(clean_name(name))


def test_a_name_is_trimmed_and_composed():
    assert clean_name("  e\u0301quipe ") == "équipe"


@pytest.mark.parametrize("name", LOOKALIKES)
def test_lookalikes_share_a_key(name):
    assert confusable_key(name) == confusable_key("Vision")


@pytest.mark.parametrize("other", ["Visions", "Vis-ion", "Television", "Speech"])
def test_different_names_have_different_keys(other):
    assert confusable_key(other) != confusable_key("Vision")


@pytest.mark.parametrize(
    ("name", "slug"),
    [("Équipe Alpha!", "equipe-alpha"), ("--A--", "a"), ("映像", ""), ("x" * 200, "x" * 63)],
)
def test_slugs_are_made_from_names(name, slug):
    assert slug_for(name) == slug


@pytest.mark.parametrize(
    "slug",
    ["new", "api", "admin", "settings", "", "-a", "A", "a b", "a/b", "..", "a\n", "é", ";rm"],
)
def test_slugs_that_addresses_cannot_hold_are_refused(slug):
    with pytest.raises(ValueError, match=r"\."):
        clean_slug(slug)


@pytest.mark.django_db
@pytest.mark.parametrize("name", LOOKALIKES)
def test_a_second_team_cannot_look_like_the_first(root, team, name):
    with pytest.raises(Invalid) as refused:
        create_team(actor=root, name=name, slug="another")
    assert refused.value.field == "name"


@pytest.mark.django_db
def test_project_names_are_kept_apart_within_their_team_only(root, team, other_team):
    create_project(actor=root, team=team, name="Digits")
    with pytest.raises(Invalid):
        create_project(actor=root, team=team, name="D\u0456gits", slug="d2")
    assert create_project(actor=root, team=other_team, name="Digits").path == "speech/digits"


def test_a_short_name_that_is_taken_is_said_at_the_short_name(root, team):
    rename_team(actor=root, team=team, name="Seeing")
    with pytest.raises(Invalid, match="short name vision is taken; choose another") as refused:
        create_team(actor=root, name="Vision")
    assert refused.value.field == "slug"
    create_team(actor=root, name="Vision", slug="vision-2")
    create_project(actor=root, team=team, name="Digits", slug="d")
    with pytest.raises(Invalid, match="short name d is taken") as refused:
        create_project(actor=root, team=team, name="Other", slug="d")
    assert refused.value.field == "slug"


@pytest.mark.django_db
def test_a_name_without_latin_letters_needs_a_short_name(root):
    with pytest.raises(Invalid, match="lower-case"):
        create_team(actor=root, name="映像")
    assert create_team(actor=root, name="映像", slug="eizo").slug == "eizo"


@pytest.mark.django_db
def test_renaming_keeps_the_slug_and_minds_the_others(root, team, other_team):
    assert rename_team(actor=root, team=team, name="Computer Vision").slug == "vision"
    with pytest.raises(Invalid):
        rename_team(actor=root, team=team, name="SPEECH")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "username",
    ["", " ", "me", "a b", "a@b.c", "\u0430lice", "-x", "x" * 151, "a\x00", "a\n", "<b>", "ALICE"],
)
def test_user_names_that_pass_for_others_are_refused(alice, username):
    with pytest.raises(Invalid) as refused:
        create_user(username=username, email="x@example.org", password=PASSWORD)
    assert refused.value.field == "username"


@pytest.mark.django_db
@pytest.mark.parametrize("email", ["", "x", "a@b\nc", "ALICE@example.org", "a\x00@example.org"])
def test_addresses_are_checked_and_kept_apart(alice, email):
    with pytest.raises(Invalid) as refused:
        create_user(username="newbie", email=email, password=PASSWORD)
    assert refused.value.field == "email"
