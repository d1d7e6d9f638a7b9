"""The socket through the whole ASGI application: origin, session, rights, limits, log lines."""

from __future__ import annotations

import asyncio
import json

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from django.conf import settings
from django.test import Client
from django.utils import timezone

from accounts.services import remove_member
from portal import limits
from portal.asgi import application
from portal.live import consumer
from scheduler.hearing import group_name
from tests import scenes
from tests.live.browser_socket import BrowserSocket
from tests.pages.yard import LOG, build_yard

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.once,
    pytest.mark.django_db(transaction=True),
]

OWN = b"http://localhost"


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


def socket(user=None, origin=OWN, client=None):
    headers = [(b"host", b"localhost")]
    if origin is not None:
        headers.append((b"origin", origin))
    if user is not None:
        client = client or Client()
        client.force_login(user)
        cookie = (
            f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        )
        headers.append((b"cookie", cookie.encode()))
    return BrowserSocket(application, "/ws/", headers)


async def opened(user, client=None):
    live = await sync_to_async(socket)(user, client=client)
    assert await live.connect()
    return live


async def hint(topic, kind="changed", ref=""):
    await get_channel_layer().group_send(
        group_name(topic), {"type": "hint", "topic": topic, "kind": kind, "ref": ref}
    )


async def follow(live, *topics):
    """Subscribe, and wait until the groups are joined: each is greeted or refused.

    A log answers with its lines instead, so only time tells that one.
    """
    await live.send({"subscribe": list(topics)})
    names = {topic if isinstance(topic, str) else topic["topic"] for topic in topics}
    awaited = {name for name in names if not name.startswith("log:")}
    while awaited:
        frame = await live.next_frame(timeout=10)
        awaited -= {frame["topic"]} if frame["kind"] in ("watching", "refused") else set()
        if frame["kind"] != "watching":
            live.kept.append(frame)
    if any(name.startswith("log:") for name in names):
        await asyncio.sleep(0.3)


async def test_hint_of_an_own_job_arrives_with_a_sequence(alice, yard):
    live = await opened(alice)
    topic = f"job:{yard.running.pk}"
    await follow(live, topic, "nodes")
    await hint(topic)
    assert await live.frame() == {
        "topic": topic, "seq": 1, "kind": "changed", "ref": "",
    }  # fmt: skip
    await hint(topic, ref=7)
    assert (await live.frame())["seq"] == 2
    await live.leave()


async def test_stranger_is_refused_that_topic_and_no_other(carol, yard):
    live = await opened(carol)
    foreign = [f"job:{yard.running.pk}", f"project:{yard.running.project_id}"]
    foreign += [f"log:{yard.attempt.pk}:0", f"user:{yard.running.owner_id}", "job:999999"]
    await follow(live, *foreign, "nodes")
    for topic in foreign:
        frame = await live.frame()
        assert frame == {"topic": topic, "kind": "refused", "code": 4403}
        await hint(topic)
    await hint("nodes")
    assert (await live.frame())["topic"] == "nodes"
    await live.leave()


async def test_finance_hears_of_the_job_but_reads_no_log(finance, yard):
    live = await opened(finance)
    await follow(live, f"job:{yard.running.pk}", f"log:{yard.attempt.pk}:0")
    assert (await live.frame())["topic"] == f"log:{yard.attempt.pk}:0"
    assert await live.receive_nothing(0.3)
    await live.leave()


async def test_without_a_session_it_is_closed_with_4401(db):
    live = await sync_to_async(socket)()
    assert await live.connect()
    assert await live.close_code() == 4401


@pytest.mark.parametrize(
    "origin", [b"http://evil.example", b"http://sessions.localhost", b"null", None]
)
async def test_foreign_origins_are_refused_at_the_door(alice, origin, settings):
    settings.ALLOWED_HOSTS = ["localhost", "sessions.localhost"]
    live = await sync_to_async(socket)(alice, origin)
    assert not await live.connect()


async def test_a_topic_greets_so_that_nothing_is_missed_before_it(alice, yard):
    live = await opened(alice)
    topic = f"job:{yard.running.pk}"
    await live.send({"subscribe": [topic]})
    assert await live.any_frame() == {"topic": topic, "seq": 0, "kind": "watching", "ref": ""}
    await live.leave()


async def test_the_end_of_the_session_closes_it(alice, yard, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.2)
    client = Client()
    live = await opened(alice, client)
    await follow(live, f"job:{yard.running.pk}")
    await sync_to_async(client.logout)()
    assert await live.close_code() == 4401


async def test_who_leaves_the_team_hears_no_more(root, bob, team, yard, monkeypatch):
    monkeypatch.setattr(consumer, "RECHECK_S", 0.2)
    live = await opened(bob)
    topic = f"job:{yard.running.pk}"
    await follow(live, topic)
    await sync_to_async(remove_member)(actor=root, team=team, user=bob)
    assert (await live.frame(timeout=3))["kind"] == "refused"
    await hint(topic)
    assert await live.receive_nothing(0.4)
    await live.leave()


