"""One of each kind of thing that has a page of its own, in a stack that runs."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import httpx

from portal.bench.logs import signed_in
from tests.servers import LiveStack

# Parts of addresses, by the words of `places.py`.
Things = Mapping[str, int | str]
_PATIENCE_S = 120
_LINES = "for i in 1 2 3 4 5; do echo line $i; sleep 1; done"
_TRAINING = {
    "script": "#!/bin/sh\ntorchrun --nproc-per-node=gpu train.py\n",
    "gpus_per_node": 4,
    "cpus": 8,
    "memory": "64GiB",
    "time_limit": "6h",
    "retries": 2,
}


def furnish(stack: LiveStack) -> dict[str, int | str]:
    """A finished job, a session that runs, an array, a job that waits, and what surrounds them."""
    done = stack.submit(name="a-finished-job", script=_LINES)
    # So that its page has more than a screen above the line that says why.
    broken = stack.submit(name="a-failed-job", script=f"{_LINES}; echo loss is nan; exit 3")
    session = stack.submit(name="look-around", script="", session={"app": "shell"}, cpus=1)
    stack.wait_for(session["id"], "running")
    # Whole nodes, one of which the session has a GPU of.
    waits = stack.submit(name="a-waiting-job", script="sleep 60", nodes=2, gpus_per_node=8)
    for over in (done, broken):
        stack.wait_for(over["id"])
    return {
        "job": done["id"],
        "failed": broken["id"],
        "session": session["id"],
        "waiting": waits["id"],
        "set": submit_array(stack),
        **surround(stack, template=f"One node {done['id']}"),
    }


def surround(
    stack: LiveStack, *, template: str = "", asks: str = "", chats: str = "alice"
) -> dict[str, int | str]:
    """What pages show that are about no job: a thing of each kind, by the words of `places.py`."""
    return {
        "asked": ask(stack, *filter(None, [asks])),
        "cancel": doubt(stack),
        "schedule": repeat(stack),
        "template": share(stack, *filter(None, [template])),
        "scenario": replay(stack),
        "asset": buy(stack),
        "secret": invite(stack),
        "channel": chat(stack, chats),
        **move(stack),
    }


def clear(stack: LiveStack, things: Things) -> None:
    """End what still runs or waits."""
    why = {"reason": "The look at the pages is over."}
    with stack.api("admin") as api:
        for name in ("waiting", "session"):
            api.post(f"/jobs/{things[name]}/cancel/", json=why).raise_for_status()
        api.post(f"/sets/{things['set']}/cancel/", json=why)
        api.post(f"/bulk-cancels/{things['cancel']}/agree/")
    stack.wait_for(int(things["session"]))


def submit_array(stack: LiveStack) -> int:
    """Tasks of which one failed and some wait; the number of the array."""
    script = "[ $TRAINYARD_ARRAY_INDEX = 1 ] && exit 3; echo task $TRAINYARD_ARRAY_INDEX; sleep 2"
    first = stack.submit(name="seed-sweep", script=script, array="0-5%2", gpus_per_node=0)
    with stack.api("alice") as api:
        made = api.get(f"/jobs/{first['id']}/").json()
    number: int = made["set"]
    return number


def doubt(stack: LiveStack) -> int:
    """The number of a proposal to end an array of more tasks than one person ends alone."""
    first = stack.submit(name="seed-mistake", script="true", array="0-100", hold=True)
    with stack.api("alice") as api:
        array = api.get(f"/jobs/{first['id']}/").json()["set"]
    said = {"reason": "Writes its checkpoints over those of last week's runs."}
    number: int = _made(stack, "lena", f"/sets/{array}/cancel/", said)["id"]
    return number


def repeat(stack: LiveStack) -> int:
    """A job of every night, by its number; it has run once by hand."""
    job = {"name": "nightly-eval", "project": "vision/digits", "script": "echo ok", "cpus": 1}
    told = {"name": "Nightly", "rule": "30 2 * * mon-fri", "zone": "Europe/Berlin"}
    made = _made(stack, "alice", "/schedules/", {**told, "spec": {**job, "gpus_per_node": 0}})
    number: int = made["id"]
    _made(stack, "alice", f"/schedules/{number}/run/", {})
    return number


def share(stack: LiveStack, name: str = "DDP on one node") -> str:
    """A template with locked and bounded fields, in two versions; its place in addresses."""
    rules = {"script": "locked", "gpus_per_node": "1..8", "time_limit": "..12h"}
    told = {
        "team": "vision",
        "name": name,
        "description": "Data parallel on the cards of one node; goes on from its checkpoint.",
    }
    made = _made(stack, "admin", "/templates/", {**told, "spec": _TRAINING, "rules": rules})
    slug: str = made["slug"]
    more = {"spec": {**_TRAINING, "retries": 3}, "rules": rules, "note": "One more retry."}
    _made(stack, "admin", f"/templates/{slug}/versions/", more)
    return slug


def ask(stack: LiveStack, kind: str = "guaranteed", owner: str = "vision") -> int:
    """A request of alice, with a comment and a simulation; its number."""
    wish = {
        "owner": owner,
        "kind": kind,
        "amount": 8,
        "justification": "The long-context phase begins on Monday and needs 24 GPUs "
        "for three weeks. On 16 we wait for most of the day.",
    }
    number: int = _made(stack, "alice", "/requests/", wish)["id"]
    said = {"text": "Evaluation ends on Friday."}
    _made(stack, "alice", f"/requests/{number}/comment/", said)
    _made(stack, "admin", f"/requests/{number}/whatif/", {})
    return number


def replay(stack: LiveStack) -> int:
    """A scenario of the simulator, once it was answered; its number."""
    body = {"pool": "default", "hours": 24, "changes": ["policy=las"], "name": "Who ran least"}
    number: int = _made(stack, "admin", "/simulator/", body)["id"]
    deadline = time.monotonic() + _PATIENCE_S
    with stack.api("admin") as api:
        while api.get(f"/simulator/{number}/").json()["progress"] in ("waiting", "running"):
            assert time.monotonic() < deadline, "the replay takes too long"
            time.sleep(0.2)
    return number


def buy(stack: LiveStack) -> int:
    """Cards in service: proposed by one, approved by another; by forms, for programs may not."""
    cards = {"pool": "default", "name": "Eight cards", "paid": "218000", "months": "48"}
    _sent(stack, "frida", "/finance/assets/", {**cards, "since": "2026-01-01"})
    page = _sent(stack, "admin", "/finance/assets/", {})
    number = int(_found(r"/finance/assets/(\d+)/approve/", page))
    _sent(stack, "admin", f"/finance/assets/{number}/approve/", {})
    return number


def invite(stack: LiveStack) -> str:
    """The secret of an invitation that nobody has accepted; shown once, on the page of its lead."""
    form = {"invite-email": "new@example.org", "invite-role": "member"}
    return _found(r"/invitations/([\w-]+)/", _sent(stack, "lena", "/teams/vision/invite/", form))


def move(stack: LiveStack) -> dict[str, str]:
    """The secrets of the letters about an address that is to change, from the folder of mails."""
    _sent(stack, "alice", "/settings/profile/address/", {"email": "alice@new.example"})
    letters = "".join(one.read_text() for one in (stack.places.state / "mail").iterdir())
    return {
        f"address_{kind}": re.findall(rf"/addresses/{kind}/([\w-]+)/", letters)[-1]
        for kind in ("confirm", "undo")
    }


def chat(stack: LiveStack, username: str = "alice") -> int:
    """A channel of one's own, which rests: nobody out there is to be called."""
    sent = {"dialect": "slack", "url": "https://hooks.slack.com/services/x", "name": "my room"}
    with stack.api(username) as api:
        made = int(api.post("/channels/", json=sent).raise_for_status().json()["id"])
        api.post(f"/channels/{made}/", json={"is_paused": True}).raise_for_status()
    return made


def _found(pattern: str, page: str) -> str:
    found = re.search(pattern, page)
    assert found, f"no {pattern} on the page"
    return found[1]


def _sent(stack: LiveStack, username: str, path: str, form: dict[str, str]) -> str:
    """A form sent as the page sends it; the page that answers."""
    cookies = dict(pair.split("=", 1) for pair in signed_in(stack, username).split("; "))
    sent = {**form, "csrfmiddlewaretoken": cookies["csrftoken"]}
    with httpx.Client(base_url=stack.address, cookies=cookies, timeout=60) as browser:
        reply = browser.post(
            path, data=sent, headers={"Referer": f"{stack.address}/"}, follow_redirects=True
        )
        assert reply.status_code in (200, 422), f"{path}: {reply.status_code} {reply.text[-2000:]}"
        return reply.text


def _made(stack: LiveStack, username: str, path: str, body: dict[str, Any]) -> Any:
    with stack.api(username) as api:
        reply = api.post(path, json=body)
        assert reply.is_success, f"{path}: {reply.text}"
        return reply.json()
