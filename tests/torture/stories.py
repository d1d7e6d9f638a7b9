"""A small history in which everything went well; tests bend one fact or row of it."""

from __future__ import annotations

import copy
import hashlib

from portal.torture.history import Evidence
from portal.torture.invariants.logs import line_of
from tests.torture.asked import ASKED, MESSAGE, asked, told_of
from tests.torture.grouped import GROUPED, TOLD
from tests.torture.pooled import MOVED, PLACED, POOLS
from tests.torture.repeated import repeated, told_of_schedules

NEEDLE = "torture-needle-7f3a"


def log_bytes(job, fence, rank, count):
    return "".join(f"{line_of(job, fence, rank, n)}\n" for n in range(1, count + 1)).encode()


BEGAN = {"kind": "fault", "at": 90.0, "until": None}


class Story:
    """One job with a first attempt that was lost and a second one that succeeded."""

    def __init__(self):
        self.facts = [
            {"kind": "submit", "at": 90.0, "key": "k1", "status": 0, "jobs": []},
            {"kind": "submit", "at": 91.0, "key": "k1", "status": 201, "jobs": [1]},
            {"kind": "peek", "at": 95.0, "job": 1, "status": 404},
            {"kind": "cancel", "at": 205.0, "job": 1, "status": 200},
            *self.revoked(),
            *self.called(),
            {"kind": "shown", "at": 300.0, "job": 1, "state": "succeeded"},
            {"kind": "listed", "at": 300.0},
            {"kind": "quiet", "at": 300.0, "shows": [[1, "succeeded"]]},
            {"kind": "fault", "at": 120.0, "until": 130.0, "name": "clock-node", "number": 12},
            {**BEGAN, "name": "hostile-deaf", "number": 16, "target": "k1"},
            {"kind": "heard", "node": "n1", "times": [[100, 100.5], [101, 101.5], [104, 130.0]]},
            {
                "kind": "restored",
                "at": 350.0,
                "starts": [[31, 0], [32, 0]],
                "clashes": [],
                "left": [],
            },
            {"kind": "acknowledged", "at": 300.0, "node": "n1", "sizes": [[12, 0, 33]]},
            {"kind": "verified", "at": 300.0, "ok": True, "words": ""},
            {"kind": "audit", "at": 300.0, "events": 9, "seals": 2, "unsealed": 0, "broken": ""},
            self.said("start", 11, 101.0),
            {**self.said("lines", 11, 110.0), "count": 2},
            self.said("start", 12, 131.0),
            {**self.said("lines", 12, 200.0), "count": 3},
            {**self.said("exit", 12, 200.0), "code": 0},
            *told_of(),
            *(dict(TOLD), dict(PLACED), dict(MOVED)),
            *told_of_schedules(),
        ]
        self.pieces = {"a": log_bytes(1, 11, 0, 2)[:-2], "b": log_bytes(1, 12, 0, 3)}
        self.tables = self.work() | self.figures() | self.planned() | asked() | repeated()
        self.rules = {
            "needle": NEEDLE,
            "ended_at": 400.0,
            "stop_within_s": 90.0,
            "lost_after_s": 20.0,
            "steps": [],
            "arrived": ["one", "other"],
        }

    @staticmethod
    def revoked():
        session = {"what": "session", "token": "s"}
        return [
            {"kind": "revoked", "at": 100.0, "token": "t"},
            {"kind": "used", "at": 111.0, "token": "t", "status": 401},
            {"kind": "revoked", "at": 100.0, **session},
            {"kind": "used", "at": 111.0, "status": 302, **session},
            {"kind": "frame", "at": 104.0, **session},
            {"kind": "entered", "at": 100.0, "job": 1, "ticket": "k", "status": 303},
            {"kind": "entered", "at": 101.0, "job": 1, "ticket": "k", "status": 403},
            {"kind": "answered", "at": 102.0, "job": 1, "by": 1},
        ]

    @staticmethod
    def called():
        """A webhook is told twice, for its first answer did not come through."""
        call = {"kind": "call", "delivery": 1, "digest": "a", "signed": True}
        return [
            {"kind": "hook", "at": 90.0, "webhook": 2},
            {**call, "at": 101.0, "status": 0},
            {**call, "at": 103.0, "status": 200},
        ]

    def work(self):
        """Jobs, what ran, and what was written of it."""
        return {
            "job": [
                {"id": 1, "state": "succeeded", "version": 7, "job_set_id": None, "name": "k1",
                 "array_index": None, "project_id": 5, "pool_id": 2, "ended_at": 201.0,
                 "booked_in_id": None, "end_facts": {}, "nodes": 1, "gpus_per_node": 1,
                 **ASKED, **GROUPED},
            ],
            "attempt": [
                self.attempt(11, 1, 100.0, 120.0, "node_lost"),
                self.attempt(12, 2, 130.0, 201.0, "completed"),
            ],
            "placement": [
                self.placement(21, 11, "node_lost", 20, 20),
                self.placement(22, 12, "completed", 33, 33),
            ],
            "allocation": [
                {"id": 1, "placement_id": 21, "device_id": 3, "acquired_at": 100.5,
                 "released_at": 120.2},
                {"id": 2, "placement_id": 22, "device_id": 3, "acquired_at": 130.1,
                 "released_at": 200.9},
            ],
            "node": [{"id": 1, "name": "n1", "state": "ready", "pool_id": 2}],
            "pool": [dict(pool) for pool in POOLS],
            "device": [
                {"id": 3, "uuid": "GPU-3", "health": "healthy", "model": "M", "milli": 1000,
                 "node_id": 1, "index": 0, "trouble": "", "check_at": None, "parent_id": None},
            ],
            "devicesegment": [
                {"id": 1, "device_id": 3, "start_s": 50, "end_s": 100},
                {"id": 2, "device_id": 3, "start_s": 100, "end_s": None},
            ],
            "jobevent": [
                self.event(1, None, "submitted", "", "queued"),
                self.event(2, 11, "assigned", "queued", "starting"),
                self.event(3, 11, "running", "starting", "running"),
                self.event(4, 11, "requeued", "running", "queued"),
                self.event(5, 12, "assigned", "queued", "starting"),
                self.event(6, 12, "running", "starting", "running"),
                self.event(7, 12, "ended", "running", "succeeded"),
            ],
            "nodeevent": [
                {"id": 1, "node_id": 1, "at": 125.0, "kind": "node_returned",
                 "from_state": "quarantined", "to_state": "ready", "detail": {}},
                self.card_event(2, 121.0, "device_quarantined", "quarantined"),
                self.card_event(3, 129.0, "device_returned", "healthy"),
            ],
            "logchunk": [self.chunk(1, 21, "a"), self.chunk(2, 22, "b")],
        }  # fmt: skip

    @staticmethod
    def planned():
        """A booking that nobody came into."""
        return {
            "booking": [
                {"id": 1, "from_at": 100.0, "until_at": 190.0, "closed_as": "released",
                 "closed_at": 180.0, "gpus_per_node": 0},
            ],
            # Its node went out of order soon, so it moved before anybody else came there.
            "torture_booked": [
                {"id": 1, "booking_id": 1, "node_ids": [1], "at": 99.0},
                {"id": 2, "booking_id": 1, "node_ids": [2], "at": 121.0},
            ],
        }  # fmt: skip

    def figures(self):
        """Money, limits, mails."""
        return {
            "usageentry": [
                self.entry(1, "accrual", 20), self.entry(1, "adjustment", -20),
                self.entry(2, "accrual", 70),
            ],
            "submitkey": [{"id": 1, "job_id": 1, "key": "k1"}],
            "project": [{"id": 5, "team_id": 6}, {"id": 8, "team_id": 7}],
            "team": [
                {"id": 6, "parent_id": 9}, {"id": 7, "parent_id": 9}, {"id": 9, "parent_id": None},
            ],
            "account": [
                {"id": 1, "key": "org"}, {"id": 2, "key": "team:9"}, {"id": 3, "key": "team:7"},
                {"id": 4, "key": "project:5"},
            ],
            "quota": [
                self.quota(1, 4), self.quota(2, 2), self.quota(3, 1),
                # None of these holds for the job: other models, another pool, another team.
                {**self.quota(4, 1), "gpu_model": "N", "maximum": 0},
                {**self.quota(5, 1), "pool_id": 9, "maximum": 0},
                {**self.quota(6, 3), "maximum": 0},
            ],
            "budget": [
                {"id": 6, "enforcement": "reserve", "gpu_seconds": 100, "carried": 40,
                 "committed_s": 0, "spent_s": 90, "money": None},
                {"id": 7, "enforcement": "reserve", "gpu_seconds": None, "carried": 0,
                 "money": 900, "committed_money": 400, "spent_money": 505},
            ],
            "budgethold": [self.hold(1, 11, 121.0, 0), self.hold(2, 12, 201.0, 70)],
            # What the ledger charged more is no start that was let through.
            "budgettrueup": [
                {"id": 1, "budget_id": 7, "is_opening": True, "difference": 50},
                {"id": 2, "budget_id": 7, "is_opening": False, "difference": 5},
            ],
            "outboundmail": [
                {"id": 1, "sent_at": 101.0, "given_up_at": None, "not_before": 100.0,
                 "subject": "one", "key": "m1", "person_id": 1, "tries": 1},
            ],
            "delivery": [
                {"id": 1, "webhook_id": 2, "key": "d1", "sent_at": 103.0, "given_up_at": None,
                 "not_before": 100.0, "tries": 2, "status": 204},
                {"id": 2, "webhook_id": 3, "key": "news:1", "sent_at": 163.0, "given_up_at": None,
                 "not_before": 160.0, "tries": 2, "status": 200, "body": MESSAGE},
            ],
            "apitoken": [
                {"id": 1, "revoked_at": 100.0, "last_used_at": 104.0},
                {"id": 2, "revoked_at": None, "last_used_at": 300.0},
            ],
        }  # fmt: skip

    @staticmethod
    def said(kind, fence, at):
        return {"kind": kind, "at": at, "job": 1, "attempt": fence - 10, "fence": fence, "rank": 0}

    @staticmethod
    def attempt(pk, number, assigned_at, ended_at, reason):
        return {
            "id": pk, "job_id": 1, "number": number, "state": "ended", "assigned_at": assigned_at,
            "ended_at": ended_at, "end_reason": reason, "stop_grace_s": 2,
            "end_facts": {"goes_on": True, "pause_s": 10} if reason == "node_lost" else {},
            "triage": {"then": "free" if reason == "node_lost" else ""},
        }  # fmt: skip

    @staticmethod
    def placement(pk, attempt, reason, expected, size):
        return {
            "id": pk, "attempt_id": attempt, "rank": 0, "end_reason": reason,
            "log_expected": expected, "log_size": size, "node_id": 1,
            "exit_code": 0 if reason == "completed" else None,
        }  # fmt: skip

    @staticmethod
    def quota(pk, account):
        return {
            "id": pk, "account_id": account, "pool_id": None, "gpu_model": "", "maximum": 1,
            "held": 0, "held_milli": 0,
        }  # fmt: skip

    @staticmethod
    def hold(pk, attempt, settled_at, spent_s):
        return {
            "id": pk, "attempt_id": attempt, "budget_id": 6, "settled_at": settled_at,
            "gpu_seconds": 80, "money": 0, "spent_s": spent_s, "spent_money": 0,
        }  # fmt: skip

    @staticmethod
    def entry(allocation, kind, seconds):
        return {
            "id": seconds, "allocation_id": allocation, "kind": kind, "gpu_seconds": seconds,
        }  # fmt: skip

    @staticmethod
    def card_event(pk, at, kind, to):
        came_from = "healthy" if to == "quarantined" else "quarantined"
        return {
            "id": pk, "node_id": 1, "at": at, "kind": kind, "from_state": came_from,
            "to_state": to, "detail": {"reason": "GPU 0: its memory was not given back"},
        }  # fmt: skip

    @staticmethod
    def event(pk, attempt, kind, came_from, to):
        at = (92.0, 100.0, 101.0, 120.0, 130.0, 131.0, 201.0, 202.0)[pk - 1]
        return {
            "id": pk, "job_id": 1, "at": at, "attempt_id": attempt, "kind": kind,
            "from_state": came_from, "to_state": to, "detail": {},
        }  # fmt: skip

    def chunk(self, pk, placement, path):
        body = self.pieces[path]
        return {
            "id": pk, "placement_id": placement, "offset": 0, "size": len(body), "path": path,
            "digest": hashlib.sha256(body).hexdigest(),
        }  # fmt: skip

    def row(self, table, pk):
        """To be bent."""
        return next(row for row in self.tables[table] if row["id"] == pk)

    def fact(self, kind, number=0):
        """To be bent."""
        return [fact for fact in self.facts if fact["kind"] == kind][number]

    def evidence(self):
        return Evidence(
            copy.deepcopy(self.facts), copy.deepcopy(self.tables), self.pieces, self.rules
        )
