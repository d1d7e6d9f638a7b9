"""Where a ticket is taken: in its owner's browser, or by whoever meant to come."""

from __future__ import annotations

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as configured
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from portal.asgi import application
from portal.live.sessions import access
from scheduler.models import Session
from scheduler.services.sessions import issue_ticket
from tests import scenes

pytestmark = [pytest.mark.asyncio, pytest.mark.once, pytest.mark.django_db(transaction=True)]
APART = "http://sessions.localhost"


@pytest.fixture
def session(root, alice, project):
    cluster = scenes.build_cluster(root, nodes=1)
    job = scenes.submit(alice, project, script="", session={"app": "shell"})
    attempt = scenes.start(job, cluster.node(1))
    scenes.sync(cluster.node(1), scenes.running(attempt))
    return Session.objects.get(job=job)


@pytest.fixture
def apart(settings):
    settings.ALLOWED_HOSTS = ["localhost", "sessions.localhost"]
    settings.TRAINYARD = {**settings.TRAINYARD, "session_origin": APART}


async def ticket_for(person, session):
    issue = sync_to_async(issue_ticket)
    return await issue(actor=person, session=session, now=timezone.now())


async def ask(method, session, ticket, origin="http://localhost", **headers):
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url=origin) as it:
        return await it.request(method, f"/s/{session.pk}/?ticket={ticket}", headers=sent)


def signed_in(person):
    client = Client()
    client.force_login(person)
    name = configured.SESSION_COOKIE_NAME
    return f"{name}={client.cookies[name].value}"


async def test_on_the_portals_address_only_who_asked_for_it_comes_in(session, alice, bob):
    ticket = await ticket_for(alice, session)
    assert (await ask("GET", session, ticket)).status_code == 403
    theirs = await sync_to_async(signed_in)(bob)
    refused = await ask("GET", session, ticket, cookie=theirs)
    assert refused.status_code == 403 and "is not yours" in refused.text
    own = await sync_to_async(signed_in)(alice)
    beside = 'consent={"a":1}; ' + own + '; theme="x'  # of other programs under that name
    assert (await ask("GET", session, ticket, cookie=beside)).status_code == 303


@pytest.mark.parametrize("site", ["cross-site", "none", None])
async def test_under_a_name_of_its_own_a_link_from_elsewhere_asks_first(
    session, alice, apart, site
):
    ticket = await ticket_for(alice, session)
    told = {"sec_fetch_site": site} if site else {}
    page = await ask("GET", session, ticket, APART, **told)
    assert page.status_code == 200 and '<form method="post"' in page.text
    assert "form-action 'self'" in page.headers["content-security-policy"]
    assert "set-cookie" not in page.headers
    # A form of another page's is no answer to the question.
    forged = await ask("POST", session, ticket, APART, Origin="http://evil.example")
    assert forged.status_code == 200 and "set-cookie" not in forged.headers
    assert (await ask("POST", session, ticket, APART, Origin=APART)).status_code == 303


async def test_a_page_of_the_portal_leads_straight_in(session, alice, apart):
    ticket = await ticket_for(alice, session)
    entered = await ask("GET", session, ticket, APART, sec_fetch_site="same-site")
    assert entered.status_code == 303 and "trainyard_session=" in entered.headers["set-cookie"]


async def test_a_database_that_is_away_breaks_off_no_work(session, monkeypatch):
    def fails(**_):
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(access, "note_activity", fails)
    keeper = access.Doorkeeper()
    await keeper.touch(access.Caller("", ""), session.pk)
    assert keeper.noted
