"""`/notifications/hours/`: when the caller is told."""

from __future__ import annotations

import re
from datetime import time
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.errors import Invalid
from accounts.models import User
from portal.api.operations import ApiView, body_of, operation
from portal.api.shapes import viewer_of
from scheduler.selectors.inbox import hours_for
from scheduler.services.inbox import set_hours
from scheduler.states import Hours, MailRhythm

_RHYTHMS = [str(one) for one in MailRhythm]
_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


@extend_schema_field({"type": "string", "pattern": _TIME})
class TimeOfDay(serializers.TimeField):
    """A time of day to the minute, `07:30`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(format="%H:%M", input_formats=["%H:%M"], **options)

    def to_internal_value(self, value: Any) -> time:
        """Raises ValidationError for all but five characters."""
        if not isinstance(value, str) or not re.fullmatch(_TIME, value):
            self.fail("invalid", format="hh:mm")
        found: time = super().to_internal_value(value)
        return found


class HoursShape(serializers.Serializer[Any]):
    """Times of day (`07:30`) are of `zone`. Mails come at once, or together; from `quiet_from` to
    `quiet_until` (null: never) mails and your own chats wait. `urgent` kinds wait for nothing."""

    mail = serializers.ChoiceField(_RHYTHMS)
    digest_at = TimeOfDay()
    zone = serializers.CharField()
    quiet_from = TimeOfDay(allow_null=True)
    quiet_until = TimeOfDay(allow_null=True)
    urgent = serializers.ListField(child=serializers.CharField())


class HoursBody(serializers.Serializer[Any]):
    """What is left out stays; both ends of the quiet null: never."""

    mail = serializers.ChoiceField(_RHYTHMS, required=False)
    digest_at = TimeOfDay(required=False)
    zone = serializers.CharField(max_length=64, required=False)
    quiet_from = TimeOfDay(required=False, allow_null=True)
    quiet_until = TimeOfDay(required=False, allow_null=True)
    urgent = serializers.ListField(
        child=serializers.CharField(max_length=32), required=False, max_length=100
    )


def _show(viewer: User) -> dict[str, Any]:
    hours = hours_for(viewer) or Hours()
    shown = {
        "mail": hours.mail,
        "digest_at": hours.digest_at,
        "zone": hours.zone,
        "quiet_from": hours.quiet_from,
        "quiet_until": hours.quiet_until,
        "urgent": sorted(hours.urgent),
    }
    return dict(HoursShape(shown).data)


class NewsHours(ApiView):
    """`/notifications/hours/`."""

    @operation(
        "notification_hours",
        "When you are told: quiet hours, mails together",
        scope="people:read",
        reply=HoursShape,
    )
    def get(self, request: Request) -> Response:
        return Response(_show(viewer_of(request)))

    @operation(
        "notification_hours_set",
        "Choose when you are told",
        scope="people:write",
        body=HoursBody,
        reply=HoursShape,
    )
    def post(self, request: Request) -> Response:
        sent, actor = body_of(request, HoursBody), viewer_of(request)
        ends = {name: sent.pop(name) for name in ("quiet_from", "quiet_until") if name in sent}
        quiet = None
        if ends:
            missing = [one for one in ("quiet_from", "quiet_until") if ends.get(one) is None]
            if len(missing) == 1:
                raise Invalid(
                    "Give both ends of the quiet hours, or null for both.", field=missing[0]
                )
            quiet = () if missing else (ends["quiet_from"], ends["quiet_until"])
        set_hours(actor=actor, quiet=quiet, **sent)
        return Response(_show(actor))
