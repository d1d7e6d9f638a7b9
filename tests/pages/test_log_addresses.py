"""What the address of a log says, on each page that shows one."""

from __future__ import annotations

import pytest
from django.urls import reverse

from tests.pages.yard import build_yard

pytestmark = pytest.mark.django_db


@pytest.fixture
def yard(root, alice, project):
    return build_yard(root, alice, project)


@pytest.mark.parametrize("name", ["jobs:logs", "jobs:detail"])
def test_how_a_log_looks_is_known_wherever_one_is_shown(client, alice, finance, yard, name):
    """The script writes it into the address of either page."""
    client.force_login(alice)
    url = reverse(name, args=[yard.running.pk])
    ask = {"ts": "utc", "wrap": "1", "size": "large", "q": "x", "mode": "regex"}
    assert "not used" not in client.get(url, ask).content.decode()
    odd = client.get(url, {**ask, "ts": "zz"}).content.decode()
    assert "ts: &#x27;zz&#x27; is not known here and not used" in odd
    client.force_login(finance)
    if name == "jobs:detail":
        assert "<code>ts</code>" in client.get(url, ask).content.decode(), "no log, no times"


@pytest.mark.parametrize("name", ["jobs:logs", "jobs:detail"])
def test_a_log_says_whose_it_is_for_links_to_its_lines(client, alice, yard, name):
    client.force_login(alice)
    page = client.get(reverse(name, args=[yard.running.pk])).content.decode()
    path = reverse("jobs:logs", args=[yard.running.pk])
    assert f'data-path="{path}" data-attempt="1" data-rank="0"' in page
