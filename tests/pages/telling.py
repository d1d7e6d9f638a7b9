"""Rows of the matrix for where and when people are told, a mail address and a channel of a chat."""

from __future__ import annotations

from accounts.models import User
from scheduler.models import Webhook
from scheduler.services.inbox import add_channel
from tests.addresses import asked
from tests.pages.rows import Row, get, post

#             alice bob lead fin  op carol root
_ALL = "       200 200 200 200 200 200 200"
_WRONG = "     422 422 422 422 422 422 422"
_SELF = "      302 302 302 302 302 302 302"
_SEES = "      302 302 302 302 302 404 302"
_OWN = "       200 404 404 404 404 404 404"
_CHANGES = "   302 404 404 404 404 404 404"

ROWS: tuple[Row, ...] = (
    get("notifications:list", _ALL),
    post("notifications:read", _SELF),
    post("notifications:mute", _SELF, subject="job:1", again="yes"),
    get("notification_settings", _ALL),
    post("notification_settings", _SELF),
    post("jobs:watch", _SEES, "queued"),
    post("sets:watch", _SEES, "job_set"),
    get("notification_hours", _ALL),
    post("notification_hours", _SELF, mail="daily", zone="UTC"),
    get("channels:list", _ALL),
    post("channels:list", _WRONG),
    get("channels:detail", _OWN, "channel"),
    post("channels:detail", _CHANGES, "channel", name="my room"),
    post("channels:act", _CHANGES, "channel", "pause"),
    post("address_ask", _SELF, email="x@new.example"),
    post("address_again", _SELF),
    post("address_cancel", _SELF),
    get("address_confirm", _ALL, "address_link"),
    get("address_undo", _ALL, "address_undo"),
)


def channel_of(person: User) -> Webhook:
    """The person's own; nobody listens where it leads."""
    return add_channel(actor=person, url="http://127.0.0.1:9/hook", dialect="slack")


def moving_of(person: User) -> dict[str, str]:
    """The secrets of letters about an address that is to change."""
    link, undo = asked(person, "moved@example.org")
    return {"address_link": link, "address_undo": undo}
