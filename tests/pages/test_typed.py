"""Command lines on pages, and what pages say of the sample: one figure from one place."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.template import engines
from django.urls import reverse

from portal.pages.samples import DIGITS, sample_document
from portal.templatetags.sample import TAKES, sample_sentence
from portal.templatetags.typed import arguments


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("trainyard why 7", []),
        ("trainyard submit --template vision/ddp", ["--template vision/ddp"]),
        ("--template vision/ddp-on-one-node", ["--template", "vision/ddp-on-one-node"]),
        ("--name 'two words' x", ["--name 'two words'"]),
        ("--hold --gpus 1 -- run", ["--hold", "--gpus 1", "--"]),
        ("--gpus \\\n  8", ["--gpus"]),
        ("a='1 2'-b \\\n  -- python", ["a='1 2'-b", "--"]),
        ("echo 'it'\"'\"'s here'", ["'it'\"'\"'s here'"]),
        ("--env 'A=<b>&'", ["--env 'A=<b>&'"]),
        ("an 'open quote", []),
        ("", []),
    ],
)
def test_each_argument_is_a_piece_and_the_text_stays(line, pieces):
    shown = arguments(line)
    assert [unescape(one) for one in re.findall("<span>(.*?)</span>", shown, re.S)] == pieces
    assert unescape(re.sub("</?span>", "", shown)) == line


def test_a_template_says_it_so():
    page = engines["django"].from_string("{{ line|arguments }}").render({"line": "x --y '<i>'"})
    assert page == "x <span>--y &#x27;&lt;i&gt;&#x27;</span>"


@pytest.mark.django_db
def test_all_pages_say_the_same_of_the_samples_length(client, alice, root, project):
    words = sample_sentence()
    client.force_login(alice)
    for page in (reverse("home"), reverse("jobs:list") + "?q=", reverse("help")):
        assert words in client.get(page).content.decode(), page
    assert TAKES in client.get(reverse("jobs:submit") + "?from=sample").content.decode()
    client.force_login(root)
    assert words in client.get(reverse("welcome")).content.decode()


def test_it_takes_about_as_long_as_they_say():
    """Its epochs alone; Python and its start come to them."""
    script = DIGITS.read_text("utf-8")
    epochs, epoch_s = re.findall(r'"EPOCH(?:S|_S)", "([\d.]+)"', script)
    assert TAKES == "about ten seconds" and 7 <= int(epochs) * float(epoch_s) <= 11
    assert TAKES in sample_document("vision/digits", "default")["description"]
