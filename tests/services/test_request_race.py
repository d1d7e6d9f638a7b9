"""Two people decide on the same version at once; and histories in which anybody tries anything."""

from __future__ import annotations

import random
import threading
from datetime import timedelta

import pytest
from django.db import connections, transaction

from accounts.errors import DomainError
from accounts.models import Role
from accounts.services import add_member
from scheduler.models import Grant, Quota, QuotaRequest, RequestDecision, SchedulerLease
from scheduler.services.errors import Conflict
from scheduler.services.requesting.asking import (
    answer_request,
    revise_request,
    withdraw_request,
)
from scheduler.services.requesting.deciding import decide_request
from scheduler.services.sharing.effective import effective_of
from scheduler.services.sharing.limits import set_quota
from scheduler.services.sharing.tree import account_of, locked, on_the_way
from tests import factories, scenes
from tests.locks import wait_until_somebody_waits
from tests.requesting import DAY_S, WORDS, ask
from tests.scenes import at


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_of_two_deciders_at_once_one_wins(root, team, project, alice, lead):
    scenes.build_cluster(root, gpus=16)
    set_quota(actor=root, owner=team, guaranteed=8)
    other = factories.member("other", team, Role.LEAD, by=root)
    asked = ask(alice, project)
    gate, answers = threading.Barrier(2), []

    def say(person, outcome, **more):
        try:
            gate.wait()
            decide_request(
                actor=person, request_id=asked.pk, version=asked.version, outcome=outcome, **more
            )
            answers.append("won")
        except Conflict as refused:
            answers.append(refused.code)
        finally:
            connections.close_all()

    both = [
        threading.Thread(target=say, args=(lead, "approve")),
        threading.Thread(target=say, args=(other, "deny"), kwargs={"reason_code": "no_budget"}),
    ]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(answers) == ["stale_version", "won"]
    asked.refresh_from_db()
    assert RequestDecision.objects.count() == 1
    assert Grant.objects.count() == (asked.state == "approved")


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_a_first_guarantee_waits_for_starts_before_it_locks_accounts(
    root, team, project, alice, lead
):
    scenes.build_cluster(root, gpus=16)
    asked = ask(alice, project)
    asked = decide_request(
        actor=lead, request_id=asked.pk, version=asked.version, outcome="approve"
    )
    account_of(team), account_of(project)
    has_first, problems = threading.Event(), []

    def start() -> None:
        # As a start does it: the lease, then what its accounts hold.
        try:
            with transaction.atomic():
                list(SchedulerLease.objects.select_for_update())
                has_first.set()
                wait_until_somebody_waits()
                locked(on_the_way([(project.pk, team.pk)]))
        except Exception as problem:
            problems.append(problem)
        finally:
            connections.close_all()

    SchedulerLease.objects.create(expires_at=at(0))
    other = threading.Thread(target=start)
    other.start()
    assert has_first.wait(30)
    decided = decide_request(
        actor=root, request_id=asked.pk, version=asked.version, outcome="approve"
    )
    other.join(60)
    assert not other.is_alive() and not problems
    assert decided.state == "approved"


def _try_anything(rng: random.Random, people, request: QuotaRequest, now) -> None:
    """One random act of a random person, at times with a version that is not the latest."""
    who = {
        "actor": rng.choice(people),
        "request_id": request.pk,
        "version": request.version - rng.choice((0, 0, 0, 1)),
        "now": now,
    }
    act = rng.choice(("decide",) * 6 + ("revise", "withdraw", "answer"))
    if act == "decide":
        said = rng.choice(("approve", "approve", "approve", "less", "ask", "deny"))
        more = {"less": {"amount": 1}, "ask": {"comment": "Why?"}, "deny": {"reason_code": "other"}}
        decide_request(**who, outcome=said, **more.get(said, {}))
    elif act == "revise":
        until = now + timedelta(days=9)
        wish = {"valid_from": now, "valid_until": until, "justification": WORDS}
        revise_request(**who, amount=rng.randint(2, 5), **wish)
    elif act == "answer":
        answer_request(**who, text="So that.")
    elif rng.random() < 0.2:
        withdraw_request(**who)


