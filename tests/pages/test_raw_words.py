"""No page shows a word of the code: its texts are for people."""

from __future__ import annotations

import pytest

from tests.pages.matrix import ROWS
from tests.pages.raw_words import raw_words
from tests.pages.test_matrix import address, people, things

pytestmark = [pytest.mark.django_db, pytest.mark.once]
__all__ = ["people", "things"]


@pytest.mark.once
@pytest.mark.parametrize("persona", ["alice", "root"])
def test_no_page_shows_words_of_the_code(people, things, client, persona):
    client.force_login(people[persona])
    found, asked = [], 0
    for row in ROWS:
        if row.method == "GET" and row.statuses[persona] == 200:
            answer = client.get(address(row, things), row.data)
            if not answer.streaming and "html" in answer.headers["Content-Type"]:
                asked += 1
                html = answer.content.decode()
                found += [f"{row.route}: {word}" for word in raw_words(html)]
    assert asked > 50 and "; ".join(found) == ""


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<p>It is hard_stop.</p><code>hard_stop</code>", ["hard_stop"]),
        ("<td>las</td><option value='las'>least run first</option>", ["las"]),
        ("<option>fifo</option>", ["fifo"]),
        ("<th>p90</th><small>p50</small> of a SKU", ["p90", "p50", "SKU"]),
        ("<p title='JobState.QUEUED'>queued</p>", ["JobState.QUEUED"]),
        ("<dd>None</dd><p>None waits.</p>", ["None"]),
        ("<bdi>my_job</bdi><br><div class='code wrap'>a_b<p>c_d</p></div>e_f", ["e_f"]),
    ],
)
def test_what_is_one(html, words):
    assert raw_words(html) == words
