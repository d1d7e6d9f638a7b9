"""What every answer of a page says to browsers of itself."""

from __future__ import annotations

import pytest

from tests.pages.test_matrix import READ, address, people, things

__all__ = ["people", "things"]

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def test_every_answer_carries_the_headers_of_a_strict_page(people, things, client):
    client.force_login(people["root"])
    wrong = []
    for row in READ:
        answer = client.get(address(row, things), row.data)
        policy = answer.get("Content-Security-Policy", "")
        told = {
            "no unsafe word": policy and "unsafe" not in policy,
            # What somebody's program wrote is in a sandbox, which has neither of them.
            "no frames, objects, base": "sandbox" in policy
            or all(
                f"{word} 'none'" in policy for word in ("frame-ancestors", "object-src", "base-uri")
            ),
            "nosniff": answer.get("X-Content-Type-Options") == "nosniff",
            "referrer": answer.get("Referrer-Policy") == "same-origin",
            "opener": answer.get("Cross-Origin-Opener-Policy") == "same-origin",
        }
        wrong += [(row.route, what) for what, holds in told.items() if not holds]
    assert not wrong
