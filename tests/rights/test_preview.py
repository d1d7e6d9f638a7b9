"""The preview of a role, on every route: what the role gets, no more, and nothing is written."""

from __future__ import annotations

import re
from datetime import timedelta
from itertools import cycle

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts.errors import Forbidden
from accounts.models import AuditEvent, User
from accounts.services import begin_preview, end_preview, preview_as
from accounts.services.audit import Subject, record
from portal.live.session import user_of_session
from portal.live.topics import watchable
from portal.pages.previewing import previews
from portal.pages.scope.narrowing import NARROWED
from portal.previews import KEY
from tests.pages.matrix import ROWS
from tests.rights import asking
from tests.rights.classes import CLASSES
from tests.rights.scene import PEOPLE, Scene, build
from tests.rights.table import API, PAGES
from tests.rights.topics import TOPICS

pytestmark = [pytest.mark.django_db, pytest.mark.once, pytest.mark.timeout(300)]
EXPORT, MESSAGES = "finance/reports/<slug:slug>/file/", "channels/<int:pk>/messages/"
# Who may be previewed, as columns of the table of rights; a role of a team is of the own one.
SHOWN = ("member", "lead", "finance", "operator", "auditor")
WRITES = re.compile(r"^\s*(INSERT|UPDATE|DELETE)\b(?!.*django_session)", re.IGNORECASE)


@pytest.fixture
def scene(db) -> Scene:
    return build()


def begin(client: Client, scene: Scene, role: str) -> None:
    client.post(reverse("preview_end"))
    team = scene.own.team.slug if role in ("member", "lead") else ""
    answer = client.post(reverse("preview"), {"role": role, "team": team})
    assert answer.status_code == 302, role


def wanted(cells: str, role: str) -> int:
    return int(cells.split()[PEOPLE.index(role)])


def test_every_route_shows_what_the_role_gets_and_nothing_is_written(scene):
    """Each route once, the roles and sides in turn; then every form and operation is refused."""
    client, differs = scene.clients["admin"], {}
    asked: dict[str, list[tuple[str, str, int]]] = {role: [] for role in SHOWN}
    turns = cycle([(role, side) for role in SHOWN for side in (0, 1)])
    sides = (scene.own, scene.foreign)
    for route, args in asking.pages().items():
        role, side = next(turns)
        url = reverse(route, args=[sides[side].words[word] for word in args])
        asked[role].append((route, url, wanted(CLASSES[PAGES[route]][side], role)))
    for route in API:
        role, side = next(turns)
        url = asking.api_address(route, sides[side])
        asked[role].append((route, url, wanted(CLASSES[API[route]][side], role)))
    written = []
    for role, addresses in asked.items():
        begin(client, scene, role)
        with CaptureQueriesContext(
            connection,
        ) as said:
            for route, url, status in addresses:
                got = client.get(url, follow=route in NARROWED).status_code
                if got != status:
                    differs[route, role] = (got, status)
        written += [one["sql"][:200] for one in said if WRITES.match(one["sql"])]
    assert written == []
    # Taking a report out is on record, so a preview does not; and it has asked for nothing, nor is
    # it told of anything.
    theirs = ("requests:detail", "requests/<int:pk>/", "channels:detail")
    expected = {EXPORT: (403, 200), **dict.fromkeys((*theirs, MESSAGES), (404, 200))}
    assert {one: got for one, got in differs.items() if expected.get(one[0]) != got} == {}

    before = AuditEvent.objects.count()
    for row in ROWS:
        if row.method == "POST" and row.route != "preview_end":
            url = reverse(row.route, args=["1"] * len(row.args)) if _plain(row) else "/"
            assert client.post(url, row.data).status_code == 403, row
    for route, methods in asking.operations().items():
        url = "/api/v1/" + re.sub(r"<(int|str|slug):\w+>", "1", route)
        for method in set(methods) - {"get"}:
            answer = getattr(client, method)(url, {}, content_type="application/json")
            assert answer.status_code == 403 and answer.json()["code"] == "preview", route
    assert AuditEvent.objects.count() == before


def _plain(row) -> bool:
    """Whether the address can be made of ones; the middleware refuses before it is looked at."""
    try:
        reverse(row.route, args=["1"] * len(row.args))
    except Exception:
        return False
    return True


