"""Rows of the table of `matrix.py` for the pages of nodes and of those who run the cluster."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from accounts.models import User
from scheduler.models import Delivery
from scheduler.services.inbox import add_webhook
from tests.pages.rows import Row
from tests.pages.rows import get as _get
from tests.pages.rows import post as _post

#             alice bob lead fin  op carol root
_ALL = "       200 200 200 200 200 200 200"
_OPERATES = "  403 403 403 403 302 403 302"
_ADMIN = "     403 403 403 403 403 403 302"

_IDLE = {"below_percent": "5", "warn_minutes": "60", "first_minutes": "30", "act": "tell"}
_IDLE["keep_hours"] = "24"

ROWS: tuple[Row, ...] = (
    _get("cluster_map", _ALL, metric="use"),
    _get("cluster_timeline", _ALL, span="7d"),
    _get("cluster_room", _ALL, span="7d", need="2"),
    _get("nodes:list", _ALL),
    _get("nodes:enrol", "403 403 403 403 200 403 200"),
    _post("nodes:token_revoke", "403 403 403 403 404 403 404", "index"),
    _get("groups:list", "403 403 403 403 200 403 200"),
    _post("groups:list", _ADMIN, group="ml", role="finance"),
    _post("groups:remove", _ADMIN, "group_rule"),
    _get("simulator:list", "403 403 403 403 200 403 200"),
    _post("simulator:list", _OPERATES, pool="default", hours="24", order="fifo"),
    _get("simulator:detail", "404 404 404 404 200 404 200", "scenario"),
    _post("simulator:apply", "404 404 404 404 302 404 302", "scenario"),
    _post("simulator:forget", "404 404 404 404 302 404 302", "scenario"),
    _post("bookings:window", "403 403 403 403 200 403 200"),
    _post("bookings:window_cancel", "403 403 403 403 404 403 404", "index"),
    _get("pools:detail", _ALL, "pool"),
    _post("pools:policy", _OPERATES, "pool", name="las"),
    _get("pools:idle", _ALL, "pool"),
    _post("pools:idle", _OPERATES, "pool", **_IDLE),
    _get("teams:idle", "200 200 200 200 404 404 200", "team", "project"),
    _post("teams:idle", "403 403 302 403 404 404 302", "team", "project", **_IDLE),
    _post("jobs:keep", "302 403 302 403 403 404 302", "running", hours="1", reason="x"),
    _get("nodes:several", "403 403 403 403 200 403 200", node="n1"),
    _post("nodes:several", _OPERATES, node="n1", action="drain", reason="fans"),
    _get("nodes:detail", _ALL, "node"),
    _get("nodes:series", _ALL, "node"),
    _post("nodes:drain", _OPERATES, "node", reason="fans"),
    _post("nodes:quarantine", _OPERATES, "node", reason="rattles"),
    _post("nodes:resume", _OPERATES, "node"),
    _post("nodes:device", _OPERATES, "node", "index", action="quarantine", reason="fan"),
    _post("nodes:retire", _OPERATES, "node"),
    _post("nodes:off", _OPERATES, "node", reason="unplugged"),
    _post("nodes:renew_token", _OPERATES, "node"),
    _post("nodes:place", _OPERATES, "node"),
    _get("health", "403 403 403 403 200 403 200"),
    _get("approval_rules", "403 403 403 403 200 403 200"),
    _post(
        "approval_rules", "403 403 403 403 403 403 302", kind="borrow", sla_hours="5", most_days="9"
    ),
    _post("approval_rule_end", "403 403 403 403 403 403 409", kind="money"),
    _get("users:list", "404 404 404 404 404 404 200"),
    _get("users:detail", "404 404 404 404 404 404 200", "somebody"),
    _post("users:out", "404 404 404 404 404 404 302", "somebody", jobs="go", reason="left"),
    _post(
        "users:address",
        "404 404 404 404 404 404 302",
        "somebody",
        email="x@new.example",
        how="now",
        reason="x",
    ),
    _post("users:address_again", "404 404 404 404 404 404 302", "somebody"),
    _post("users:address_cancel", "404 404 404 404 404 404 302", "somebody"),
    _post("users:in", "404 404 404 404 404 404 302", "somebody", reason="back"),
    _get("webhooks:list", "404 404 404 404 404 404 200"),
    _post("webhooks:list", "404 404 404 404 404 404 422"),
    _post("webhooks:act", "404 404 404 404 404 404 302", "webhook", "pause"),
    _post("webhooks:again", "404 404 404 404 404 404 302", "delivery"),
)


def hooked(root: User) -> dict[str, Any]:
    """An address that is told, and something on its way there."""
    now = timezone.now()
    hook, _ = add_webhook(actor=root, url="https://chat.example.org/hook")
    way = Delivery.objects.create(
        webhook=hook, key="x", kind="budget", body="{}", created_at=now, not_before=now
    )
    return {"webhook": hook.pk, "delivery": way.pk, "pause": "pause"}