JUNK = [
    "",
    "hello",
    "[]",
    '{"subscribe": "job:1"}',
    '{"subscribe": [1]}',
    '{"subscribe": [{"topic": "log:1:0", "after": -1}]}',
    '{"subscribe": [{"topic": "log:1:0", "after": true}]}',
    '{"eval": []}',
    "[" * 5000,
    json.dumps({"subscribe": ["nodes"] * 51}),
    json.dumps({"subscribe": [f"job:{n}" for n in range(10_000)]}),
    "x" * (10 * 1024 * 1024),
]


@pytest.mark.parametrize("frame", JUNK, ids=range(len(JUNK)))
async def test_junk_closes_only_that_socket(alice, yard, frame):
    good, bad = await opened(alice), await opened(alice)
    await follow(good, "nodes")
    await bad.send_text(frame)
    assert await bad.close_code() == 4400
    await hint("nodes")
    assert (await good.frame())["topic"] == "nodes"
    await good.leave()


async def test_binary_frames_close_it(alice):
    live = await opened(alice)
    await live.send_bytes(b"\x00\xff")
    assert await live.close_code() == 4400


async def test_a_flood_of_frames_closes_it(alice):
    live = await opened(alice)
    for _ in range(consumer.MAX_FRAMES_PER_WINDOW + 1):
        await live.send({"unsubscribe": []})
    assert await live.close_code() == 4429


async def test_one_person_holds_so_many_sockets_and_no_more(alice, bob, settings):
    settings.SOCKETS_AT_ONCE = 2
    first, second = [await opened(alice) for _ in range(2)]
    assert not await (await sync_to_async(socket)(alice)).connect()
    other = await opened(bob)
    await first.leave()
    await follow(await opened(alice), "nodes")
    await follow(second, "nodes")
    await follow(other, "nodes")


async def test_sockets_that_are_opened_without_end_are_refused(alice, settings):
    settings.CALLS_PER_MINUTE = {**settings.CALLS_PER_MINUTE, "socket": 1}
    limits.forget()
    try:
        await (await opened(alice)).leave()
        assert not await (await sync_to_async(socket)(alice)).connect()
    finally:
        limits.forget()


async def test_fifty_topics_in_all_and_not_one_more(alice):
    live = await opened(alice)
    await follow(live, f"user:{alice.pk}", "nodes")
    await live.send({"subscribe": [f"queue:p{n}" for n in range(49)]})
    assert await live.close_code() == 4400


async def test_many_hints_become_few_frames(alice, yard):
    live = await opened(alice)
    topic = f"job:{yard.running.pk}"
    await follow(live, topic)
    for number in range(200):
        await hint(topic, ref=number)
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.4)
    frames = []
    while not await live.receive_nothing(0.3):
        frames.append(await live.frame())
    assert 1 < len(frames) <= 8
    assert frames[-1]["ref"] == 199
    assert [frame["seq"] for frame in frames] == list(range(1, len(frames) + 1))
    await live.leave()


async def test_log_lines_stream_on_from_the_last_line_seen(alice, yard):
    live = await opened(alice)
    topic = f"log:{yard.attempt.pk}:0"
    await live.send({"subscribe": [{"topic": topic, "after": 1}]})
    frame = await live.frame(timeout=3)
    assert (frame["kind"], frame["from_line"], frame["next_line"]) == ("lines", 2, 4)
    assert 'id="L2"' in frame["html"] and 'id="L1"' not in frame["html"]
    assert "&lt;script&gt;" in frame["html"] and "<script>" not in frame["html"]

    def grow():
        placement = yard.attempt.placements.get(rank=0)
        size = placement.log_size
        return scenes.append_log(
            node=yard.cluster.node(1), fence=yard.attempt.pk, rank=0, offset=size, body=b"four\nfi"
        )

    ack = await sync_to_async(grow)()
    await hint(topic, "grown", ack.size)
    frame = await live.frame(timeout=3)
    assert (frame["from_line"], frame["next_line"], frame["total_lines"]) == (4, 5, 4)
    assert "four" in frame["html"] and "fi<" not in frame["html"]
    await live.leave()


async def test_the_end_of_the_job_completes_its_log(alice, yard):
    live = await opened(alice)
    log, job = f"log:{yard.attempt.pk}:0", f"job:{yard.running.pk}"
    await follow(live, {"topic": log, "after": 3}, job)

    def end():
        report = scenes.ended(yard.attempt, log_size=len(LOG))
        scenes.sync(yard.cluster.node(1), report, now=timezone.now())

    await sync_to_async(end)()
    await hint(job)
    frames = [await live.frame(), await live.frame()]
    (lines,) = [frame for frame in frames if frame["topic"] == log]
    assert (lines["complete"], lines["html"]) == (True, "")
    await live.leave()
