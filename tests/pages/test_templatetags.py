"""What templates say: numbers with units, times with zones, names that cannot move the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django import forms
from django.template import engines
from django.test import RequestFactory

from portal.templatetags import measures, wording
from portal.templatetags.states import LOOKS
from scheduler.engine.policy import Order, PlacementRule
from scheduler.states import (
    AttemptState,
    DeviceHealth,
    Isolation,
    JobState,
    NodeState,
    Outcome,
    ReviewStep,
)

pytestmark = pytest.mark.once

NOW = datetime(2026, 11, 20, 14, 32, 8, tzinfo=UTC)


def rendered(source: str, **context: object) -> str:
    template = engines["django"].from_string(source)
    return template.render(context).strip()


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Decimal("1957.755"), "1,957.76 EUR"),
        (Decimal("0.005"), "0.01 EUR"),
        (Decimal("0.00499"), "0.005 EUR"),
        (Decimal("0.00034567"), "0.00035 EUR"),
        (Decimal(0), "0.00 EUR"),
        (Decimal("-12.5"), "−12.50 EUR"),
        (Decimal("-0.005"), "−0.01 EUR"),
        (Decimal("-0.0049"), "−0.0049 EUR"),
        (Decimal("-0.00000000012"), "−0.00000000012 EUR"),
        (Decimal("-0"), "0.00 EUR"),
        (-0.001, "−0.001 EUR"),
        ("12", "12.00 EUR"),
        (None, "–"),
        ("free", "–"),
        (Decimal("NaN"), "–"),
    ],
)
def test_money(amount: object, text: str) -> None:
    assert measures.money(amount, "EUR") == text


def test_money_takes_the_installations_currency_or_the_rows() -> None:
    assert rendered("{{ a|money }} {{ a|money:'CHF' }}", a=Decimal(2)) == "2.00 EUR 2.00 CHF"


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 MiB"),
        (512, "512 MiB"),
        (1536, "1.5 GiB"),
        (81920, "80 GiB"),
        (2 * 1024 * 1024, "2 TiB"),
        (None, "–"),
    ],
)
def test_mib(mib: object, text: str) -> None:
    assert measures.mib(mib) == text


def test_sizes_in_bytes() -> None:
    sizes = [measures.size_bytes(size) for size in (0, 812, 1024, 1258291, 3 * 1024**3)]
    assert sizes == ["0 B", "812 B", "1 KiB", "1.2 MiB", "3 GiB"]


def test_percent_and_shares() -> None:
    assert [measures.percent(p) for p in (0, 0.46, 9, 96.4, 99.97, 100, None)] == [
        *("0 %", "0.5 %", "9 %", "96 %", "99.9 %", "100 %", "–")
    ]
    assert rendered("{{ 5|share_of:7 }} {{ 1|share_of:0 }} {{ 9|share_of:8 }}") == "71 % 0 % 100 %"


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("Tesla V100-SXM2-32GB", "V100 32GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA", "NVIDIA"),
        ("Simulated H100 80GB", "H100 80GB (simulated)"),
        ("", "GPU"),
    ],
)
def test_device_short_name(model: str, short: str) -> None:
    assert measures.device_short_name(model) == short


def test_codes_have_words_of_their_own() -> None:
    rules = [wording.words(one) for one in (*Order, *PlacementRule)]
    steps = [wording.in_words(one, "step") for one in (*ReviewStep, "policy")]
    outcomes = [wording.in_words(one, "outcome") for one in Outcome]
    said = {*rules, *steps, *outcomes, *(wording.in_words(one, "isolation") for one in Isolation)}
    codes = (*Order, *PlacementRule, *ReviewStep, "policy", *Outcome, *Isolation)
    assert len(said) == len(codes) and not said & {*codes}
    assert wording.words("soft_closed") == "soft closed"
    assert rendered("{{ a|in_words:'isolation'|default:'not said' }}", a="") == "not said"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("policy=fifo", "who is next: oldest first"),
        ("policy:gpu-a=las", "who is next in gpu-a: least run first"),
        ("preempt=yes", "may stop others: yes"),
        ("placement:b=pack", "where jobs go in b: room for usual jobs"),
        ("nodes=12", "nodes: 12"),
        ("weight:vision=2", "weight of vision: 2"),
        ("maximum:vision@gpu-a=16", "maximum of vision in gpu-a: 16"),
        ("lose:3@3600", "node 3 is lost after 1 h"),
        ("drain:gpu-a/3@90", "node 3 of gpu-a is drained after 1 min 30 s"),
        ("anything else", "anything else"),
    ],
)
def test_changes_of_the_simulator(change: str, said: str) -> None:
    assert wording.change_words(change) == said


def test_policies_of_the_simulator() -> None:
    words = wording.policy_words("a: fair, stops others; b: las, pack")
    assert words == "a: smallest share first, stops others; b: least run first, room for usual jobs"
    assert wording.policy_words("fifo") == "oldest first"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (4096, "4,096"), ("0-3", "0-3")]
)
def test_thousands_are_told_apart(number: object, text: str) -> None:
    assert rendered("{{ number|count }}", number=number) == text


def test_gpu_count() -> None:
    source = '{% gpu_count "NVIDIA H100 80GB HBM3" 8 %}|{% gpu_count "" 2 %}'
    assert rendered(source) == "H100 80GB × 8|any GPU × 2"


def test_a_name_is_isolated_escaped_and_cannot_turn() -> None:
    html = rendered("{% name n %}", n="<b>evil\u202egnp.exe</b>\x00")
    assert html == '<bdi class="name">&lt;b&gt;evilgnp.exe&lt;/b&gt;</bdi>'
    assert rendered("{{ n|plain }}", n="a\u2066b\n") == "ab"
    assert rendered("{% name n %}", n="تدريب") == '<bdi class="name">تدريب</bdi>'


@pytest.mark.parametrize("n", ["W" * 41, "Z" + "\u0301\u0489" * 2])
def test_a_name_that_could_take_much_room_is_marked_and_its_title_is_the_whole(n) -> None:
    assert rendered("{% name n %}", n=n) == f'<bdi class="name long" title="{n}">{n}</bdi>'
    assert rendered("{% said n %}", n=n) == f'<bdi class="said">{n}</bdi>'


def test_a_title_stays_within_its_quotes() -> None:
    html = rendered("{% name n %}", n='"><img src=x onerror=alert(1)>' * 2)
    assert html.count("<") == 2 and html.count('"') == 4


@pytest.mark.parametrize("n", ["W" * 40, "Việt Nam", "กำลังเรียนรู้"])
def test_a_usual_name_wraps_as_words_do(n) -> None:
    assert rendered("{% name n %}", n=n) == f'<bdi class="name">{n}</bdi>'
    assert rendered("{% said n %}", n=n) == f'<bdi class="name">{n}</bdi>'


def test_times_say_their_zone_on_hover() -> None:
    html = rendered("{% ago at now %}", at=NOW - timedelta(minutes=3), now=NOW)
    assert html == (
        '<time datetime="2026-11-20T14:29:08Z" title="20 Nov 2026, 14:29:08 UTC" '
        'data-tick="ago">3 min ago</time>'
    )
    assert "9 h 12 min</time>" in rendered(
        "{% since at now %}", at=NOW - timedelta(hours=9, minutes=12), now=NOW
    )


def test_clock_adds_the_date_when_it_is_not_today() -> None:
    def shown(at: datetime) -> str:
        return rendered("{% clock at now %}", at=at, now=NOW).partition(">")[2].partition("<")[0]

    assert shown(NOW) == "14:32:08"
    assert shown(NOW - timedelta(days=2)) == "18 Nov 2026, 14:32"
    assert shown(NOW - timedelta(days=400)) == "16 Oct 2025, 14:32"


def test_both_ends_of_a_span_say_their_days_unless_they_are_of_today() -> None:
    def span(start: datetime, end: datetime) -> list[str]:
        text = "{% clock a now '%H:%M' beside=b %}|{% clock b now '%H:%M' beside=a %}"
        return [
            one.partition(">")[2].partition("<")[0]
            for one in rendered(text, a=start, b=end, now=NOW).split("|")
        ]

    hours = timedelta(hours=1)
    assert span(NOW - 2 * hours, NOW + 2 * hours) == ["12:32", "16:32"]
    assert span(NOW - 20 * hours, NOW) == ["19 Nov 2026, 18:32", "20 Nov 2026, 14:32"]
    assert span(NOW, NOW + 12 * hours) == ["20 Nov 2026, 14:32", "21 Nov 2026, 02:32"]


def test_no_time_is_a_dash() -> None:
    assert rendered("{% ago x %}{% since x %}{% clock x %}{% absolute x %}", x=None) == "––––"


def test_every_state_has_a_look_and_a_drawn_glyph() -> None:
    sprite = rendered('{% include "components/_sprite.html" %}')
    words = {str(s) for kind in (JobState, AttemptState, NodeState, DeviceHealth) for s in kind}
    words |= {"timed out", "preempted", "unreachable"}
    assert words <= set(LOOKS)
    for word, look in LOOKS.items():
        assert f'id="i-{look.glyph}"' in sprite, word


def test_badges_say_the_reason_where_it_is_more_precise() -> None:
    assert "timed out" in rendered('{% state_badge "failed" "time_limit" %}')
    assert "st-preempted" in rendered('{% state_badge "queued" "preempted" %}')
    assert "unreachable" in rendered('{% state_badge "running" "" True %}')
    odd = rendered("{% state_badge word %}", word="<odd>")
    assert "st-held" in odd
    assert "&lt;odd&gt;" in odd


class Ask(forms.Form):
    """One of each kind of widget."""

    name = forms.CharField(help_text="Lower case.")
    keep = forms.BooleanField(required=False)
    tier = forms.ChoiceField(widget=forms.RadioSelect, choices=[("n", "normal")])


def test_a_field_is_wired_for_screen_readers() -> None:
    html = rendered("{% field form.name %}", form=Ask({"name": "", "tier": "n"}))
    assert '<label for="id_name">Name</label>' in html
    assert 'aria-describedby="id_name_helptext id_name_error"' in html
    assert 'aria-invalid="true"' in html
    assert 'id="id_name_helptext"' in html
    assert 'id="id_name_error"' in html
    assert "This field is required." in html


def test_choices_are_a_group_with_a_legend() -> None:
    form = Ask({})
    assert "<legend" in rendered("{% field form.tier %}", form=form)
    check = rendered("{% field form.keep 'c3' %}", form=form)
    assert 'class="ck" for="id_keep"' in check
    assert "field c3" in check


def test_a_bar_never_leaves_its_box() -> None:
    html = rendered('{% bar "9 of 8" 8 used=6 com=5 bad=-1 %}')
    assert 'class="b-used" x="0.00%" width="75.00%"' in html
    assert 'class="b-com" x="75.00%" width="25.00%"' in html
    assert 'class="b-bad" x="100.00%" width="0.00%"' in html
    assert 'width="0.00%"' in rendered('{% bar "none" 0 used=6 %}')


def test_the_pager_keeps_the_filter() -> None:
    source = '{% include "components/_pager.html" with next_cursor="n/1" %}'
    request = RequestFactory().get("/jobs/?state=running&cursor=old")
    html = engines["django"].from_string(source).render({}, request)
    assert 'href="?state=running&amp;cursor=n%2F1"' in html
    assert "Previous" not in html
