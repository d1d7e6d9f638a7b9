"""The language of filters: what it prints it reads, what is wrong it names, and it finds."""

from __future__ import annotations

import pytest
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.forms.grammar.jobs import EXAMPLES, parse_job_query
from portal.forms.grammar.terms import MAX_CHARS, Filter, FilterError, Term, parse, write
from scheduler.models import Job
from tests import scenes
from tests.scenes import NOON

# Anything one may type but control characters.
TEXT = st.text(st.characters(blacklist_categories=("Cs",), min_codepoint=32), max_size=12)
KEY = st.from_regex(r"[a-z][a-z_]{0,7}", fullmatch=True)
TERM = st.builds(Term, KEY, TEXT) | st.builds(Term, st.just(""), TEXT.filter(bool))


@given(st.lists(TERM, max_size=8).map(tuple).map(Filter))
def test_what_is_written_is_read_again(found):
    assert parse(write(found)) == found


@settings(max_examples=200)
@given(st.text(max_size=80))
def test_whatever_is_typed_is_read_or_refused_in_words(text):
    query = parse_job_query(text, now=NOON)
    assert all(len(problem) > 10 for problem in query.problems)
    try:
        found = parse(text)
    except FilterError:
        assert query.problems
    else:
        assert parse(write(found)) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour:red", "colour: is not a term here"),
        ('label:"open', "A quote is open"),
        ("gpus:many", "gpus: 'many' is no number"),
        ("gpus:>=", "gpus: '>='"),
        ("label:=x", "label: '=x' is not a label"),
        ("ended:soon", "ended: 'soon' is not an age"),
        ("x" * (MAX_CHARS + 1), "longer than"),
        (" ".join("abcdefghijklmnopqrstuvwxyz"), "more than 24 words"),
    ],
)
def test_errors_name_the_term(text, words):
    query = parse_job_query(text, now=NOON)
    assert words in query.problems[0]
    assert query.wanted.states == ()


def test_every_example_is_right_and_chips_take_one_away():
    text = " ".join(f"{key}:{value}" for key, value in EXAMPLES.items())
    query = parse_job_query(f'{text} "state:held"', now=NOON)
    assert not query.problems
    assert query.wanted.text == "state:held"
    for chip in query.chips:
        assert f"{chip.key}:" not in parse_job_query(chip.without, now=NOON).text.split('"')[0]
    assert query.wanted.gpus == (8, 1_000_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [("state:held state:queued", "join the values with a comma"), ("gpus:1 gpus:2", "keep one")],
)
def test_a_term_that_is_given_twice_says_what_helps(text, words):
    (problem,) = parse_job_query(text, now=NOON).problems
    assert problem.endswith(f"is given twice; {words}.")


@pytest.mark.django_db
def test_it_finds_the_same_on_page_and_over_the_api(client, alice, root, project):
    scenes.build_cluster(root, nodes=2, gpus=4)
    now = timezone.now()
    labels = {"exp": "llm3", "k": "a b", "2026": "x", "7": "y"}
    small = scenes.submit(alice, project, name="small", labels=labels, now=now)
    large = scenes.submit(alice, project, name="large one", gpus_per_node=4, nodes=2, now=now)
    Job.objects.filter(pk=large.pk).update(gpu_models=["NVIDIA H100 80GB", "Apex 9"])
    client.force_login(alice)
    asked = {
        "gpus:>=8": {large.pk},
        "gpus:<8": {small.pk},
        "gpus:1..4": {small.pk},
        "label:exp=llm3": {small.pk},
        'label:"k=a b"': {small.pk},
        "label:exp": {small.pk},
        "label:2026": {small.pk},
        "label:2026=x": {small.pk},
        "label:7=y": {small.pk},
        "label:7=x": set(),
        "label:exp=other": set(),
        "flavor:nothing": set(),
        "flavor:apex": {large.pk},
        '"large one"': {large.pk},
        "created:7d user:me": {small.pk, large.pk},
    }
    for text, wanted in asked.items():
        rows = client.get("/jobs/", {"q": text}).context["rows"]
        assert {row.job.pk for row in rows} == wanted, text
        found = client.get("/api/v1/jobs/", {"q": text}).json()
        assert {item["id"] for item in found["items"]} == wanted, text
    refused = client.get("/api/v1/jobs/", {"q": "colour:red"})
    assert refused.status_code == 400
    assert "colour:" in refused.json()["errors"][0]["message"]


@pytest.mark.django_db
def test_a_condition_that_goes_leaves_the_list_as_it_looks(client, alice, root, project):
    scenes.build_cluster(root)
    scenes.submit(alice, project)
    client.force_login(alice)
    looks = {"sort": "submitted", "per": "100", "columns": "gpus"}
    text = client.get("/jobs/", {"q": "user:me", "state": "queued", **looks}).content.decode()
    kept = "&amp;sort=submitted&amp;per=100&amp;columns=gpus"
    assert f'<a href="/jobs/?q=user%3Ame{kept}" aria-label="Remove state queued"' in text
    assert f'<a href="/jobs/?q=state%3Alive{kept}"' in text
    for name, value in looks.items():
        assert f'<input type="hidden" name="{name}" value="{value}">' in text
    text = client.get("/jobs/").content.decode()
    assert '<a href="/jobs/?q=state%3Alive"' in text
