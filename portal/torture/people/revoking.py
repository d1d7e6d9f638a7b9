"""Who takes away what opened something: a token, a role, the secret of a node's own."""

from __future__ import annotations

import json
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

import httpx
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.sync.client import ClientConnection

from portal.torture.history import Diary
from portal.torture.people.doors import open_page, signed_in
from portal.torture.yard import Yard
from scheduler.wire.codec import decode, encode
from scheduler.wire.messages import (
    AGENT_VERSION,
    PROTOCOL,
    EnrolReply,
    EnrolRequest,
    HostFacts,
    SyncRequest,
)

# A little more than what is revoked may open things for.
_TRIED_AFTER_S = 10.5
_LISTENS_S = 1.5
# Reads every job by this role alone: in no team.
_AUDITOR = {"username": "amir", "role": "auditor"}
# Where no job of the harness may run: nobody works on the nodes that come and go.
_POOL = "spare"


class Revokers:
    """Work for the crowd's threads. `jobs`: what was accepted so far; `api` makes a client of the
    API for somebody."""

    def __init__(
        self,
        yard: Yard,
        diary: Diary,
        over: threading.Event,
        jobs: Sequence[int],
        api: Callable[[str], httpx.Client],
    ) -> None:
        self.yard, self.diary, self.over, self.jobs = yard, diary, over, jobs
        self.api = api

    def token(self, dice: random.Random) -> None:
        """A token is made, revoked, and tried again and again."""
        with closing(signed_in(self.yard, "bob")) as person:
            body = {"name": "torture", "scopes": ["jobs:read"], "expires_in_days": 1}
            made = person.post("/api/v1/tokens/", json=body).raise_for_status().json()
            person.delete(f"/api/v1/tokens/{made['id']}/").raise_for_status()
        self.diary.note("revoked", token=made["id"])
        headers = {"Authorization": f"Bearer {made['secret']}"}
        for wait_s in (1.0, _TRIED_AFTER_S):
            self.over.wait(wait_s)
            reply = httpx.get(f"{self.yard.address}/api/v1/jobs/", headers=headers, timeout=20)
            self.diary.note("used", token=made["id"], status=reply.status_code)
        self.over.wait(dice.uniform(5.0, 15.0))

    def role(self, dice: random.Random) -> None:
        """An auditor reads a job; without the role neither a call nor the open page reads it."""
        if not self.jobs:
            self.over.wait(1.0)
            return
        job, whose = self.jobs[-1], {"what": "role", "token": secrets.token_hex(4)}
        with self.api("admin") as admin, closing(signed_in(self.yard, "amir")) as person:
            admin.post("/roles/", json=_AUDITOR).raise_for_status()
            try:
                page = open_page(self.yard, dict(person.cookies))
            except (OSError, WebSocketException) as refused:
                raise httpx.ConnectError(str(refused)) from None
            with page:
                watch = json.dumps({"subscribe": [f"job:{job}"]})
                with suppress(ConnectionClosed):
                    page.send(watch)
                # Who could not read it before shows nothing by not reading it afterwards.
                person.get(f"/api/v1/jobs/{job}/").raise_for_status()
                admin.post("/roles/take/", json=_AUDITOR).raise_for_status()
                self.diary.note("revoked", **whose)
                # What was told before lies in the line: it is read as it comes.
                self._hear(page, f"job:{job}", _TRIED_AFTER_S, whose)
                with suppress(ConnectionClosed):
                    page.send(watch)
                self._hear(page, f"job:{job}", _LISTENS_S, whose)
            status = person.get(f"/api/v1/jobs/{job}/").status_code
            self.diary.note("used", status=status, **whose)
        self.over.wait(dice.uniform(5.0, 15.0))

    def _hear(
        self, page: ClientConnection, topic: str, for_s: float, whose: dict[str, str]
    ) -> None:
        until = time.monotonic() + for_s
        with suppress(TimeoutError, ConnectionClosed):
            while (left_s := until - time.monotonic()) > 0:
                frame = json.loads(page.recv(timeout=left_s))
                if frame["topic"] == topic and frame["kind"] != "refused":
                    self.diary.note("frame", **whose)
        time.sleep(max(0.0, until - time.monotonic()))

    def node(self, dice: random.Random) -> None:
        """A node that nobody works on is enrolled, heard, and taken out for good."""
        name = f"spare-{dice.getrandbits(48):012x}"
        with self.api("admin") as admin:
            admin.post("/pools/", json={"name": _POOL})  # refused once it is there
            asked = admin.post("/nodes/tokens/", json={"pool": _POOL}).raise_for_status().json()
            secret = self._enrol(name, asked["token"])
            # Who was not heard before shows nothing by not being heard afterwards.
            self._sync(name, secret).raise_for_status()
            admin.post(f"/nodes/{name}/retire/").raise_for_status()
        self.diary.note("revoked", what="node", token=name)
        time.sleep(_TRIED_AFTER_S)
        status = self._sync(name, secret).status_code
        self.diary.note("used", what="node", token=name, status=status)
        self.over.wait(dice.uniform(5.0, 15.0))

    def _enrol(self, name: str, token: str) -> str:
        """The secret of a new node's own, which has no GPU."""
        request = EnrolRequest(
            token=token,
            name=name,
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            boot_id=name,
            host=HostFacts(cpus=1, memory_mib=1_024, scratch_mib=1_024, address="127.0.0.1"),
            devices=(),
        )
        place = f"{self.yard.address}/api/agent/v1/enrol"
        reply = httpx.post(place, content=encode(request), timeout=20).raise_for_status()
        return decode(EnrolReply, reply.content).node_token

    def _sync(self, name: str, secret: str) -> httpx.Response:
        request = SyncRequest(
            protocol=PROTOCOL,
            agent_version=AGENT_VERSION,
            agent_id=name,
            boot_id=name,
            seen_revision=0,
            hold_s=0.0,
            sent_at=time.time(),
        )
        headers = {"Authorization": f"Bearer {secret}"}
        place = f"{self.yard.address}/api/agent/v1/sync"
        return httpx.post(place, content=encode(request), headers=headers, timeout=20)
