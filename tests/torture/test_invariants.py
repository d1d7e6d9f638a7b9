"""Each invariant holds over a good history and finds what breaks it in a bent one."""

from __future__ import annotations

import pytest

from portal.torture.invariants import INVARIANTS, check_all
from portal.torture.watching import Watch
from tests.torture.bent_asked import CHATS, MOMENTS, RESTS, TRIES, WAITS
from tests.torture.bent_at_last import CARDS, OTHERS_SESSION, OUTBOX, REVOKED, STALLS
from tests.torture.bent_limits import BUDGETS, QUOTAS
from tests.torture.bent_logs import LOGS, SECRETS, rewrite
from tests.torture.bent_places import (
    BOOKINGS,
    HELD,
    QUARANTINES,
    quarantine_forgotten_while_away,
)
from tests.torture.grouped import GROUPS
from tests.torture.pooled import NAMED
from tests.torture.repeated import DUES, SESSIONS, TURNS
from tests.torture.stories import Story, log_bytes


def started_early(story):
    story.row("attempt", 12)["assigned_at"] = 119.0


def old_attempt_moves(story):
    story.row("jobevent", 7)["attempt_id"] = 11


def final_state_left(story):
    story.tables["jobevent"].append(story.event(8, 12, "cancelled", "succeeded", "cancelled"))
    story.row("job", 1).update(state="cancelled", version=8)


def started_twice(story):
    story.facts.append(story.said("start", 12, 132.0))


def started_by_nobody(story):
    story.facts.append(story.said("start", 99, 132.0))


def ran_on(story):
    story.facts.append({**story.said("exit", 11, 140.0), "code": 0})


def job_lock_clashed(story):
    story.facts.append({**story.said("clash", 12, 131.0), "what": "job-1-0"})


def nobody_saw_the_exit(story):
    story.facts.remove(story.fact("exit"))


def success_stored_otherwise(story):
    story.row("placement", 22)["exit_code"] = None


def over_and_holds_a_device(story):
    story.row("allocation", 1)["released_at"] = None


def over_and_its_attempt_lives(story):
    story.row("attempt", 12).update(state="stopping", ended_at=None, end_reason="")


def still_running(story):
    story.row("attempt", 12).update(state="running", ended_at=None, end_reason="")


def half_ended(story):
    story.row("attempt", 12)["state"] = "running"


def overdue(story):
    story.facts.append({"kind": "overdue", "at": 300.0, "job": 1, "state": "stopping"})


def accepted_and_gone(story):
    story.fact("submit", 1)["jobs"] = [1, 2]


def there_and_unasked(story):
    story.tables["job"].append({**story.row("job", 1), "id": 9, "name": "other"})


def key_made_two(story):
    story.facts.append({"kind": "submit", "at": 92.0, "key": "k1", "status": 201, "jobs": [2]})


def name_made_two(story):
    story.tables["job"].append({**story.row("job", 1), "id": 9})


def cancel_took_long(story):
    story.row("job", 1)["ended_at"] = 300.0


def program_lived_on(story):
    """The server believed it to be over long before."""
    story.fact("exit")["at"] = 300.0


def process_left(story):
    story.facts.append({"kind": "left", "at": 300.0, "what": "job-1-0"})


def log_of_another(story):
    rewrite(story, "b", 2, b"\n" + log_bytes(1, 11, 0, 1) + log_bytes(1, 12, 0, 3))


def audit_broken(story):
    story.fact("audit")["broken"] = "event 7 was changed after it was recorded"


def audit_unsealed(story):
    story.fact("audit")["unsealed"] = 3


def event_missing(story):
    story.row("job", 1)["version"] = 8


def segments_part(story):
    story.row("devicesegment", 2)["start_s"] = 101


def charged_twice(story):
    story.tables["usageentry"].append(story.entry(2, "accrual", 70))


def never_given_back(story):
    story.tables["usageentry"].remove(story.row("usageentry", -20))


def books_broken(story):
    story.fact("verified").update(ok=False, words="a chain")


def shown_otherwise(story):
    story.fact("shown")["state"] = "running"


def left_out_of_the_list(story):
    story.facts.remove(story.fact("shown"))


def open_page_never_heard(story):
    story.fact("quiet")["shows"] = [[1, "running"]]


def stranger_saw(story):
    story.fact("peek")["status"] = 200


def restarted_after_restore(story):
    story.fact("restored")["starts"].append([31, 0])


def clashed_after_restore(story):
    story.fact("restored")["clashes"].append("job-1-0")


def left_after_restore(story):
    story.fact("restored")["left"].append("gpu-GPU-3")