def _check_history(request: QuotaRequest, leads: set[int], admins: set[int]) -> None:
    """F22: in force only by distinct people with the rights, none of them the asker."""
    yes = list(request.decisions.filter(revision=request.revision, outcome__in=("approve", "less")))
    people = [one.decided_by_id for one in yes]
    if request.granted is None:
        return
    assert request.state in ("approved", "partly_approved")
    assert request.asked_by_id not in people
    assert len(people) == len(set(people)) >= 1
    rights = {"lead": leads | admins, "admin": admins}
    assert all(one.decided_by_id in rights[one.step] for one in yes)
    asked = request.versions.get(number=request.revision)
    agreed = yes[-1].amount
    assert agreed is not None
    assert request.granted.guaranteed == agreed <= asked.amount
    assert "admin" in {one.step for one in yes}, "more than the team has free"


def _history(seed: int, people, request: QuotaRequest, steps: int = 14) -> None:
    rng = random.Random(seed)
    for step in range(steps):
        before = (request.version, request.decisions.count(), Grant.objects.count())
        try:
            _try_anything(rng, people, request, at(60 * (step + 1)))
        except DomainError:
            after = QuotaRequest.objects.get(pk=request.pk)
            assert before == (after.version, after.decisions.count(), Grant.objects.count())
        request.refresh_from_db()
        assert Grant.objects.count() <= 1


def _run_histories(seeds, root, team, project, alice, bob, lead, operator) -> int:
    scenes.build_cluster(root)
    second = factories.person("second", is_superuser=True)
    add_member(actor=root, team=team, user=second, role=Role.MEMBER)
    people = [alice, bob, lead, operator, root, second]
    granted = 0
    for seed in seeds:
        with transaction.atomic():
            request = ask(random.Random(seed).choice([alice, lead, root]), project)
            _history(seed, people, request)
            _check_history(request, {lead.pk}, {root.pk, second.pk})
            granted += request.granted_id is not None
            transaction.set_rollback(True)
    return granted


@pytest.mark.django_db
def test_no_history_leads_past_the_people_it_needs(root, team, project, alice, bob, lead, operator):
    everybody = (root, team, project, alice, bob, lead, operator)
    assert _run_histories(range(3), *everybody) > 0


@pytest.mark.long
@pytest.mark.django_db
@pytest.mark.timeout(900)
def test_no_history_of_hundreds_does(root, team, project, alice, bob, lead, operator):
    everybody = (root, team, project, alice, bob, lead, operator)
    assert _run_histories(range(100, 400), *everybody) > 50


@pytest.mark.django_db
def test_a_quota_is_its_row_and_what_is_granted_at_each_moment(root, team):
    """F21: `to` does not count any more, `from` does; what is revoked never does."""
    quota = set_quota(actor=root, owner=team, guaranteed=3, maximum=90)
    scenes.build_cluster(root)
    rng = random.Random(21)
    rows = []
    for _ in range(60):
        begin = rng.randrange(0, 40)
        end = begin + rng.randrange(1, 30)
        revoked = at(0) if rng.random() < 0.2 else None
        rows.append((begin, end, rng.randrange(0, 5), rng.randrange(0, 5), revoked))
    Grant.objects.bulk_create(
        Grant(
            quota=quota,
            guaranteed=own,
            maximum=most,
            valid_from=at(begin * DAY_S),
            valid_until=at(end * DAY_S),
            revoked_at=revoked,
        )
        for begin, end, own, most, revoked in rows
    )
    quota = Quota.objects.get(pk=quota.pk)
    for day in range(72):
        for second in (-1, 0):
            moment = day * DAY_S + second
            found = effective_of([quota], now=at(moment))[quota.pk]
            active = [
                (own, most)
                for begin, end, own, most, revoked in rows
                if begin * DAY_S <= moment < end * DAY_S and revoked is None
            ]
            assert found.guaranteed == 3 + sum(own for own, _ in active)
            assert found.maximum == 90 + sum(most for _, most in active)
            assert found.borrow_limit is None
