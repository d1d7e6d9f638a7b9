"""Which addresses there are, straight from the URL conf, and what each persona gets from them."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

from django.db import transaction
from django.urls import reverse

from portal.api.v1.urls import urlpatterns
from portal.live.topics import watchable
from tests.pages.matrix import ROWS
from tests.rights import write_classes, writing
from tests.rights.scene import PEOPLE, PERSONAS, Scene, Side

# The word of the scene behind each part of an API address.
_API_WORDS = {
    "jobs/<int:pk>": "running",
    "templates/<slug:slug>": "template",
    "sets/<int:pk>": "job_set",
    "bulk-cancels/<int:pk>": "bulk_cancel",
    "schedules/<int:pk>": "job_schedule",
    "sessions/<int:pk>": "session",
    "bookings/<int:pk>": "booking",
    "requests/<int:pk>": "asked",
    "simulator/<int:pk>": "scenario",
    "nodes/<str:name>": "node",
    "users/<str:username>": "somebody",
    "pools/<str:name>": "pool",
    "finance/files/<int:pk>": "running",
    "queue/<slug:pool>": "pool",
    "reports/<slug:slug>": "report",
    "teams/<slug:slug>": "team",
    "<slug:team>": "team",
    "<slug:project>": "project",
    "<int:other>": "queued",
    "outputs/<int:number>": "output",
    "channels/<int:pk>": "channel",
    "attempts/<int:number>": "attempt",
    "finance/charging/<str:month>": "month",
}


def pages() -> dict[str, tuple[str, ...]]:
    """GET pages by route, with the words of their addresses."""
    return {row.route: row.args for row in ROWS if row.method == "GET"}


def operations() -> dict[str, dict[str, str | None]]:
    """By address of the API: its methods, each with the token scope it asks for."""
    found = {}
    for pattern in urlpatterns:
        view: Any = getattr(pattern.callback, "cls", None)
        methods = ("get", "post", "put", "patch", "delete")
        found[str(pattern.pattern)] = {
            method: getattr(view, method).scope for method in methods if hasattr(view, method)
        }
    return found


def queries() -> dict[tuple[str, str], frozenset[str]]:
    """By address of the API and method: the query parameters it takes."""
    return {
        (route, method): getattr(_view(route), method).query_names
        for route, methods in operations().items()
        for method in methods
    }


def _view(route: str) -> Any:
    found: Any = next(one for one in urlpatterns if str(one.pattern) == route).callback
    return found.cls


def api_address(route: str, side: Side) -> str:
    """The address of a route for one side; raises KeyError for a part that has no word."""
    for part, word in _API_WORDS.items():
        if part in route:
            value = str(side.words[word])
            route = route.replace(part, re.sub(r"<[^>]+>", value, part))
    if "<" in route:
        raise KeyError(f"{route}: say in tests/rights/asking.py what stands there")
    return "/api/v1/" + route


def page_answers(scene: Scene, route: str, args: tuple[str, ...], side: Side) -> str:
    """The statuses of the personas in their order; the service account comes with its token."""
    url = reverse(route, args=[side.words[word] for word in args])
    return _answers(scene, url)


def api_answers(scene: Scene, route: str, side: Side) -> str:
    """The same for a GET of the API."""
    return _answers(scene, api_address(route, side))


def _answers(scene: Scene, url: str) -> str:
    found = []
    for name in PERSONAS:
        headers = scene.headers if name == "service" else {}
        found.append(str(scene.clients[name].get(url, **headers).status_code))
    return " ".join(found)


def topics(side: Side) -> dict[str, str]:
    """One topic of each kind that belongs to somebody."""
    return {
        "job": f"job:{side.job.pk}",
        "project": f"project:{side.project.pk}",
        "log": f"log:{side.attempt.pk}:0",
        "user": f"user:{side.job.owner_id}",
        "queue": f"queue:{side.words['pool']}",
        "node": f"node:{side.attempt.placements.get().node_id}",
        "nodes": "nodes",
    }


def topic_answers(scene: Scene, topic: str) -> str:
    """Who may watch: yes or no for each persona."""
    allowed = (watchable(scene.people[name], [topic]) for name in PERSONAS)
    return " ".join("yes" if found else "no" for found in allowed)


def write_answers(scene: Scene, operation: str, words: dict[str, Any]) -> str:
    """What each of the people gets, in their order, as `CELLS`; whatever was done is undone, and
    with it the new key that a session gets with a new role."""
    (method, _, route), (word, body) = operation.partition(" "), writing.SENT[operation]
    parts = {"username": words["somebody" if route.startswith("users/") else "service"]}
    parts |= {name: words[name] for name in ("team", "project", "index")}
    address = re.sub(r"<\w+:(\w+)>", lambda found: str(parts.get(found[1], words.get(word))), route)
    sent = re.sub(r"\{(\w+)\}", lambda found: str(words[found[1]]), json.dumps(body))
    cells = []
    for client in (scene.clients[name] for name in PEOPLE):
        kept = deepcopy(client.cookies)
        with transaction.atomic():
            send = getattr(client, method)
            answer = send(f"/api/v1/{address}", sent, content_type="application/json")
            transaction.set_rollback(True)
        client.cookies = kept
        cells.append(write_classes.CELLS.get(answer.status_code, "y"))
    return " ".join(cells)
