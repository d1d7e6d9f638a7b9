"""Bends of cards offered too early, of what is told, of what was revoked, and of standing still."""

from __future__ import annotations


def offered_in_trouble(story):
    story.row("device", 3)["trouble"] = "xid"


def offered_before_its_check(story):
    story.row("device", 3)["check_at"] = 190.0


def handed_out_before_it_was_clean(story):
    story.row("nodeevent", 3)["at"] = 150.0


def handed_out_and_never_found_clean(story):
    story.tables["nodeevent"].remove(story.row("nodeevent", 3))


def device_left_busy(story):
    story.facts.append({"kind": "left", "at": 300.0, "what": "gpu-GPU-3"})


def mail_never_sent(story):
    story.row("outboundmail", 1)["sent_at"] = None


def mail_called_sent(story):
    story.rules["arrived"] = ["other"]


def call_never_made(story):
    story.row("delivery", 1)["sent_at"] = None


def call_told_twice(story):
    story.tables["delivery"].append({**story.row("delivery", 1), "id": 2})


def call_refused_and_called_sent(story):
    story.row("delivery", 1)["status"] = 500


def call_given_up_untried(story):
    story.row("delivery", 1).update(sent_at=None, given_up_at=110.0, tries=0)


def call_never_arrived(story):
    """Called sent, and its receiver had only told that it cannot take it."""
    story.fact("call", 1)["status"] = 503


def call_by_nobody_known(story):
    story.fact("call", 1)["signed"] = False


def call_told_something_else(story):
    story.fact("call", 1)["digest"] = "b"


def token_lives_on(story):
    story.fact("used")["status"] = 200


def token_was_used_on(story):
    story.row("apitoken", 1)["last_used_at"] = 111.0


def session_lives_on(story):
    story.fact("used", 1)["status"] = 200


def socket_tells_on(story):
    story.fact("frame")["at"] = 111.0


def ticket_lets_in_twice(story):
    story.fact("entered", 1)["status"] = 303


def tunnel_outlives_its_session(story):
    """Eleven seconds after its end a page of a session's program is still answered."""
    tunnel = {"what": "tunnel", "token": "1"}
    story.facts += [
        {"kind": "revoked", "at": 100.0, **tunnel},
        {"kind": "used", "at": 111.0, "status": 200, **tunnel},
    ]


def role_lives_on(story):
    """Eleven seconds after it was taken away somebody still reads a job by it."""
    role = {"what": "role", "token": "a1"}
    story.facts += [
        {"kind": "revoked", "at": 100.0, **role},
        {"kind": "used", "at": 111.0, "status": 200, **role},
    ]


def open_page_outlives_a_role(story):
    role = {"what": "role", "token": "a1"}
    story.facts += [
        {"kind": "revoked", "at": 100.0, **role},
        {"kind": "frame", "at": 110.6, **role},
    ]


def nodes_secret_lives_on(story):
    node = {"what": "node", "token": "spare-1"}
    story.facts += [
        {"kind": "revoked", "at": 100.0, **node},
        {"kind": "used", "at": 111.0, "status": 200, **node},
    ]


def another_sessions_program_answers(story):
    story.fact("answered")["by"] = 2


def nothing_ran_though_it_fits(story):
    """Nine seconds without a fault in which nothing runs, and the job waits."""
    story.rules["starts_within_s"] = 5.0
    story.fact("fault").update(at=90.0, until=95.0)
    for event in story.tables["nodeevent"]:
        event["at"] = 99.0


def nothing_ran_though_it_fits_in_its_pool(story):
    """Others are in another pool, where it does not fit."""
    nothing_ran_though_it_fits(story)
    story.tables["node"].append({**story.row("node", 1), "id": 2, "name": "n2", "pool_id": 9})


def waits_for_ever(story):
    story.row("job", 1)["state"] = "queued"


CARDS = [
    device_left_busy,
    offered_in_trouble,
    offered_before_its_check,
    handed_out_before_it_was_clean,
    handed_out_and_never_found_clean,
]
OUTBOX = [
    call_never_arrived,
    call_by_nobody_known,
    call_told_something_else,
    mail_never_sent,
    mail_called_sent,
    call_never_made,
    call_told_twice,
    call_refused_and_called_sent,
    call_given_up_untried,
]
REVOKED = [
    token_lives_on,
    token_was_used_on,
    session_lives_on,
    socket_tells_on,
    ticket_lets_in_twice,
    tunnel_outlives_its_session,
    role_lives_on,
    open_page_outlives_a_role,
    nodes_secret_lives_on,
]
OTHERS_SESSION = another_sessions_program_answers
STALLS = [
    *(waits_for_ever, nothing_ran_though_it_fits, nothing_ran_though_it_fits_in_its_pool),
]
