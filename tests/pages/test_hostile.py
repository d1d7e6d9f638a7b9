"""Whatever people call things, every page shows it as text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.apps import apps
from django.db import DatabaseError, models, transaction

from tests.pages.test_budgets import PAGES, WHO
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once]

HOSTILE = "\u202e<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{% debug %}"
# What people write themselves; other columns are words of ours, paths and numbers, and these two
# are called by a name that stands in addresses.
ADDRESSES = ("Pool", "Node")
WRITTEN = {"name", "text", "reason", "note", "description", "subject",
           "justification", "comment", "title", "message", "body", "display_name"}  # fmt: skip


def rename_everything() -> set[str]:
    """Tables of which nothing more may change keep their words; the columns that took these."""
    renamed = set()
    for model in (*apps.get_app_config("accounts").get_models(),
                  *apps.get_app_config("scheduler").get_models()):  # fmt: skip
        for field in model._meta.get_fields():
            if not isinstance(field, models.CharField | models.TextField):
                continue
            if field.name not in WRITTEN or field.choices or model.__name__ in ADDRESSES:
                continue
            with suppress(DatabaseError), transaction.atomic():
                if model._base_manager.update(**{field.name: HOSTILE[: field.max_length]}):
                    renamed.add(f"{model.__name__}.{field.name}")
    return renamed


def test_names_and_comments_are_text_on_every_page(client, people, things):
    assert {"Job.name", "Team.name", "User.display_name"} <= rename_everything()
    wrong = []
    for row in PAGES:
        who = next((one for one in WHO if row.statuses[one] == 200), None)
        if who is None:
            continue
        client.force_login(people[who])
        page = client.get(address(row, things), row.data)
        text = page.content.decode("utf-8", "replace")
        if page.status_code >= 500 or "<script>alert" in text or "<img src=x" in text:
            wrong.append((row.route, who, page.status_code))
    assert wrong == []