def lost_by_a_clock(story):
    """An hour by the clock, fourteen seconds in truth."""
    story.rules["steps"] = [(115.0, 3600.0)]
    story.row("nodeevent", 1).update(kind="lost", from_state="silent", at=3715.0)


def limited_by_a_clock(story):
    story.row("attempt", 12)["end_reason"] = "time_limit"


def reached_its_node(story):
    story.facts.append({**story.said("trespass", 12, 132.0), "what": "guard"})


def drowned_its_neighbour(story):
    """The clock of the node is no excuse any more: it was set long afterwards."""
    story.fact("fault").update(at=300.0, until=310.0)


BENT = {
    "I1": [started_early],
    "I2": HELD,
    "I3": [old_attempt_moves],
    "I4": [final_state_left, half_ended],
    "I5": [started_twice, started_by_nobody],
    "I6": [ran_on, job_lock_clashed],
    "I7": [nobody_saw_the_exit, success_stored_otherwise],
    "I8": [still_running, overdue],
    "I9": CARDS,
    "I10": QUARANTINES,
    "I11": QUOTAS,
    "I12": BUDGETS,
    "I13": BOOKINGS,
    "I14": [accepted_and_gone, there_and_unasked],
    "I15": [key_made_two, name_made_two],
    "I16": [
        *(cancel_took_long, process_left, program_lived_on),
        *(over_and_holds_a_device, over_and_its_attempt_lives),
    ],
    "I17": LOGS,
    "I18": [log_of_another],
    "I19": SECRETS,
    "I20": [event_missing, audit_broken, audit_unsealed],
    "I21": OUTBOX,
    "I22": [segments_part, charged_twice, never_given_back, books_broken],
    "I23": [shown_otherwise, left_out_of_the_list, open_page_never_heard],
    "I24": [stranger_saw, OTHERS_SESSION],
    "I25": REVOKED,
    "I26": STALLS,
    "I27": [restarted_after_restore, clashed_after_restore, left_after_restore],
    "I28": [lost_by_a_clock, limited_by_a_clock],
    "I29": TRIES,
    "I30": MOMENTS,
    "I31": WAITS,
    "I32": RESTS,
    "I33": CHATS,
    "I34": DUES,
    "I35": TURNS,
    "I36": SESSIONS,
    "I37": GROUPS,
    "I38": NAMED,
    "F16": [reached_its_node, drowned_its_neighbour],
}


def test_a_good_history_breaks_nothing_and_shows_something_for_every_invariant():
    found = check_all(Story().evidence())
    assert [words for finding in found.values() for words in finding.breaks] == []
    assert [name for name, finding in found.items() if not finding.looked_at] == []


def test_every_invariant_has_its_breach():
    assert (
        BENT.keys()
        == INVARIANTS.keys()
        == {
            *(f"I{number}" for number in range(1, 39)),
            "F16",
        }
    )


def test_a_session_that_rested_is_done_without_an_exit():
    story = Story()
    story.row("attempt", 12)["end_reason"] = "session_idle"
    nobody_saw_the_exit(story)
    assert check_all(story.evidence())["I7"].breaks == ()


def test_who_is_resumed_while_away_comes_back_by_right():
    story = Story()
    quarantine_forgotten_while_away(story)
    silent, heard = story.tables["nodeevent"][-2:]
    resumed = {**silent, "id": heard["id"], "kind": "resume", "from_state": "", "to_state": ""}
    story.tables["nodeevent"][-1:] = [resumed, {**heard, "id": heard["id"] + 1}]
    assert check_all(story.evidence())["I10"].breaks == ()


def test_who_is_retired_while_away_is_gone_by_right():
    story = Story()
    quarantine_forgotten_while_away(story)
    story.tables["nodeevent"][-1] |= {"kind": "retire", "to_state": "retired"}
    assert check_all(story.evidence())["I10"].breaks == ()


@pytest.mark.parametrize(
    ("name", "bend"), [(name, bend) for name, bends in BENT.items() for bend in bends]
)
def test_what_breaks_an_invariant_is_found(name, bend):
    story = Story()
    bend(story)
    found = check_all(story.evidence())[name].breaks
    assert found and all(words.startswith(f"{name}: ") for words in found)


@pytest.mark.parametrize(
    ("bend", "is_seen"), [(there_and_unasked, False), (accepted_and_gone, True)]
)
def test_who_watches_a_run_takes_nothing_for_a_break_that_may_only_be_on_its_way(bend, is_seen):
    story = Story()
    bend(story)
    assert Watch(None, None, None, ("I14",)).breaks(story.evidence()) is is_seen