def test_sockets_exports_and_private_things(scene):
    client = scene.clients["admin"]
    begin(client, scene, "finance")
    key = client.cookies["sessionid"].value
    own, column = asking.topics(scene.own), PEOPLE.index("finance")
    seen = user_of_session(key)
    assert seen is not None and seen.is_preview
    for kind, topic in own.items():
        allowed = TOPICS[kind][0].split()[column] == "yes"
        assert bool(watchable(seen, [topic])) == allowed, kind
    # What is on record when it is taken out is not taken out.
    assert client.get("/usage/", {"format": "csv"}).status_code == 403
    with pytest.raises(Forbidden):
        record(seen, "export.costs", Subject("export"))
    html = client.get("/").content.decode()
    assert "Finance of the organisation" in html.partition("Preview:")[2][:80]
    assert b"of-own" not in client.get("/settings/tokens/").content


def test_it_ends_by_click_time_sign_out_and_lost_rights(scene):
    client, root = scene.clients["admin"], scene.people["admin"]
    ends = AuditEvent.objects.filter(action="preview.end", actor_id=root.pk)
    begin(client, scene, "member")
    assert client.get("/audit/").status_code == 403
    client.post(reverse("preview_end"))
    assert client.get("/audit/").status_code == 200
    begin(client, scene, "member")
    session = client.session
    session[KEY] |= {"until": (timezone.now() - timedelta(seconds=1)).timestamp()}
    session.save()
    # The press of a button of a page that was a preview is not done with more rights.
    assert client.post(reverse("teams:list"), {"name": "Late"}).status_code == 403
    assert client.get("/audit/").status_code == 200
    begin(client, scene, "auditor")
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    assert client.get("/settings/roles/").status_code == 403
    User.objects.filter(pk=root.pk).update(is_superuser=True)
    begin(client, scene, "auditor")
    client.post("/accounts/logout/")
    assert client.get("/").status_code == 302
    reasons = list(ends.order_by("pk").values_list("reason", flat=True))
    assert reasons == ["by click", "its time ran out", "its time ran out", "signed out"]
    assert AuditEvent.objects.filter(action="preview.begin").count() == len(reasons)


def test_its_end_is_told_once_also_by_two_requests_that_find_it_over(root):
    first, second = (
        begin_preview(actor=root, role="auditor", team=None, until=timezone.now() + one)
        for one in (timedelta(minutes=1), timedelta(minutes=2))
    )
    for preview in (first, first, second, first):
        end_preview(actor=root, preview=preview, reason="its time ran out")
    assert AuditEvent.objects.filter(action="preview.end", actor_id=root.pk).count() == 2


def test_only_administrators_begin_and_a_stand_in_begins_none(scene):
    until = timezone.now() + timedelta(minutes=1)
    for name in PEOPLE:
        if name != "admin":
            assert (
                scene.clients[name].post(reverse("preview"), {"role": "auditor"}).status_code == 404
            )
    begun = begin_preview(actor=scene.people["admin"], role="auditor", team=None, until=until)
    with pytest.raises(Forbidden):
        begin_preview(actor=preview_as(begun), role="auditor", team=None, until=until)
    # A session that was tampered with gives nobody else another's eyes.
    client = scene.clients["member"]
    session = client.session
    session[KEY] = {"role": "auditor", "team": None, "until": until.timestamp()}
    session.save()
    assert client.get("/audit/").status_code == 403


def test_a_team_beyond_those_that_are_listed_goes_by_its_name(scene, monkeypatch):
    client, slug = scene.clients["admin"], scene.own.team.slug
    address = reverse("preview")
    assert "preview-other" not in client.get(address).content.decode()
    monkeypatch.setattr(previews, "_SHOWN_TEAMS", 1)
    html = client.get(address).content.decode()
    assert "preview-other" in html and "the first 1 teams" in html
    typed = {"role": "member", "other": "nobody"}
    assert "there is no team nobody" in client.post(address, typed, follow=True).content.decode()
    assert KEY not in client.session
    client.post(address, typed | {"other": slug})
    assert KEY in client.session
    client.post(reverse("preview_end"))
