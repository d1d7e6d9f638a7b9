"""Rows for database tests, made through the services."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accounts.models import Role, Team, User
from accounts.services import add_member, create_user
from scheduler.models import Delivery, Webhook

PASSWORD = "correct horse battery"


def person(username: str, **more: Any) -> User:
    """A user named like this, with the common test password."""
    return create_user(
        username=username,
        email=f"{username}@example.org",
        password=PASSWORD,
        display_name=username.title(),
        **more,
    )


def member(username: str, team: Team, role: str = Role.MEMBER, *, by: User) -> User:
    """A new user in a team."""
    user = person(username)
    add_member(actor=by, team=team, user=user, role=role)
    return user


def told(webhook: Webhook, key: str, now: datetime, **more: Any) -> Delivery:
    """A piece of news on its way to a program."""
    return Delivery.objects.create(
        webhook=webhook, key=key, kind="budget", body="{}", created_at=now, not_before=now, **more
    )
