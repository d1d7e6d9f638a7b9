"""Booking nodes ahead."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django import forms
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.forms.spans import utc_of

_LOCAL = "%Y-%m-%dT%H:%M"


class MomentField(forms.DateTimeField):
    """A day and a time as the browser's own picker writes it, in the zone of the page; in UTC once
    it is read. The form has to name the zone beside it."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"}, format=_LOCAL)

    def to_python(self, value: Any) -> datetime | None:
        """Refuses an hour that the zone's clocks leave out or have twice."""
        with timezone.override(UTC):
            read: datetime | None = super().to_python(value)
        if read is None:
            return None
        try:
            return utc_of(read if _has_zone(value) else read.replace(tzinfo=None))
        except OverflowError:
            raise forms.ValidationError(self.error_messages["invalid"], "invalid") from None
        except ValueError as error:
            raise forms.ValidationError(f"{error}.", "clocks_change") from None


def _has_zone(value: object) -> bool:
    """Of what a DateTimeField could read."""
    try:
        typed = parse_datetime(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return False
    return isinstance(typed, datetime) and typed.tzinfo is not None


class BookingForm(forms.Form):
    """For whom, how much of which pool, and from when until when."""

    owner = forms.ChoiceField(label="For", choices=())
    pool = forms.ChoiceField(label="Pool", choices=())
    nodes = forms.IntegerField(label="Nodes", min_value=1, max_value=4096, initial=1)
    gpus_per_node = forms.IntegerField(
        label="GPUs per node",
        min_value=1,
        max_value=64,
        required=False,
        help_text="Empty books whole nodes.",
    )
    gpu_model = forms.CharField(
        label="GPU model",
        max_length=96,
        required=False,
        help_text="In full, such as NVIDIA H100 80GB HBM3. Empty: any.",
    )
    from_at = MomentField(label="From")
    until_at = MomentField(label="Until")
    name = forms.CharField(
        label="Short name",
        max_length=63,
        required=False,
        help_text="Jobs ask for the booking by this name, or by its number.",
    )
    note = forms.CharField(label="Note", max_length=200, required=False)

    def __init__(self, *args: Any, owners: Iterable[str], pools: Iterable[str], **more: Any):
        super().__init__(*args, **more)
        for field, names in (("owner", owners), ("pool", pools)):
            choice = cast(forms.ChoiceField, self.fields[field])
            choice.choices = [(name, name) for name in names]
        zone = timezone.get_current_timezone_name()
        self.fields["until_at"].help_text = f"Both in {zone}."

    def wanted(self) -> dict[str, Any]:
        """What was asked for, as the service takes it; owner and pool by name."""
        asked = dict(self.cleaned_data)
        return {**asked, "gpus_per_node": asked["gpus_per_node"] or 0}


class WindowForm(forms.Form):
    """Maintenance: of which nodes, from when until when, and why."""

    prefix = "window"
    pool = forms.ChoiceField(label="Pool", choices=())
    nodes = forms.CharField(
        label="Nodes",
        max_length=4000,
        required=False,
        help_text="Names with commas between; empty means all of the pool.",
    )
    from_at = MomentField(label="From")
    until_at = MomentField(label="Until")
    reason = forms.CharField(label="Why", max_length=200)
    over_bookings = forms.BooleanField(
        label="Even if bookings lose their nodes",
        required=False,
        help_text="Otherwise it is refused where a booking finds no other nodes.",
    )

    def __init__(self, *args: Any, pools: Iterable[str], **more: Any):
        super().__init__(*args, **more)
        choice = cast(forms.ChoiceField, self.fields["pool"])
        choice.choices = [(name, name) for name in pools]
        zone = timezone.get_current_timezone_name()
        self.fields["until_at"].help_text = f"Both in {zone}."

    def clean_nodes(self) -> list[str]:
        """Each name once."""
        names = [one.strip() for one in self.cleaned_data["nodes"].split(",")]
        return list(dict.fromkeys(name for name in names if name))


def next_hours(now: datetime) -> dict[str, datetime]:
    """The first values of a new booking: from the next full hour, for two."""
    begin = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    return {"from_at": begin, "until_at": begin + timedelta(hours=2)}
