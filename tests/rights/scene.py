"""One world for the whole matrix: everybody who may ask, and what they ask for, own and foreign.

"Own" is alice's team, which is below the team that `above` leads; "foreign" is carol's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.test import Client
from django.utils import timezone

from accounts.models import Project, Team, User
from accounts.services import (
    SERVICE_SCOPES,
    create_project,
    create_team,
    give_role,
    invite,
    issue_service_token,
    make_service_account,
    move_team,
)
from scheduler.models import Asset, Attempt, Job, Pool
from scheduler.services.books import approve_spending, propose_asset
from scheduler.services.simulating.scenarios import ask_scenario
from tests import requesting, scenes
from tests.addresses import asked as asked_address
from tests.composing import make_template
from tests.factories import member, person
from tests.pages.telling import channel_of
from tests.pages.yard import book_soon
from tests.recurring import schedule_of
from tests.seconding import waiting_cancel

PEOPLE = ("member", "lead", "above", "finance", "operator", "admin", "auditor")
PERSONAS = (*PEOPLE, "service")


@dataclass
class Side:
    """A team and what is addressed in it."""

    team: Team
    project: Project
    job: Job
    queued: Job
    attempt: Attempt
    words: dict[str, Any]


@dataclass
class Scene:
    """Who asks, with what, and for what."""

    people: dict[str, User]
    clients: dict[str, Client]
    headers: dict[str, str]
    own: Side
    foreign: Side


def build() -> Scene:
    """About sixty rows more than a test usually has; once for all personas."""
    root = person("root", is_superuser=True)
    above = create_team(actor=root, name="Above")
    people = {"admin": root, "above": member("above", above, "lead", by=root)}
    for role in ("finance", "operator", "auditor"):
        people[role] = person(role)
        give_role(actor=root, user=people[role], role=role)
    cluster = scenes.build_cluster(root, nodes=2, gpus=2)
    sides = []
    for number, name in ((1, "Own"), (2, "Foreign")):
        team = create_team(actor=root, name=name)
        somebody = member(f"of-{team.slug}", team, by=root)
        lead = member(f"lead-of-{team.slug}", team, "lead", by=root)
        sides.append(_side(cluster, number, team, somebody, lead))
        if number == 1:
            somebody, lead = (User.objects.get(pk=one.pk) for one in (somebody, lead))
            people |= {"member": somebody, "lead": lead}
            move_team(actor=root, team=team, parent=above)
    own, foreign = sides
    service = make_service_account(actor=people["lead"], team=own.team, name="ci")
    _, secret = issue_service_token(
        actor=people["lead"], account=service, name="ci", scopes=SERVICE_SCOPES
    )
    clients = {}
    for name in PEOPLE:
        clients[name] = Client()
        clients[name].force_login(people[name])
    clients["service"] = Client()
    people["service"] = service
    return Scene(people, clients, {"HTTP_AUTHORIZATION": f"Bearer {secret}"}, own, foreign)


def _bought(pool: Pool) -> Asset:
    root = User.objects.get(username="root")
    asset = propose_asset(
        actor=root, pool=pool, name="cards", paid=Decimal(10), since=date(2126, 1, 1), months=2
    )
    return approve_spending(actor=person(f"second-{asset.pk}", is_superuser=True), row=asset)


def _replayed(pool: Pool) -> int:
    root = User.objects.get(username="root")
    return ask_scenario(actor=root, pool=pool, hours=1, changes=["policy=fifo"]).pk


def _side(cluster: scenes.Cluster, number: int, team: Team, somebody: User, lead: User) -> Side:
    project = create_project(actor=lead, team=team, name="Work")
    # Rights are read once for each object: these two have been asked before there was a project.
    somebody, lead = (User.objects.get(pk=one.pk) for one in (somebody, lead))
    node, now = cluster.node(number), timezone.now()
    job = scenes.submit(somebody, project, name="running", now=now)
    attempt = scenes.start(job, node, now=now)
    scenes.sync(node, scenes.running(attempt), now=now)
    scenes.write_log(node, attempt, b"epoch 1\n")
    output = scenes.write_output(node, attempt, "loss.csv", b"0.5")
    queued = scenes.submit(somebody, project, name="queued", now=now)
    asked = requesting.ask(somebody, project, now=now)
    _, secret = invite(actor=lead, team=team, email=f"new-{number}@example.org")
    moving = asked_address(person(f"moving-{number}"), f"moved-{number}@example.org")
    pool = Pool.objects.get()
    job_set = scenes.submit(somebody, project, array="0-1").job_set
    assert job_set is not None
    words = {
        "running": job.pk,
        "output": output.pk,
        "attempt": attempt.number,
        "queued": queued.pk,
        "statement": 1,  # nothing is billed here
        "job_set": job_set.pk,
        "bulk_cancel": waiting_cancel(job_set).pk,
        "session": scenes.submit(somebody, project, script="", session="shell").pk,
        "job_schedule": schedule_of(somebody, project, now=now).pk,
        "asked": asked.pk,
        "booking": book_soon(lead, project, pool).pk,
        "scenario": _replayed(pool),
        "pool": pool.name,
        "node": node.name,
        "team": team.slug,
        "channel": channel_of(somebody).pk,
        "somebody": f"of-{team.slug}",
        "template": make_template(lead, team),
        "project": project.slug,
        "secret": secret,
        **dict(zip(("address_link", "address_undo"), moving, strict=True)),
        "asset": _bought(pool).pk,
        "report": "period-summary",
        "month": "2026-11",
        "focus": "1.2",
    }
    return Side(team, project, job, queued, attempt, words)
