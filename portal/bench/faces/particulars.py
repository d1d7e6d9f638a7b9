"""One of each kind of thing that has a page of its own."""

from __future__ import annotations

from decimal import Decimal

from django.utils import timezone

from accounts.models import Project, User
from accounts.secrets import hash_secret
from accounts.selectors import visible_teams
from accounts.services import invite
from accounts.services.addresses.asking import ask_address
from portal.bench.figures import POOL, tell
from scheduler.models import Pool
from scheduler.services.books import propose_asset
from scheduler.services.composing.templates import create_template
from scheduler.services.inbox import add_channel, change_channel
from scheduler.services.jobs import submit_job
from scheduler.services.recurring.keeping import create_schedule
from scheduler.services.recurring.terms import Terms
from scheduler.services.seconding.proposing import propose_to_cancel_set
from scheduler.services.simulating.scenarios import ask_scenario, simulate_scenarios
from scheduler.spec import parse_spec
from scheduler.states.seconding import ALONE_AT_MOST

_REPLAYED_HOURS = 24


def one_of_each(root: User, pool: Pool, user: User, project: Project) -> None:
    """An array that somebody else wants to end, a session, a template, a schedule, a purchase, a
    scenario that waits for its replay, and a chat of each."""
    plain = {"project": project.path, "pool": POOL, "memory": "1GiB", "time_limit": "2h"}
    # One task more than one person may end alone.
    tasks = f"1-{ALONE_AT_MOST + 1}"
    array = {"name": "sweep", "script": "sleep 9\n", "array": tasks, **plain}
    shell = {"name": "look", "session": {"app": "shell"}, **plain}
    sweep, _ = (submit_job(actor=user, spec=parse_spec(one)).job for one in (array, shell))
    assert sweep.job_set is not None
    propose_to_cancel_set(actor=root, job_set=sweep.job_set, reason="Its data set was withdrawn.")
    create_template(
        actor=root,
        team=project.team,
        name="One node",
        document={"script": "python train.py\n", "gpus_per_node": 8},
        rules={"script": "locked"},
    )
    spec = parse_spec({"name": "nightly", "script": "python eval.py\n", **plain})
    create_schedule(actor=user, spec=spec, terms=Terms(name="Nightly", rule="30 2 * * *"))
    propose_asset(
        actor=root,
        pool=pool,
        name="Eight nodes",
        paid=Decimal(2_000_000),
        since=timezone.localdate(),
        months=48,
    )
    ask_scenario(actor=root, pool=pool, hours=_REPLAYED_HOURS, changes=["policy=shortest"])
    for person in (root, user):
        chat = add_channel(actor=person, url="https://hooks.slack.com/services/x", dialect="slack")
        # Nobody out there is to be called.
        change_channel(actor=person, channel=chat, is_paused=True)


def replay_waiting() -> None:
    """As the task does."""
    tell(f"replaying the last {_REPLAYED_HOURS} h: {simulate_scenarios()} scenario")


def invited(root: User) -> str:
    """The secret of an invitation; only the mail has it, so it is made where it is used."""
    team = visible_teams(root).order_by("pk")[0]
    _, secret = invite(actor=root, team=team, email="new@example.org")
    return secret


def asked_address(person: User) -> dict[str, str]:
    """By route the secrets of a change of this person's mail address; only the letters have them,
    so others take their place."""
    change = ask_address(actor=person, email=f"new-{person.pk}@example.org")
    kept = {"address_confirm": f"link-{change.pk}", "address_undo": f"undo-{change.pk}"}
    change.link_hash, change.undo_hash = map(hash_secret, kept.values())
    change.save(update_fields=["link_hash", "undo_hash"])
    return kept
