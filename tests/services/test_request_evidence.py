"""What deciders see of a request is of just what they decide on, and the record keeps that."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.services.requesting.asking import revise_request, submit_request
from scheduler.services.requesting.foreseeing import whatif
from tests import scenes
from tests.requesting import DAY_S, WORDS, ask, decide
from tests.scenes import at

pytestmark = pytest.mark.django_db
NOW = at(2 * DAY_S)


@pytest.fixture
def cluster(root):
    return scenes.build_cluster(root, nodes=1, gpus=4)


def test_what_a_draft_said_before_is_nobodys_evidence(cluster, team, project, alice, lead):
    draft = ask(alice, team, amount=2, is_draft=True, now=NOW)
    old = whatif.simulate_at_once(whatif.ask_whatif(actor=alice, request=draft, now=NOW), now=NOW)
    wish = {"amount": 2, "valid_from": NOW + timedelta(days=9), "justification": WORDS}
    until = NOW + timedelta(days=30)
    who = {"actor": alice, "request_id": draft.pk, "now": NOW}
    draft = revise_request(**who, version=draft.version, valid_until=until, **wish)
    sent = submit_request(**who, version=draft.version)
    assert old.answer and not sent.whatifs.exists()
    assert decide(lead, sent, now=NOW).decisions.get().whatif is None


def test_what_is_on_the_table_is_simulated_with_its_end(cluster, root, team, project, alice, lead):
    request = ask(alice, team, amount=2, now=NOW)
    first = whatif.simulate(whatif.ask_whatif(actor=lead, request=request, now=NOW), now=NOW)
    until = NOW + timedelta(days=3)
    cut = decide(lead, request, "less", valid_until=until, now=NOW)
    assert cut.decisions.get().whatif == first
    second = whatif.ask_whatif(actor=root, request=cut, now=NOW)
    assert (second.pk != first.pk, second.amount, second.valid_until) == (True, 2, until)
    whatif.simulate(second, now=NOW)
    # A tenth of the days, a tenth of the cost.
    costs = [float(one.answer["monthly_cost"][2]) for one in (first, second)]
    assert costs[0] == pytest.approx(10 * costs[1])
    assert decide(root, cut, now=NOW).decisions.last().whatif == second


def test_who_looks_again_is_told_anew_and_who_asks_until_it_is_done_is_not(
    cluster, team, project, alice, lead
):
    request = ask(alice, team, amount=2, now=NOW)
    row = whatif.ask_whatif(actor=lead, request=request, now=NOW)
    later = NOW + timedelta(hours=2)
    who = {"actor": lead, "request": request}
    assert whatif.ask_whatif(**who, fresh_for=timedelta(0), now=later) == row
    whatif.simulate(row, now=later)
    assert whatif.ask_whatif(**who, now=later + timedelta(minutes=4)) == row
    assert whatif.ask_whatif(**who, fresh_for=timedelta(0), now=later) != row
