"""What people fill in to have a report sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms

from accounts.models import User
from accounts.selectors import people_to_name
from scheduler.selectors.books.frame import Report
from scheduler.services.mailing.schedules import FORMATS, MOST_RECIPIENTS

_RHYTHMS = (("monthly", "every month, once it is closed"), ("weekly", "every Monday"))


class ScheduleForm(forms.Form):
    """A report, how often, in which format, to whom."""

    slug = forms.ChoiceField(label="Report")
    rhythm = forms.ChoiceField(label="How often", choices=_RHYTHMS)
    file_format = forms.ChoiceField(label="File", choices=[(f, f.upper()) for f in FORMATS])
    team = forms.CharField(label="Team", required=False, max_length=63)
    recipients = forms.CharField(
        label="To", max_length=4096, help_text="User names, separated by commas."
    )

    def offer(self, viewer: User, reports: Sequence[Report]) -> ScheduleForm:
        """The reports to choose from, and who may be named."""
        self.people = people_to_name(viewer)
        field: Any = self.fields["slug"]
        field.choices = [(report.slug, report.title) for report in reports]
        return self

    def clean_recipients(self) -> list[User]:
        """The people named; one that is none is said by name."""
        names = [name.strip() for name in self.cleaned_data["recipients"].split(",")]
        names = list(dict.fromkeys(name for name in names if name))
        if len(names) > MOST_RECIPIENTS:
            raise forms.ValidationError(f"Name at most {MOST_RECIPIENTS} people.")
        found = {one.username: one for one in self.people.filter(username__in=names)}
        if missing := [name for name in names if name not in found]:
            words = f"Nobody whom you may name is called {', '.join(missing)[:200]}."
            raise forms.ValidationError(words)
        return [found[name] for name in names]
