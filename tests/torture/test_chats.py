"""I33: what a chat may be spared, and what not."""

from __future__ import annotations

import pytest

from portal.torture.invariants import check_all
from tests.torture.stories import Story


def test_what_its_owner_did_and_did_not_ask_for_is_told_to_no_chat_of_theirs():
    story = Story()
    news = {**story.row("notification", 1), "id": 2, "key": "job:2:cancelled"}
    story.tables["notification"].append({**news, "asked": False})
    assert check_all(story.evidence())["I33"].breaks == ()
    story.row("notification", 2)["asked"] = None
    [words] = check_all(story.evidence())["I33"].breaks
    assert words == "I33: chat 3 was never told job:2:cancelled"


@pytest.mark.parametrize("number, breaks", [(1, 1), (9, 0)], ids=["there", "deleted"])
def test_news_of_a_schedule_that_was_deleted_may_be_left_unsaid(number, breaks):
    story = Story()
    news, waits = story.row("notification", 1), story.row("waitingnews", 1)
    subject = f"schedule:{number}"
    story.tables["notification"].append({**news, "id": 2, "key": "other", "subject": subject})
    story.tables["waitingnews"].append({**waits, "id": 2, "key": "other", "notification_id": 2})
    assert len(check_all(story.evidence())["I33"].breaks) == breaks
