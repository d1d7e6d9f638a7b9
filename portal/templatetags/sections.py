"""Which entry of the navigation a page belongs to: its own, or that of where it is reached.

The search and the notifications are reached from everywhere and belong to none.
"""

from __future__ import annotations

from collections.abc import Mapping

# By the first word of a view's name, or by all of it.
ENTRIES: Mapping[str, str] = {
    "home": "home",
    "welcome": "home",
    "jobs": "jobs:list",
    "sets": "jobs:list",
    "sessions": "sessions:list",
    "queue": "queue:list",
    "templates": "templates:list",
    "schedules": "schedules:list",
    "bookings": "bookings:list",
    "teams": "teams:list",
    "costs": "costs:overview",
    "finance": "finance:index",
    "requests": "requests:list",
    "approvals": "approvals",
    "approval_rules": "approvals",
    "cancels": "approvals",
    "cluster_map": "cluster_map",
    "cluster_room": "cluster_map",
    "cluster_timeline": "cluster_timeline",
    "nodes": "nodes:list",
    "pools": "nodes:list",
    "simulator": "simulator:list",
    "health": "health",
    "users": "users:list",
    "roles": "roles:list",
    "groups": "roles:list",
    "audit": "audit:list",
    "announcements": "announcements:list",
    "webhooks": "webhooks:list",
    "preview": "preview",
    "profile": "profile",
    "tokens": "profile",
    "secrets": "profile",
    "delegations": "profile",
    "notification_settings": "profile",
    "notification_hours": "profile",
    "channels": "profile",
    "scope": "profile",
    "address_ask": "profile",
    "help": "help",
    "styleguide": "help",
    "api_docs": "api_docs",
}
# What menus name beside these.
IN_MENUS: Mapping[str, str] = {
    "tokens": "tokens:list",
    "secrets": "secrets:list",
    "scope": "scope",
    "styleguide": "styleguide",
}


def entry_of(view_name: str) -> str:
    """The name of the view that the rail leads to; empty for a page that has none."""
    return ENTRIES.get(view_name) or ENTRIES.get(view_name.partition(":")[0], "")


def place_of(view_name: str) -> str:
    """The same for menus, which name more."""
    return IN_MENUS.get(view_name.partition(":")[0]) or entry_of(view_name)
