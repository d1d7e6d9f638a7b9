"""Calls to the REST API; every way they can fail becomes a Failure with its exit code."""

from __future__ import annotations

import ipaddress
import math
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from portal.cli.config import Config
from portal.cli.exits import TRY_AGAIN, UNREACHABLE, Failure, code_of_status
from portal.cli.output import say

NOTHING: Mapping[str, str] = {}
_CONNECT_S = 5.0
_ANSWER_S = 30.0
_MOMENT_S = 1.0
_TRIES = 3
# Who calls too fast waits as long as the server says, in all at most so long.
_PATIENCE_S = 60.0
_LONGEST_PART = 200
_GIVE_UP_S = 300.0


class Api:
    """One server, one token; a context that closes its connections."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._http = httpx.Client(
            base_url=f"{config.server}/api/v1",
            headers={
                "Authorization": f"Bearer {config.token}",
                "User-Agent": "trainyard-cli/0.1.0",
            },
            timeout=httpx.Timeout(_ANSWER_S, connect=_CONNECT_S),
            # A proxy set for the outer world cannot know this host's loopback.
            trust_env=not is_loopback(config.server),
        )

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, *, wait_s: float = 0, within_s: float = math.inf, **query: Any) -> Any:
        """The JSON at `path`; None among `query` is left out."""
        return self._json(self.get_raw(path, wait_s=wait_s, within_s=within_s, **query))

    def get_raw(
        self, path: str, *, wait_s: float = 0, within_s: float = math.inf, **query: Any
    ) -> httpx.Response:
        """The answer itself; `wait_s` is how long the server may hold the call. Whoever waits
        `within_s` and no longer, but for a moment, tries again by themselves."""
        params = {name: value for name, value in query.items() if value is not None}
        if wait_s:
            params["wait"] = int(wait_s)
        most_s = within_s + _MOMENT_S
        answer_s = min(_ANSWER_S + wait_s, most_s)
        timeout = httpx.Timeout(answer_s, connect=min(_CONNECT_S, most_s))
        tries = _TRIES if within_s == math.inf else 1
        return self._send("GET", path, params=params, timeout=timeout, tries=tries, most_s=most_s)

    def stream(self, path: str, take: Callable[[bytes], object]) -> None:
        """Hand the bytes at `path` to `take`, a piece at a time; where they break off go on there,
        so often without a byte as other calls are tried."""
        done, left = 0, _TRIES
        while True:
            answer = self._send("GET", path, params={"offset": done}, stream=True)
            try:
                for piece in answer.iter_bytes():
                    take(piece)
                    done, left = done + len(piece), _TRIES
                return
            except httpx.HTTPError as error:
                left -= 1
                if not left:
                    raise self._unreachable(error) from None
            finally:
                answer.close()

    def first(self, path: str, limit: int, **query: Any) -> tuple[list[Any], bool]:
        """Up to `limit` rows of a list, page by page, and whether there are more."""
        rows: list[Any] = []
        page = self.get(path, limit=min(limit, _LONGEST_PART), **query)
        while len(rows := rows + page["items"]) < limit and (cursor := page["next_cursor"]):
            left = min(limit - len(rows), _LONGEST_PART)
            page = self.get(path, limit=left, cursor=cursor, **query)
        return rows[:limit], bool(page["next_cursor"]) or len(rows) > limit

    def everything(
        self, path: str, *, begun: Any = None, name: str = "items", **query: Any
    ) -> list[Any]:
        """All rows of the list that an answer holds by this name; `begun` has its first ones.

        No limit is asked for: older servers answer these lists as a whole and know none.
        """
        page = begun or self.get(path, **query)
        rows = list(page[name])
        while cursor := page.get("next_cursor"):
            page = self.get(path, cursor=cursor, **query)
            rows += page[name]
        return rows

    def whole(self, path: str) -> dict[str, Any]:
        """An answer that holds a list and more, with all rows of the list."""
        page = self.get(path)
        return {**page, "items": self.everything(path, begun=page), "next_cursor": None}

    def post(self, path: str, body: Any = None, **query: Any) -> Any:
        """Send JSON, not repeated when the connection breaks."""
        return self._json(self._send("POST", path, params=query, json=body or {}, tries=1))

    def delete(self, path: str) -> Any:
        """Take something away."""
        return self._json(self._send("DELETE", path, tries=1))

    def submit(
        self,
        path: str,
        content: bytes,
        kind: str,
        *,
        key: str = "",
        typed: Mapping[str, str] = NOTHING,
        **query: Any,
    ) -> Any:
        """Send a job. An idempotency key goes along, so trying again cannot submit it twice;
        `typed` is how moments were written that count from now, by their fields."""
        headers = {"Content-Type": kind, "Idempotency-Key": key or uuid.uuid4().hex}
        headers |= {f"Idempotency-{name.title()}": text for name, text in typed.items()}
        params = {name: value for name, value in query.items() if value is not None}
        return self._json(self._send("POST", path, params=params, content=content, headers=headers))

    def _send(self, method: str, path: str, *, tries: int = _TRIES, **more: Any) -> httpx.Response:
        for left in reversed(range(tries)):
            try:
                answer = self._answer(method, path, **more)
            except httpx.HTTPError as error:
                if not left:
                    raise self._unreachable(error) from None
            else:
                if answer.is_success:
                    return answer
                failure = self._elsewhere(answer) if answer.is_redirect else _refusal(answer)
                if failure.code != TRY_AGAIN or not left:
                    raise failure
            time.sleep(0.3 * (tries - left))
        raise AssertionError("unreachable")

    def _answer(
        self,
        method: str,
        path: str,
        *,
        stream: bool = False,
        most_s: float = _PATIENCE_S,
        **more: Any,
    ) -> httpx.Response:
        """What the server answers, after the pauses it asks for: it has done nothing until then.
        With `stream` the bytes of a success are still to be read."""
        until = time.monotonic() + min(_PATIENCE_S, most_s)
        while True:
            request = self._http.build_request(method, path, **more)
            answer = self._http.send(request, stream=stream)
            if not answer.is_success:
                answer.read()
            pause = answer.headers.get("Retry-After", "") if answer.status_code == 429 else ""
            if not pause.isdigit() or time.monotonic() + int(pause) > until:
                return answer
            time.sleep(int(pause))

    def _elsewhere(self, answer: httpx.Response) -> Failure:
        place = answer.headers.get("Location", "another address")
        return Failure(
            f"{self.config.server} says that this is at {place}.",
            code=UNREACHABLE,
            remedy="Type: trainyard login <address of the portal>, as it begins there.",
        )

    def _unreachable(self, error: Exception) -> Failure:
        return Failure(
            f"{self.config.server} does not answer: {error or type(error).__name__}.",
            code=UNREACHABLE,
            remedy="Check the address and your network; trainyard login sets another address.",
        )

    def _json(self, answer: httpx.Response) -> Any:
        if answer.status_code == httpx.codes.NO_CONTENT:
            return None
        try:
            return answer.json()
        except ValueError:
            raise not_ours(answer) from None


class Patience:
    """How long to put up with a server that is away: five minutes in a row."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self._since: float | None = None
        self._pause_s = 0.5

    def bear(self, failure: Failure, *, most_s: float = math.inf) -> None:
        """Wait a moment, `most_s` seconds at most, or raise the failure if waiting is no use."""
        if failure.code not in (UNREACHABLE, TRY_AGAIN):
            raise failure
        if self._since is None:
            self._since = time.monotonic()
            say(f"{failure.what} Trying again…")
        if time.monotonic() - self._since > _GIVE_UP_S:
            raise failure
        time.sleep(min(self._pause_s, most_s))
        self._pause_s = min(10.0, self._pause_s * 2)


