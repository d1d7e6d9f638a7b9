"""Budgets that a few jobs at once use up, and who raises them as they are spent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from decimal import ROUND_UP, Decimal
from typing import Any

import httpx
import psycopg

from portal.torture.history import Diary
from portal.torture.program import PROJECT, TIME_LIMIT_S
from portal.torture.yard import Yard
from scheduler.money import STEPS

_TEAM = PROJECT.partition("/")[0]
_S_PER_HOUR = 3600
# Of which jobs pledge at their submit. That one has room: a refused submit is no job.
_ROOMY_HOURS = 100_000


class Treasurer:
    """Keeps two budgets so that what is left pays for two GPUs a node at their worst, no more.

    One of the organisation and one of the team, in GPU-hours and in money; the seed says which is
    which. Both commit at the start, so that jobs wait for them.
    """

    def __init__(self, yard: Yard, seed: int) -> None:
        self.yard = yard
        hours, money = ("", _TEAM) if seed % 2 else (_TEAM, "")
        self._owners = {"gpu_hours": hours, "amount": money}
        now = datetime.now(UTC)
        self._period = {
            "valid_from": (now - timedelta(hours=1)).isoformat(),
            "valid_until": (now + timedelta(days=2)).isoformat(),
        }
        self._worst_s = 2 * len(yard.nodes) * TIME_LIMIT_S
        # Who was slower would set less than who knew more.
        self._raising = threading.Lock()

    def begin(self) -> None:
        """The two, and a roomy one of the project that commits at the submit."""
        with self._api() as api:
            self._set(api, {"owner": PROJECT, "gpu_hours": _ROOMY_HOURS})
            for measure, limit in self._limits(0, 0).items():
                self._set(api, self._body(measure, limit))

    def raise_them(self, diary: Diary, over: threading.Event) -> None:
        """Work for one of the crowd's threads: what was spent is put on top."""
        over.wait(5.0)
        with self._raising:
            spent = self._spent()
            if spent is None or over.is_set():
                return
            with self._api() as api:
                for measure, limit in self._limits(*spent).items():
                    facts = {"money": int(limit * STEPS)} if measure == "amount" else {}
                    facts = facts or {"gpu_seconds": int(limit) * _S_PER_HOUR}
                    # Before it is asked for: the answer of a call that was carried out may be lost.
                    diary.note("budget", **facts)
                    self._set(api, self._body(measure, limit))

    def _spent(self) -> tuple[int, int] | None:
        """Of both, in seconds of GPUs and in steps of money."""
        with psycopg.connect(self.yard.database, connect_timeout=3) as line:
            found: tuple[int, int] | None = line.execute(
                "SELECT max(spent_s), max(spent_money) FROM scheduler_budget "
                "WHERE commits_at = 'start'"
            ).fetchone()
        return found

    @contextmanager
    def stay(self, diary: Diary) -> Iterator[None]:
        """Go on until after this, while the crowd leaves and when it has gone: what was spent
        meanwhile, an hour of each GPU at a step of the clocks, is what the last jobs wait for."""
        done = threading.Event()

        def pay() -> None:
            while not done.is_set():
                with suppress(httpx.HTTPError, psycopg.Error):
                    self.raise_them(diary, done)

        pays = threading.Thread(target=pay, daemon=True)
        pays.start()
        try:
            yield
        finally:
            done.set()
            pays.join()

    def _limits(self, spent_s: int, spent_money: int) -> dict[str, Decimal]:
        """By measure: whole hours, and money to the coin."""
        hours = -(-(spent_s + self._worst_s) // _S_PER_HOUR)
        money = Decimal(spent_money) / STEPS + self._worst_s * self._price() / _S_PER_HOUR
        return {"gpu_hours": Decimal(hours), "amount": money.quantize(Decimal("0.01"), ROUND_UP)}

    def _price(self) -> Decimal:
        with psycopg.connect(self.yard.database, connect_timeout=3) as line:
            prices: dict[str, Decimal] = dict(
                line.execute(
                    "SELECT device_model, price_per_gpu_hour FROM accounts_rate WHERE kind = ''"
                ).fetchall()
            )
            devices = line.execute("SELECT DISTINCT model FROM scheduler_device")
            return max(prices.get(model, prices[""]) for (model,) in devices)

    def _body(self, measure: str, limit: Decimal) -> dict[str, Any]:
        body = {"owner": self._owners[measure], "commits_at": "start"}
        return body | {measure: int(limit) if measure == "gpu_hours" else str(limit)}

    def _set(self, api: httpx.Client, body: dict[str, Any]) -> None:
        api.post("/rules/budgets/", json={**body, **self._period}).raise_for_status()

    def _api(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.yard.api_tokens['admin']}"}
        base = f"{self.yard.address}/api/v1"
        return httpx.Client(base_url=base, headers=headers, timeout=60)
