"""Demonstration data by a button, with real workers, a real scheduler and jobs that run beside."""

from __future__ import annotations

import os
import signal
import time

import pytest

from portal.embedded.programs import BACKGROUND

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]


def press(person, act, **more):
    form = {"act": act, "csrfmiddlewaretoken": person.cookies["csrftoken"], **more}
    page = person.post("/welcome/demo/", data=form)
    assert page.status_code == 200 and page.url.path == "/welcome/"
    return page.text


def until(person, words, timeout_s=120.0):
    """The page once it says this."""
    deadline = time.monotonic() + timeout_s
    while words not in (page := person.get("/welcome/").text):
        assert time.monotonic() < deadline, page.partition("Demonstration data</h2>")[2][:900]
        time.sleep(0.3)
    return page


def test_two_clicks_load_it_once_and_one_takes_it_out_while_jobs_run(make_stack):
    stack = make_stack()
    admin = stack.browser("admin")
    runs = stack.submit(script="sleep 600")
    stack.wait_for(runs["id"], "running")
    assert "There are jobs here" in admin.get("/welcome/").text
    press(admin, "load", beside="on")
    assert "being loaded" in press(admin, "load", beside="on")
    # The one who may be at it dies; the next one begins anew.
    os.kill(stack.supervisor.pid_of(BACKGROUND), signal.SIGKILL)
    until(admin, "40 people, 5 teams and 8 nodes")
    assert "Demonstration data." in admin.get("/queue/").text
    assert stack.wait_for(stack.submit(script="true")["id"])["state"] == "succeeded"
    press(admin, "remove")
    until(admin, "rows were removed; 0 are left.")
    assert "Demonstration data." not in admin.get("/queue/").text
    assert stack.wait_for(stack.submit(script="true")["id"])["state"] == "succeeded"
    assert stack.wait_for(runs["id"], "running")["state"] == "running"
