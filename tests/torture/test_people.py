"""Who uses the portal while it is hurt: by which dice, and what is written down of it.

The harness's own webhook believes signatures, not senders, and writes every call down.
"""

from __future__ import annotations

import json
import random
import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from portal.torture.faults import Hand, receivers
from portal.torture.history import Diary, read_lines
from portal.torture.people import Crowd, Treasurer, revoking
from portal.torture.people.receiving import MOODS, Receiver
from portal.torture.yard import Timers, Yard
from scheduler.services.inbox.delivering import signature
from scheduler.wire.codec import encode
from scheduler.wire.messages import EnrolReply

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


@pytest.mark.parametrize("mood", sorted(MOODS))
def test_a_receiver_in_a_mood_has_read_each_call_and_writes_down_what_it_said(receiver, mood):
    receiver.secret = SECRET
    signed = signature(SECRET, 100, BODY)
    with receiver.in_mood(mood):
        with suppress(httpx.HTTPError):
            calls_of(receiver, signed, timeout=0.5)
        assert receiver.hits == 1
    assert calls_of(receiver, signed).status_code == 200 and receiver.hits == 1
    told = [fact for fact in read_lines(receiver.diary.path) if fact["kind"] == "call"]
    assert [one["status"] for one in told] == [MOODS[mood], 200]


def calls_of(receiver, signed, timeout=20.0):
    headers = {"X-Trainyard-Delivery": "7", "X-Trainyard-Signature": signed}
    return httpx.post(receiver.address, content=BODY, headers=headers, timeout=timeout)


def test_a_busy_receiver_says_when_to_come_again(receiver):
    with receiver.in_mood("busy"):
        assert calls_of(receiver, "").headers["Retry-After"] == "30"


def test_a_chat_is_known_by_its_number_and_what_it_was_told(tmp_path):
    chat = Receiver(Diary(tmp_path / "history.jsonl"), seed=1, is_chat=True)
    chat.number, chat._dice = 4, random.Random(3)
    calls_of(chat, "")
    chat.close()
    (said,) = read_lines(chat.diary.path)
    assert (said["kind"], said["webhook"], said["status"]) == ("message", 4, 200)


@pytest.mark.parametrize("told", [True, False])
def test_who_is_told_something_is_hurt_and_who_is_not_is_no_hit(tmp_path, told):
    """The worker that sends is killed while the call is there, and once."""
    chat = Receiver(Diary(tmp_path / "history.jsonl"), seed=1, is_chat=True)
    killed: list[int] = []
    yard = SimpleNamespace(pid_of=lambda name: {"background": 11}[name])

    def nap(_seconds):
        chat.hits += told

    def kill(pid):
        killed.append(pid)
        return True

    facts = {"receivers": [chat], "dice": random.Random(1), "over": threading.Event()}
    hand = cast(Hand, SimpleNamespace(yard=yard, nap=nap, kill=kill, **facts))
    assert receivers.kill_the_sender(hand) == ("background" if told else "")
    assert receivers.be_busy(hand) == ("chat" if told else "")
    assert killed == [11] * told
    chat.close()


def a_crowd(tmp_path, diary):
    yard = SimpleNamespace(nodes=["n1"], database="", address="http://portal", timers=Timers(20))
    yard.ahead_s, yard.pools = 0.0, {"default": 1}
    return Crowd(cast(Yard, yard), Diary(diary), 7, tmp_path, "", threading.Event())


def test_one_seed_draws_the_same_whichever_threads_draw(tmp_path):
    """Both crowds live at the same time, so that no thread of theirs is like another."""
    drawn: dict[tuple[int, int], list[float]] = {}
    crowds = [a_crowd(tmp_path, tmp_path / "history.jsonl") for _ in range(2)]
    meets = threading.Barrier(5)

    def draw(crowd: int, number: int) -> None:
        def record(dice: random.Random) -> None:
            drawn[crowd, number] = [dice.random() for _ in range(3)]
            meets.wait(20)
            crowds[crowd].over.set()

        crowds[crowd]._for_ever(number, record)

    places = [(crowd, number) for crowd in (0, 1) for number in (0, 1)]
    threads = [threading.Thread(target=draw, args=place) for place in places]
    for thread in threads:
        thread.start()
    meets.wait(20)
    for thread in threads:
        thread.join()
    assert drawn[0, 0] == drawn[1, 0] != drawn[0, 1] == drawn[1, 1]


def live_jobs(monkeypatch, count):
    line = SimpleNamespace(execute=lambda _: SimpleNamespace(fetchone=lambda: (count,)))
    monkeypatch.setattr("psycopg.connect", lambda *_, **__: nullcontext(line))


