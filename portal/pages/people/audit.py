"""The audit: who changed what, when and by which request; searched, paged by key, as a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from accounts.models import AuditEvent, User
from accounts.services.audit import Subject, record
from accounts.trail import each_event, events_for, page_of_events, seal_state, sees_addresses
from portal import limits
from portal.forms.audit import PARAMETERS, AuditQuery, parse_audit_query
from portal.forms.filters import unknown_parameters
from portal.pages.access import page, viewer_of
from portal.pages.listing.heads import Head
from portal.pages.saved.views import opened_by_default, tabs_of
from portal.reports.diffs import Change, told_changes
from portal.reports.streams import StreamedFile, csv_file
from portal.templatetags.acts import ACTION_WORDS
from portal.templatetags.wording import action_words, words
from scheduler.selectors.sharing.limits import names_of_accounts
from scheduler.states import budget_in_words, raw_owner

PAGE = 50
# Sealing runs every few seconds; what waits longer than this is worth a look.
LATE = timedelta(minutes=2)
# Their rows have numbers for a name; what was changed says the rest.
_NAMELESS: Mapping[str, str] = {"delegation": "acting for others", "requestpolicy": "who decides"}
COLUMNS = (
    "id at actor on_behalf_of action object_kind object_id object team_id before after reason "
    "request_id ip user_agent"
).split()


@page("GET")
def audit_list(request: HttpRequest) -> HttpResponseBase:
    """`?actor=&action=&object=&text=&from=&to=&sort=`; `?format=csv` gives all of it as a file."""
    viewer, query = viewer_of(request), parse_audit_query(request.GET)
    problems = [f"{name}: {words}" for name, words in query.problems.items()]
    if request.GET.get("format", "") not in ("", "html", "csv"):
        problems.append("format: choose html or csv.")
    if request.GET.get("format") == "csv" and not problems:
        limits.count(limits.EXPORT, viewer.pk)
        return _csv(viewer, query)
    if opened := opened_by_default(request, viewer, "audit"):
        return opened
    found, following = page_of_events(
        viewer, query.wanted, after=query.after, size=PAGE, oldest_first=query.oldest_first
    )
    names = names_of_accounts(key for one in found for key in _accounts(one))
    shows_ip, state, now = sees_addresses(viewer), seal_state(), timezone.now()
    context = {
        "rows": [
            {
                "event": event,
                "action": action_words(event.action),
                "label": _label(event, names),
                "changes": _told(event, names),
                "is_sealed": event.pk <= state.until_id,
            }
            for event in found
        ],
        "next": str(following) if following else "",
        "query": query,
        "action": action_words(query.texts["action"]),
        "acts": sorted(ACTION_WORDS.values()),
        "head": Head("-at", "ascending") if query.oldest_first else Head("at", "descending"),
        "shows_ip": shows_ip,
        "state": state,
        "is_late": state.since is not None and now - state.since > LATE,
        "problems": problems,
        "unknown": unknown_parameters(request.GET, PARAMETERS),
        "views": tabs_of(request, viewer, "audit"),
        "now": now,
    }
    return render(request, "people/audit.html", context)


def _accounts(event: AuditEvent) -> list[str]:
    """Keys of accounts that stand in it, where people read names."""
    if event.subject_kind == "budget":
        return [raw_owner(event.subject_label)]
    if event.subject_kind == "statement" and event.after:
        return [str(json.loads(event.after).get("account", ""))]
    return []


def _label(event: AuditEvent, names: Mapping[str, str]) -> str:
    """What was changed, by its name."""
    label = event.subject_label
    if event.subject_kind == "budget":
        return budget_in_words(label, names)
    if event.subject_kind == "poolterms":
        return f"terms of {label.partition(':')[0]}"
    if event.subject_kind == "schedulingrule":
        return f"scheduling: {words(label.removeprefix('scheduling by '))}"
    return _NAMELESS.get(event.subject_kind, label)


def _told(event: AuditEvent, names: Mapping[str, str]) -> list[Change]:
    """What changed; of something new not what it does not have."""
    found = told_changes(event.action, event.before, event.after)
    if event.subject_kind == "statement":
        found = [replace(one, after=names.get(one.after or "", one.after)) for one in found]
    return found if event.before else [one for one in found if not one.is_nothing]


def _csv(viewer: User, query: AuditQuery) -> StreamedFile:
    events_for(viewer, query.wanted)  # refuses before the answer begins
    shows_ip = sees_addresses(viewer)
    asked = {**query.texts, "from": query.first, "to": query.last}
    wishes = {name: text for name, text in asked.items() if text}
    record(viewer, "export.audit", Subject("export", "", "the audit"), after=wishes)

    def lines() -> Iterator[list[Any]]:
        for event in each_event(viewer, query.wanted, oldest_first=query.oldest_first):
            yield _cells(event, shows_ip)

    name = f"audit-{query.first or 'all'}-{query.last or timezone.now().date()}.csv"
    return csv_file(COLUMNS, lines(), name=name)


def _cells(event: AuditEvent, shows_ip: bool) -> list[Any]:
    return [
        event.pk,
        event.at.astimezone(UTC).isoformat(),
        event.actor_name,
        event.on_behalf_of_name,
        event.action,
        event.subject_kind,
        event.subject_id,
        event.subject_label,
        event.team_id or "",
        event.before,
        event.after,
        event.reason,
        event.request_id,
        event.ip if shows_ip else "",
        (event.user_agent or "") if shows_ip else "",
    ]
