"""People."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts import names
from accounts.errors import Conflict, Invalid
from accounts.models import User


def create_user(
    *, username: str, email: str, password: str, display_name: str = "", is_superuser: bool = False
) -> User:
    """A new person; raises Invalid that names the field."""
    try:
        UnicodeUsernameValidator()(username)
        if len(username) > 150:
            raise ValidationError("Use at most 150 characters.")
    except ValidationError:
        raise Invalid(
            "Use letters, digits and @ . + - _ only, at most 150.", field="username"
        ) from None
    user = User(
        username=username,
        email=email,
        display_name=display_name,
        is_superuser=is_superuser,
        is_staff=is_superuser,
    )
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), field="password") from None
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save()
    except IntegrityError:
        raise Invalid("This user name or e-mail address is taken.", field="username") from None
    return user


@transaction.atomic
def create_first_administrator(*, username: str, email: str, password: str) -> User:
    """The very first person; refused once there is an administrator."""
    if User.objects.filter(is_superuser=True).exists():
        raise Conflict("There is an administrator already.")
    return create_user(username=username, email=email, password=password, is_superuser=True)


def change_display_name(*, actor: User, display_name: str) -> User:
    """The name shown to others; empty goes back to the user name."""
    if display_name:
        try:
            display_name = names.clean_name(display_name)
        except ValueError as error:
            raise Invalid(str(error), field="display_name") from None
    User.objects.filter(pk=actor.pk).update(display_name=display_name)
    actor.display_name = display_name
    return actor
