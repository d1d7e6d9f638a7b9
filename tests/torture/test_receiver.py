"""The harness's own webhook: it believes signatures, not senders, and writes every call down."""

from __future__ import annotations

import random

import httpx
import pytest

from portal.torture.history import Diary, read_lines
from portal.torture.people.receiving import Receiver
from scheduler.services.inbox.delivering import signature

BODY, SECRET = b'{"kind": "budget"}', b"s3cret"


@pytest.fixture
def receiver(tmp_path):
    made = Receiver(Diary(tmp_path / "history.jsonl"), seed=1)
    made.secret = SECRET
    made._dice = random.Random(3)  # the first draws take calls
    yield made
    made.close()


def call(receiver, signed, number="7"):
    headers = {"X-Trainyard-Delivery": number, "X-Trainyard-Signature": signed}
    return httpx.post(receiver.address, content=BODY, headers=headers).status_code


def test_what_the_product_signs_is_taken_and_what_it_did_not_sign_is_told_apart(receiver):
    assert call(receiver, signature(SECRET, 100, BODY)) == 200
    call(receiver, signature(b"another", 100, BODY))
    call(receiver, "")
    calls = [fact for fact in read_lines(receiver.diary.path) if fact["kind"] == "call"]
    assert [one["signed"] for one in calls] == [True, False, False]
    assert {one["delivery"] for one in calls} == {7} and len({one["digest"] for one in calls}) == 1
