"""The small world of the demonstration, made through the services like everything else.

Running it again changes nothing that is there. New people get random passwords.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path

from django.conf import settings

from accounts.errors import DomainError
from accounts.models import OrganisationRole, Role, Team, User
from accounts.selectors import (
    has_administrator,
    members_of,
    person_named,
    visible_projects,
    visible_teams,
)
from accounts.selectors.rates import current_rates
from accounts.services import (
    add_member,
    create_first_administrator,
    create_project,
    create_team,
    create_user,
    give_role,
    leave_team,
    price_reserved_alike,
    set_rate,
)
from scheduler.conf import load_conf
from scheduler.models import Pool
from scheduler.selectors.cluster import visible_pools
from scheduler.services.nodes import create_pool

ADMINISTRATOR = "admin"
# slug, name, projects
TEAMS = (
    ("vision", "Vision", ("Digits", "Segmentation")),
    ("language", "Language", ("Pretraining",)),
    ("speech", "Speech", ("Recognition",)),
)
# username, shown name, what they are, roles by team
PEOPLE: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("alice", "Alice Moreau", "researcher in Vision", {"vision": Role.MEMBER}),
    ("bob", "Bob Okafor", "researcher in Vision", {"vision": Role.MEMBER}),
    ("lena", "Lena Fischer", "leads Vision", {"vision": Role.LEAD}),
    ("chen", "Chen Wei", "leads Language", {"language": Role.LEAD}),
    ("carol", "Carol Santos", "leads Speech", {"speech": Role.LEAD}),
    ("finn", "Finn Larsen", "finance", dict.fromkeys(("vision", "language", "speech"), "finance")),
    ("olga", "Olga Petrova", "operator of the cluster", {"vision": Role.OPERATOR}),
)
# username, shown name, what they are, role of the organisation
OFFICERS: tuple[tuple[str, str, str, str], ...] = (
    ("frida", "Frida Holm", "keeps the books", OrganisationRole.FINANCE),
    ("amir", "Amir Haddad", "audits, changes nothing", OrganisationRole.AUDITOR),
)
# model ("" is every other one), price per GPU-hour
RATES = (("NVIDIA H100 80GB HBM3", "2.9500"), ("NVIDIA H200", "3.6000"), ("", "1.2000"))


@dataclass(frozen=True, slots=True)
class NewAccount:
    """Somebody who was created just now; nobody can read the password again later."""

    username: str
    password: str
    words: str


def ensure_administrator() -> list[NewAccount]:
    """A first administrator where there is none."""
    if has_administrator():
        return []
    password = new_password()
    create_first_administrator(
        username=ADMINISTRATOR, email=f"{ADMINISTRATOR}@localhost", password=password
    )
    return [NewAccount(ADMINISTRATOR, password, "administrator")]


def ensure_pool(actor: User, name: str) -> Pool:
    """The pool of this name."""
    found = visible_pools(actor).filter(name=name).first()
    return found or create_pool(actor=actor, name=name, description="The nodes of this machine.")


def seed_demo(actor: User) -> list[NewAccount]:
    """Three teams with projects, people in every role, prices, the pool `default`.

    Roles of the organisation go to who is made here; one that was taken since is not given again.
    """
    ensure_pool(actor, "default")
    known = {rate.device_model for rate in current_rates()}
    for model, price in RATES:
        if model not in known:
            rate = set_rate(
                actor=actor,
                device_model=model,
                price_per_gpu_hour=Decimal(price),
                currency=load_conf().currency,
            )
            price_reserved_alike(actor=actor, rate=rate)
    teams = {slug: _ensure_team(actor, slug, name, names) for slug, name, names in TEAMS}
    made = []
    for username, shown, words, roles in PEOPLE:
        made += _ensure_person(actor, username, shown, words)
        _ensure_roles(actor, username, roles, teams)
    for username, shown, words, role in OFFICERS:
        new = _ensure_person(actor, username, shown, words)
        user = person_named(username)
        if new and user is not None:
            give_role(actor=actor, user=user, role=role)
        made += new
    for team in teams.values():
        # The administrator opened the team and leaves it to its own lead.
        if members_of(actor, team).filter(user=actor).exists():
            leave_team(actor=actor, team=team)
    return made


def keep_accounts(made: Sequence[NewAccount]) -> Path:
    """Write the new passwords below the older ones, readable by this user alone."""
    path = Path(settings.STATE_DIR) / "accounts.txt"
    path.touch(mode=0o600)
    with path.open("a", encoding="utf-8") as file:
        for account in made:
            file.write(f"{account.username}\t{account.password}\t{account.words}\n")
    return path


def as_documents(made: Sequence[NewAccount]) -> list[dict[str, str]]:
    """For `prepare --json`."""
    return [asdict(account) for account in made]


def new_password() -> str:
    """Random, without letters that look alike."""
    letters = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    return "-".join("".join(secrets.choice(letters) for _ in range(5)) for _ in range(3))


def _ensure_team(actor: User, slug: str, name: str, projects: tuple[str, ...]) -> Team:
    team = visible_teams(actor).filter(slug=slug).first()
    if team is None:
        team = create_team(actor=actor, name=name, slug=slug)
    there = set(visible_projects(actor).filter(team=team).values_list("name", flat=True))
    for project in projects:
        if project not in there:
            create_project(actor=actor, team=team, name=project)
    return team


def _ensure_person(actor: User, username: str, shown: str, words: str) -> list[NewAccount]:
    if person_named(username) is not None:
        return []
    password = new_password()
    create_user(
        username=username,
        email=f"{username}@example.com",
        password=password,
        display_name=shown,
    )
    return [NewAccount(username, password, words)]


def _ensure_roles(
    actor: User, username: str, roles: dict[str, str], teams: dict[str, Team]
) -> None:
    user = person_named(username)
    if user is None:
        raise DomainError(f"{username} is gone")
    for slug, role in roles.items():
        if not members_of(actor, teams[slug]).filter(user=user).exists():
            add_member(actor=actor, team=teams[slug], user=user, role=role)
