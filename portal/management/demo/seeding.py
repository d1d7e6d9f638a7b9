"""Makes the demonstration, from its people to its books; everything through the services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from django.db.models import Model

from accounts.models import CostCentre, Project, RateKind, Role, Team, User
from accounts.services import (
    add_member,
    approve_rate,
    create_project,
    create_team,
    create_user,
    give_role,
    leave_team,
    propose_rate,
    set_cost_centre,
)
from portal.management.demo.history import MODEL, Told, Yard, enrol_nodes, moment
from portal.management.demo.people import COST_CENTRES, SUB_TEAM, TEAMS, Person, people
from portal.management.demo.plan import DAY_S, draw_plan
from portal.management.seeding import NewAccount, new_password
from scheduler.conf import load_conf
from scheduler.ledger.periods import Month
from scheduler.models import Node, Pool
from scheduler.selectors.queues import queues_of
from scheduler.services.books import close_period
from scheduler.services.nodes import create_pool
from scheduler.services.queues import pause_queue
from scheduler.services.requesting.asking import ask_for_quota
from scheduler.services.sharing.budgets import set_budget
from scheduler.services.sharing.limits import set_quota

POOL = "demo-h100"
JOBS = 220
# Days of the first of the three months, so that each has work.
_FIRST_DAYS = 3
_PRICES = {
    RateKind.GENERAL: "2.9500",
    RateKind.BORROWED: "2.1000",
    RateKind.OVERHEAD: "0.5000",
    RateKind.UNREACHABLE: "0",
    RateKind.RESERVED_IDLE: "1.2000",
    RateKind.IDLE_SHARE: "0.9000",
    RateKind.PLATFORM_SHARE: "0.4000",
}


@dataclass
class Demo:
    """What was made."""

    teams: list[Team]
    projects: list[Project]
    users: list[User]
    pool: Pool
    accounts: list[NewAccount]
    nodes: list[Node] = field(default_factory=list)
    below: list[Team] = field(default_factory=list)
    centres: list[CostCentre] = field(default_factory=list)
    moments: int = 0

    def roots(self) -> list[Model]:
        """What was made and hangs on nothing else of it."""
        return [
            *self.users,
            *self.teams,
            *self.below,
            *self.centres,
            *self.projects,
            self.pool,
            *self.nodes,
        ]


def seed(
    actor: User,
    *,
    seed: int,
    jobs: int,
    now: datetime,
    renew: Callable[[], int],
    tell: Callable[[str], object],
    with_passwords: bool = True,
) -> Demo:
    """Five teams, forty people, eight nodes, two closed months and an open one.

    `renew` keeps the scheduler's lease and gives its token; `tell` says what is being done.
    `with_passwords`: people can sign in, and who is told their passwords is `Demo.accounts`.
    """
    months = months_of(now)
    start_s = months[0].end_s - _FIRST_DAYS * DAY_S
    tell("people, teams and prices")
    demo = _organisation(actor, with_passwords)
    by_role = _officers(actor, demo)
    _prices(by_role["finance"], moment(start_s) - timedelta(days=1))
    _cost_centres(by_role["finance"][0], demo, moment(start_s))
    tell("nodes and quotas")
    operator = by_role["operator"][0]
    demo.nodes = enrol_nodes(operator, demo.pool, moment(start_s))
    for team, (_, _, _, gpus) in zip(demo.teams, TEAMS, strict=True):
        set_quota(actor=operator, owner=team, pool=demo.pool, guaranteed=gpus, now=moment(start_s))
    tell(f"{jobs} jobs since {moment(start_s):%Y-%m-%d}")
    owners = _owners(demo)
    yard = Yard(operator, demo.pool, demo.nodes, owners, renew)
    plan = draw_plan(seed, start_s, int(now.timestamp()), jobs=jobs, owners=len(owners))
    told = Told(yard)
    demo.moments = told.tell(plan)
    told.hear_all(now)
    for queue in queues_of(actor, demo.pool):
        pause_queue(actor=operator, queue=queue)
    tell("closing two months")
    for month in months[:2]:
        closed_at = moment(month.end_s) + timedelta(days=2, hours=9)
        close_period(actor=by_role["finance"][0], period=str(month), now=min(closed_at, now))
    tell("budgets and requests")
    _budgets(by_role, demo, months[2], now)
    _requests(demo, owners, now)
    return demo


def _cost_centres(finance: User, demo: Demo, now: datetime) -> None:
    """Two teams share one; the last one has none yet."""
    for team, (code, name) in zip(demo.teams, COST_CENTRES, strict=False):
        charged = set_cost_centre(actor=finance, team=team, code=code, name=name, now=now)
        centre = charged.cost_centre
        if centre is not None and centre not in demo.centres:
            demo.centres.append(centre)


def months_of(now: datetime) -> list[Month]:
    """The month of now and the two before it."""
    this = Month.of(int(now.timestamp()))
    before = Month.of(this.start_s - 1)
    return [Month.of(before.start_s - 1), before, this]


def _organisation(actor: User, with_passwords: bool) -> Demo:
    pool = create_pool(actor=actor, name=POOL, description="Simulated: no machine is behind it.")
    demo = Demo([], [], [], pool, [])
    for name, slug, projects, _ in TEAMS:
        team = create_team(actor=actor, name=f"{name} (demo)", slug=slug)
        demo.teams.append(team)
        demo.projects += [create_project(actor=actor, team=team, name=one) for one in projects]
    name, slug, above, projects = SUB_TEAM
    below = create_team(actor=actor, name=f"{name} (demo)", slug=slug, parent=demo.teams[above])
    demo.projects += [create_project(actor=actor, team=below, name=one) for one in projects]
    for person in people():
        user = _account(actor, demo, person, new_password() if with_passwords else None)
        if person.team is not None:
            role = Role.LEAD if person.role == "lead" else Role.MEMBER
            add_member(actor=actor, team=demo.teams[person.team], user=user, role=role)
            if person.team == above and role == Role.MEMBER:
                add_member(actor=actor, team=below, user=user, role=role)
    demo.below.append(below)
    add_member(actor=actor, team=below, user=demo.users[-1], role=Role.LEAD)
    for team in (*demo.teams, below):
        leave_team(actor=actor, team=team)
    return demo


def _account(actor: User, demo: Demo, person: Person, password: str | None) -> User:
    user = create_user(
        username=person.username,
        email=f"{person.username}@example.com",
        password=password,
        display_name=person.shown,
        actor=actor,
    )
    demo.users.append(user)
    if password is not None and person.role != "member":
        where = "of the organisation" if person.team is None else TEAMS[person.team][0]
        demo.accounts.append(NewAccount(person.username, password, f"{person.role}, {where}"))
    return user


def _officers(actor: User, demo: Demo) -> dict[str, list[User]]:
    """Who holds which role of the organisation."""
    found: dict[str, list[User]] = {}
    for person, user in zip(people(), demo.users, strict=True):
        if person.team is None:
            give_role(actor=actor, user=user, role=person.role)
            found.setdefault(person.role, []).append(user)
    return found


def _prices(clerks: list[User], since: datetime) -> None:
    """Proposed by one, approved by the other, for the time before too."""
    first, second = clerks
    for kind, price in _PRICES.items():
        rate = propose_rate(
            actor=first,
            device_model=MODEL,
            kind=kind,
            price_per_gpu_hour=Decimal(price),
            currency=load_conf().currency,
            valid_from=since,
            restate=True,
            reason="The demonstration begins.",
        )
        approve_rate(actor=second, rate=rate)


def _owners(demo: Demo) -> list[tuple[User, Project]]:
    """Who submits to which project; the first ones submit most."""
    pairs = [
        (user, project)
        for person, user in zip(people(), demo.users, strict=True)
        if person.team is not None
        for project in demo.projects
        if project.team_id == demo.teams[person.team].pk
        or (person.team == SUB_TEAM[2] and project.team_id == demo.below[0].pk)
    ]
    Random(7).shuffle(pairs)
    return pairs


def _budgets(by_role: dict[str, list[User]], demo: Demo, month: Month, now: datetime) -> None:
    until = month.following.following.start_s
    for team, hours in zip(demo.teams[:3], (9_000, 12_000, 4_000), strict=True):
        set_budget(
            actor=by_role["operator"][0],
            owner=team,
            gpu_hours=hours,
            valid_from=moment(month.start_s),
            valid_until=moment(until),
            now=now,
        )


def _requests(demo: Demo, owners: list[tuple[User, Project]], now: datetime) -> None:
    """Three people wait for a decision."""
    wishes = (
        ("guaranteed", 8, "The long-context phase begins on Monday and must not be preempted."),
        ("budget", 1_500, "Two more seeds for the paper's main table."),
        ("guaranteed", 16, "The challenge closes in three weeks."),
    )
    asked: set[int] = set()
    for kind, amount, words in wishes:
        user, project = next((u, p) for u, p in owners if p.team_id not in asked)
        asked.add(project.team_id)
        ask_for_quota(
            actor=user,
            owner=project.team,
            kind=kind,
            amount=amount,
            pool=demo.pool if kind == "guaranteed" else None,
            valid_from=now.astimezone(UTC) + timedelta(days=1),
            valid_until=now.astimezone(UTC) + timedelta(days=31),
            justification=words,
            now=now,
        )
