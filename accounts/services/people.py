"""People."""

from __future__ import annotations

import itertools
import re
import unicodedata

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts import names
from accounts.errors import Conflict, Invalid
from accounts.models import User
from accounts.selectors.addresses import clean_email, is_held
from accounts.services.audit import pictured, record

# ASCII, so that nobody can look like somebody else; no @, so that nobody is called like another
# person's address, with which one may sign in as well.
_USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,149}")
# Filters know these words: `user:me`.
# So that a program is told from a person wherever a name is shown.
SERVICE_PREFIX = "svc-"
_MAX_WISH, _MAX_BASE = 400, 60
_RESERVED_USERNAMES = frozenset({"me", "all", "none", "anonymous"})


def create_user(
    *,
    username: str,
    email: str,
    password: str | None,
    display_name: str = "",
    is_superuser: bool = False,
    actor: User | None = None,
) -> User:
    """A new person; raises Invalid that names the field.

    `actor` is who makes them; None for an invitation that is accepted and for the first one.
    Without a `password` nobody can sign in as them but from elsewhere, and they may be without an
    address as well.
    """
    _check_username(username)
    if email or password is not None:
        email = clean_email(email)
    user = User(
        username=username,
        email=email,
        display_name=display_name,
        is_superuser=is_superuser,
        is_staff=is_superuser,
    )
    if password is None:
        user.set_unusable_password()
    else:
        try:
            validate_password(password, user)
        except ValidationError as error:
            raise Invalid(" ".join(error.messages), field="password") from None
        user.set_password(password)
    _refuse_taken(username, email)
    try:
        with transaction.atomic():
            user.save()
            record(
                actor,
                "person.create",
                user,
                after=pictured(user, "username", "email", "display_name", "is_superuser"),
            )
    except IntegrityError:
        raise Invalid("This user name or e-mail address is taken.", field="username") from None
    return user


def free_username(wish: str) -> str:
    """A user name that obeys the rules and nobody has, as close to `wish` as can be."""
    plain = unicodedata.normalize("NFKD", wish[:_MAX_WISH]).encode("ascii", "ignore").decode()
    base = re.sub(r"[^A-Za-z0-9._+-]+", "-", plain).strip("-._+")[:_MAX_BASE]
    if not base or base.lower() in _RESERVED_USERNAMES or base.lower().startswith(SERVICE_PREFIX):
        base = f"person-{base}".rstrip("-")
    found = User.objects.filter(username__istartswith=base).values_list("username", flat=True)
    taken = {name.lower() for name in found}
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    return next(name for each in numbers if (name := base + each).lower() not in taken)


def _check_username(username: str) -> None:
    if not _USERNAME.fullmatch(username):
        raise Invalid(
            "Use letters a-z, digits and . + - _ only, a letter or digit first, at most 150.",
            field="username",
        )
    if username.lower().startswith(SERVICE_PREFIX):
        raise Invalid(f"Names that begin with {SERVICE_PREFIX} are programs'.", field="username")
    if username.lower() in _RESERVED_USERNAMES:
        raise Invalid(f"{username} is reserved; choose another.", field="username")


def _refuse_taken(username: str, email: str) -> None:
    if User.objects.filter(username__iexact=username).exists():
        raise Invalid("This user name is taken.", field="username")
    if email and is_held(email):
        raise Invalid(
            "There is an account with this e-mail address; sign in with it.", field="email"
        )


@transaction.atomic
def create_first_administrator(*, username: str, email: str, password: str) -> User:
    """The very first person; refused once there is an administrator."""
    if User.objects.filter(is_superuser=True).exists():
        raise Conflict("There is an administrator already.")
    return create_user(username=username, email=email, password=password, is_superuser=True)


@transaction.atomic
def change_display_name(*, actor: User, display_name: str) -> User:
    """The name shown to others; empty goes back to the user name."""
    if display_name:
        try:
            display_name = names.clean_name(display_name)
        except ValueError as error:
            raise Invalid(str(error), field="display_name") from None
    before = pictured(actor, "display_name")
    User.objects.filter(pk=actor.pk).update(display_name=display_name)
    actor.display_name = display_name
    record(actor, "person.rename", actor, before=before, after=pictured(actor, "display_name"))
    return actor


def keep_scope(*, actor: User, scope: str) -> None:
    """What the person's pages are narrowed to from now on; empty: everything."""
    User.objects.filter(pk=actor.pk).update(scope=scope or None)
    actor.scope = scope or None


def keep_columns(*, actor: User, columns: str) -> None:
    """Which columns the person's table of jobs has from now on; empty: the usual ones."""
    User.objects.filter(pk=actor.pk).update(job_columns=columns[:200] or None)
