"""A server that can open no more files says so, and takes up its work when it can: a real one."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import count, islice
from pathlib import Path

import httpx
import pytest

from portal.embedded.programs import WEB

pytestmark = [pytest.mark.stack, pytest.mark.once, pytest.mark.timeout(240)]

PEOPLE, TIMES = 12, 8
JOB = {
    "name": "out-of-files",
    "project": "vision/digits",
    "pool": "default",
    "command": "true",
    "gpus_per_node": 1,
    "memory": "256MiB",
    "time_limit": "10m",
}


@contextmanager
def no_more_files(pid: int, spare: int) -> Iterator[None]:
    """The program can open `spare` files beyond what it has open."""
    usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    # A file gets the lowest free number, and the limit is one of numbers.
    *_, most = islice((number for number in count() if number not in taken), spare + 1)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, usual[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)


def begin_anew(stack) -> None:
    """Another server, whose threads have opened nothing yet."""
    stack.supervisor.stop_program(WEB)
    stack.supervisor.start_program(WEB)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError), stack.api() as one:
            if one.get("/jobs/").status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("the portal is not back")


def test_everybody_is_told_to_come_again_and_no_job_is_there_that_was_not_told_of(stack):
    log = Path(stack.places.state, "logs", "web.log")
    with ExitStack() as kept:
        people = [kept.enter_context(stack.api()) for _ in range(PEOPLE)]
        readers = [kept.enter_context(closing(stack.browser())) for _ in range(2)]
        begun = log.stat().st_size

        def submit(one) -> list[int]:
            return [one.post("/jobs/", json=JOB).status_code for _ in range(TIMES)]

        def read(one) -> list[int]:
            return [one.get("/queue/").status_code for _ in range(TIMES)]

        submitted: list[int] = []
        pages: list[int] = []
        # What it had open for something else may be free again just then, and a slow machine
        # answers few at a time.
        for spare in (2, 1, 0):
            # Each has a connection; what they ask for from here on needs files.
            for one in (*people, *readers):
                one.get("/jobs/").raise_for_status()
            pid = stack.supervisor.pid_of(WEB)
            with no_more_files(pid, spare), ThreadPoolExecutor() as hands:
                told = [hands.submit(submit, one) for one in people]
                shown = [hands.submit(read, one) for one in readers]
                submitted += [status for each in told for status in each.result()]
                pages += [status for each in shown for status in each.result()]
            if 503 in submitted:
                break
            # By now its threads may have all that they need.
            begin_anew(stack)
        assert set(submitted) <= {201, 503}
        assert 503 in submitted, "it had files enough: nothing is shown"
        assert set(pages) <= {200, 503}
        assert "Exception in ASGI application" not in log.read_text("utf-8")[begun:]
        found = people[0].get("/jobs/", params={"q": JOB["name"], "limit": 200}).json()["items"]
        assert len(found) == submitted.count(201)
        assert people[1].post("/jobs/", json=JOB).status_code == 201
