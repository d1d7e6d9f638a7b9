"""Bends of what was asked for beforehand: tries, moments, waits, idle GPUs, news in a chat."""

from __future__ import annotations


def node_spent_a_retry(story):
    story.row("attempt", 11)["triage"] = {"then": "user"}
    story.row("job", 1).update(user_retries_used=1, free_retries_used=0)


def number_is_spent_twice(story):
    story.row("attempt", 11).update(end_reason="exit_code", triage={"then": "user"})
    story.row("job", 1).update(user_retries_used=1, free_retries_used=0, retries=0)


def rule_is_spent_twice(story):
    facts = {"goes_on": True, "rule": {"number": 1, "does": "retry"}}
    story.row("attempt", 11).update(
        end_reason="exit_code", triage={"then": "rule"}, end_facts=facts
    )
    story.row("job", 1).update(retry_rules=[{"exit": "75", "max": 0}], free_retries_used=0)


def wait_is_cut_short(story):
    story.row("attempt", 11)["end_facts"] = {"goes_on": True, "pause_s": 30}


def goes_on_after_its_end(story):
    story.row("attempt", 11)["end_facts"] = {"goes_on": False}


def starts_too_late(story):
    story.row("job", 1).update(start_by=125.0)


def runs_beyond(story):
    """By its rows; and by its program's word alone."""
    story.row("job", 1).update(finish_by=150.0)
    story.row("attempt", 12)["ended_at"] = 900.0


def program_runs_beyond(story):
    story.row("job", 1).update(finish_by=150.0)
    story.facts.append({**story.said("exit", 12, 250.0), "code": 0})


def begins_before_it_was_done(story):
    story.row("awaited", 9)["ended_at"] = 106.0


def begins_though_it_failed(story):
    story.row("awaited", 9)["state"] = "failed"


def ran_before_the_other_program_was_done(story):
    """Both are called over in time."""
    story.fact("exit", 1)["at"] = 102.0


def waits_for_another_index(story):
    story.row("awaited", 9)["array_index"] = 3


def stopped_unwarned(story):
    story.row("attempt", 12)["end_reason"] = "idle_stopped"


def paused_before_its_notice_was_over(story):
    story.row("attempt", 12)["end_reason"] = "idle_paused"
    story.row("idlewarning", 1)["outcome"] = "paused"


def paused_and_to_be_kept(story):
    paused_before_its_notice_was_over(story)
    story.row("idlewarning", 1).update(act_at=200.0, kept_until=500.0)


def warned_and_not_told(story):
    story.row("notification", 1)["key"] = "job:1"


def chat_is_told_twice(story):
    story.tables["waitingnews"].append({**story.row("waitingnews", 1), "id": 2})


def chat_is_never_told(story):
    story.tables["waitingnews"].clear()
    story.row("delivery", 2)["webhook_id"] = 4


def news_are_taken_and_not_written(story):
    story.tables["waitingnews"].append({**story.row("waitingnews", 1), "id": 2, "key": "other"})


def news_wait_for_ever(story):
    story.row("waitingnews", 1)["taken_at"] = None
    story.row("delivery", 2)["webhook_id"] = 4


def message_never_arrived(story):
    story.fact("message", 1)["status"] = 500


def message_was_not_counted(story):
    story.facts.append(story.fact("message", 0))


def message_is_tried_for_ever(story):
    story.row("delivery", 2)["tries"] = 9


TRIES = [
    *(node_spent_a_retry, number_is_spent_twice, rule_is_spent_twice),
    *(wait_is_cut_short, goes_on_after_its_end),
]
MOMENTS = [starts_too_late, runs_beyond, program_runs_beyond]
WAITS = [
    *(begins_before_it_was_done, begins_though_it_failed),
    *(ran_before_the_other_program_was_done, waits_for_another_index),
]
RESTS = [
    *(stopped_unwarned, paused_before_its_notice_was_over),
    *(paused_and_to_be_kept, warned_and_not_told),
]
CHATS = [
    *(chat_is_told_twice, chat_is_never_told, news_are_taken_and_not_written, news_wait_for_ever),
    *(message_never_arrived, message_was_not_counted, message_is_tried_for_ever),
]
