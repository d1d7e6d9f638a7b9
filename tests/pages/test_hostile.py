"""Whatever people call things, every page shows it as text."""

from __future__ import annotations

from contextlib import suppress
from html.parser import HTMLParser

import pytest
from django.apps import apps
from django.db import DatabaseError, models, transaction

from accounts.errors import Invalid
from scheduler.models import Job
from scheduler.services.nodes import create_pool, enrol_node
from tests import scenes
from tests.pages.test_budgets import PAGES, WHO
from tests.pages.test_matrix import address, people, things

__all__ = ["people", "things"]
pytestmark = [pytest.mark.django_db, pytest.mark.once]

# Each says "alert(1)", by which it is found again on a page.
HOSTILE = {
    "markup": "\u202e<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{% debug %}",
    "link": 'javascript:alert(1)//<a href="javascript:alert(1)">[x](data:text/html,alert(1))',
    "drawing": "<svg onload=alert(1)><style>*{display:none}</style></main></body></html>",
    "marks": "alert(1)Z" + "\u0301\u0336\u0489" * 60,
    "family": "alert(1)" + "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466" * 12,
    "word": "alert(1)" + "W" * 240,
    "lines": "alert(1)\r\nSet-Cookie: a=b\r\n\r\n<script>alert(1)</script>",
    "words": "alert(1)' OR 1=1; --%s{0}$(id)`id`;rm -rf ../../etc/passwd\\\\host\\share",
}
# What people write themselves; other columns are words of ours, paths and numbers, and these are
# called by a name that stands in addresses.
ADDRESSES = ("Pool", "Node", "Period")
WRITTEN = {"name", "text", "reason", "note", "description", "subject",
           "justification", "comment", "title", "message", "body", "display_name"}  # fmt: skip


def rename_everything(hostile: str) -> set[str]:
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
                if model._base_manager.update(**{field.name: hostile[: field.max_length]}):
                    renamed.add(f"{model.__name__}.{field.name}")
    # Keys of labels are words; a value has no controls.
    labels = {"purpose": "".join(one for one in hostile if one.isprintable())[:60]}
    for job in Job.objects.all():
        Job.objects.filter(pk=job.pk).update(spec={**job.spec, "labels": labels})
    return renamed


class Reader(HTMLParser):
    """What a page could do by itself, and whether it is whole."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.ends: list[str] = []
        self.feed(page)
        if "<html" in page and self.ends[-2:] != ["body", "html"]:
            self.faults.append(f"it ends with {self.ends[-2:]}")
        if self.ends.count("html") > 1 or self.ends.count("main") > 1:
            self.faults.append("it ends twice")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in ("iframe", "object", "embed", "base", "style"):
            self.faults.append(tag)
        if tag == "script" and not given.get("src") and given.get("type") != "application/json":
            self.faults.append("a script with a body")
        for name, value in given.items():
            is_address = name in ("href", "src", "action", "formaction", "hx-get", "hx-post")
            first = value.strip().lower()
            if is_address and first.startswith(("javascript:", "data:", "//", "vbscript:")):
                self.faults.append(f"{name}={value[:40]}")
            if name.startswith("on") or name == "style" or (name == "src" and value == "x"):
                self.faults.append(f"{name}={value[:40]}")

    def handle_endtag(self, tag: str) -> None:
        self.ends.append(tag)


@pytest.mark.parametrize("kind", HOSTILE)
def test_names_labels_and_comments_are_text_on_every_page(client, people, things, kind):
    assert {"Job.name", "Team.name", "User.display_name"} <= rename_everything(HOSTILE[kind])
    wrong, shown = [], 0
    for row in PAGES:
        who = next((one for one in WHO if row.statuses[one] == 200), None)
        if who is None:
            continue
        client.force_login(people[who])
        page = client.get(address(row, things), row.data)
        text = page.content.decode("utf-8", "replace")
        faults = Reader(text).faults
        if page.status_code >= 500 or "Set-Cookie" in str(page.headers) or faults:
            wrong.append((row.route, who, page.status_code, faults))
        shown += "alert(1)" in text
    assert wrong == []
    # Otherwise nothing was looked at.
    assert shown > len(PAGES) / 3


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_stands_in_addresses_cannot_be_called_so(root, kind):
    with pytest.raises(Invalid):
        create_pool(actor=root, name=HOSTILE[kind])
    with pytest.raises(Invalid) as refused:
        enrol_node(request=scenes.enrol_request("never-looked-at", HOSTILE[kind], 1))
    assert refused.value.field == "name"