def test_what_is_submitted_hangs_on_the_seed_and_not_on_the_answers(tmp_path, monkeypatch):
    """Of the second crowd half is never answered."""
    live_jobs(monkeypatch, 0)
    sent: list[list[tuple[str, object]]] = [[], []]
    for which, mine in enumerate(sent):
        crowd = a_crowd(tmp_path, tmp_path / f"{which}.jsonl")
        crowd.over.set()  # nobody waits

        def submit(key, job, mine=mine, which=which, crowd=crowd):
            # A moment counts from now.
            mine.append((key, {**job, "finish_by": "finish_by" in job}))
            found = [] if which and len(mine) % 2 else [len(mine)]
            crowd.jobs += found
            return found

        monkeypatch.setattr(crowd, "submit", submit)
        dice = random.Random(3)
        crowd._misbehave(dice)
        for _ in range(20):
            crowd._submit(dice)
    assert sent[0] == sent[1] and len(sent[0]) == 21


@pytest.mark.parametrize(("status", "count"), [(200, 1), (409, 0), (503, 0)])
def test_what_people_do_counts_where_it_hit(tmp_path, monkeypatch, status, count):
    diary = tmp_path / "history.jsonl"
    crowd = a_crowd(tmp_path, diary)
    crowd.over.set()
    answers = httpx.MockTransport(lambda _: httpx.Response(status, json={"id": 7}))
    monkeypatch.setattr(
        crowd, "api", lambda *_: httpx.Client(base_url="http://portal", transport=answers)
    )
    monkeypatch.setattr("portal.torture.people.crowd._TRIES_S", 0.1)
    crowd.cancel(7)
    with suppress(ValueError):  # a submit that is refused
        crowd._misbehave(random.Random(1))
    crowd.diary.close()
    faults = [fact["number"] for fact in read_lines(diary) if fact["kind"] == "fault"]
    assert faults == [18, 16] * count


class Page:
    """A socket that goes on telling of what it is asked for, whoever asks."""

    def __init__(self):
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def send(self, words):
        self.asked += json.loads(words)["subscribe"]

    def recv(self, timeout):
        if not self.asked:
            raise TimeoutError
        return json.dumps({"topic": self.asked.pop(), "kind": "changed"})


def revoked_by(crowd, monkeypatch, work):
    """What the crowd writes down where nothing that is revoked ever ends."""

    def answer(request):
        said = {"id": 7, "token": "once", "secret": "s"}
        reply = EnrolReply(node_id=3, name="spare-1", pool="spare", node_token="n")
        is_enrolment = request.url.path.endswith("/enrol")
        content = encode(reply) if is_enrolment else json.dumps(said).encode()
        return httpx.Response(200, content=content)

    def person(*_, **__):
        transport = httpx.MockTransport(answer)
        return httpx.Client(base_url="http://portal", transport=transport)

    def alone(method):
        return lambda place, content=None, headers=None, timeout=0: person().request(
            method, place, content=content, headers=headers
        )

    monkeypatch.setattr(crowd.revokers, "api", person)
    monkeypatch.setattr(revoking, "signed_in", person)
    monkeypatch.setattr(revoking, "open_page", lambda *_: Page())
    monkeypatch.setattr(revoking.httpx, "post", alone("POST"))
    monkeypatch.setattr(revoking.httpx, "get", alone("GET"))
    monkeypatch.setattr(revoking, "_TRIED_AFTER_S", 0.0)
    monkeypatch.setattr(revoking, "_LISTENS_S", 0.2)
    crowd.over.set()
    crowd.jobs.append(7)
    getattr(crowd.revokers, work)(random.Random(1))
    crowd.diary.close()
    facts = read_lines(crowd.diary.path)
    assert {fact.get("what", "token") for fact in facts} == {work}
    assert len({fact["token"] for fact in facts}) == 1
    return [(fact["kind"], fact.get("status", 0)) for fact in facts]


@pytest.mark.parametrize(
    ("work", "facts"),
    [
        ("token", [("revoked", 0), ("used", 200), ("used", 200)]),
        ("role", [("revoked", 0), ("frame", 0), ("frame", 0), ("used", 200)]),
        ("node", [("revoked", 0), ("used", 200)]),
    ],
)
def test_what_still_opens_after_its_end_is_written_down(tmp_path, monkeypatch, work, facts):
    crowd = a_crowd(tmp_path, tmp_path / "history.jsonl")
    assert revoked_by(crowd, monkeypatch, work) == facts


def test_budgets_are_raised_until_the_last_job_has_ended(tmp_path, monkeypatch):
    """Also where nobody answers for a while."""
    tries, reached = [], threading.Event()

    def raise_them(diary, over):
        tries.append(over.wait(0.01))
        if len(tries) < 3:
            raise httpx.ConnectError("away")
        reached.set()

    made = Treasurer(a_crowd(tmp_path, tmp_path / "history.jsonl").yard, 1)
    monkeypatch.setattr(made, "raise_them", raise_them)
    with made.stay(cast(Diary, None)):
        assert reached.wait(20)
    assert len(tries) >= 3