def _refusal(answer: httpx.Response) -> Failure:
    """A problem document as a Failure."""
    try:
        found = answer.json()
        if not isinstance(found, Mapping) or "detail" not in found:
            raise ValueError
    except ValueError:
        return not_ours(answer)
    details = [f"{one['field']}: {one['message']}" for one in found.get("errors", ())]
    remedies = {
        401: "Type: trainyard login",
        412: "Look at it again, then decide.",
        503: "Try again in a moment.",
    }
    # A status says less than this code.
    needs_word = found.get("code") == "reason_needed"
    say_why = 'Add --reason "…" to the command.' if needs_word else ""
    return Failure(
        str(found["detail"]),
        code=code_of_status(answer.status_code),
        remedy=say_why or remedies.get(answer.status_code, ""),
        details=details,
        request_id=str(found.get("request_id", "")),
    )


def not_ours(answer: httpx.Response) -> Failure:
    """For an answer that no portal gives: a proxy, or another program at this address."""
    code = code_of_status(answer.status_code) if answer.status_code >= 500 else UNREACHABLE
    return Failure(
        f"{answer.url} answered {answer.status_code}, but not as Trainyard does.",
        code=code,
        remedy="Is the address right? trainyard login sets another one.",
    )


def is_loopback(server: str) -> bool:
    """Whether the server is on this very machine."""
    name = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
