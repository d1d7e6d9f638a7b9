"""The browser's side keeps its promises: nothing inline, no other host, readable colours."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders
from django.urls import reverse

from deploy import vendor_assets
from portal.styles import joined

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
OWN_CSS = sorted((ROOT / "static" / "css").glob("*.css"))
OWN_JS = sorted((ROOT / "static" / "js").rglob("*.js"))
TOKENS = (ROOT / "static" / "css" / "tokens.css").read_text(encoding="utf-8")

# Addresses of another host in a page would be fetched; a link that a person follows is text.
FETCHED = re.compile(
    r"""(?:src|href|action|url\()\s*=?\s*["']?(?:https?:)?//(?!www\.w3\.org)""", re.IGNORECASE
)
INLINE = {
    "a style attribute": re.compile(r"<[^>]*\sstyle\s*=", re.IGNORECASE),
    "a style element": re.compile(r"<style[\s>]", re.IGNORECASE),
    "an event attribute": re.compile(r"<[^>]*\son[a-z]+\s*=", re.IGNORECASE),
    "htmx code": re.compile(r"hx-on|hx-vals\s*=\s*['\"]js:|hx-trigger\s*=\s*['\"][^'\"]*\["),
    "a javascript address": re.compile(r"javascript:", re.IGNORECASE),
}
FONTS = {".woff", ".woff2", ".ttf", ".otf"}
SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.IGNORECASE | re.DOTALL)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_vendored_files_are_the_listed_ones() -> None:
    assert vendor_assets.differences() == []


@pytest.mark.parametrize("path", TEMPLATES, ids=name_of)
def test_templates_hold_nothing_inline(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for what, pattern in INLINE.items():
        assert not pattern.search(text), (
            f"{name_of(path)} holds {what}; the content policy forbids it"
        )
    for attributes, body in SCRIPT.findall(text):
        assert "src=" in attributes or "application/json" in attributes, "a script without src"
        assert not body.strip(), "a script with a body"


@pytest.mark.parametrize("path", [*TEMPLATES, *OWN_CSS, *OWN_JS], ids=name_of)
def test_no_other_host_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not FETCHED.search(text)
    assert "@import" not in text


@pytest.mark.parametrize("path", OWN_JS, ids=name_of)
def test_scripts_never_evaluate_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\beval\(|new Function|document\.write|setTimeout\(\s*['\"]", text)


@pytest.mark.parametrize("path", [*OWN_CSS, *OWN_JS], ids=name_of)
def test_styles_and_scripts_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300


# Of the plot's own style sheet; and some that stand on lines of pages which are being changed.
_NO_RULE = {
    "bulk",
    "health",
    "jobs",
    "no-inline-styles",
    "pbar",
    "place",
    "pools",
    "tick",
}


def test_templates_say_no_class_that_has_no_rule() -> None:
    """So that pages are made of the parts of the guide and not of wishes."""
    rules = "".join(path.read_text(encoding="utf-8") for path in OWN_CSS)
    known = set(re.findall(r"\.([A-Za-z][\w-]*)", rules)) | _NO_RULE
    for path in TEMPLATES:
        text = re.sub(r"{%.*?%}|{{.*?}}", "\0", path.read_text(encoding="utf-8"))
        said = {word for each in re.findall(r'\sclass="([^"]*)"', text) for word in each.split()}
        # A word beside a value of the page is only half of one.
        assert {word for word in said if "\0" not in word} <= known, name_of(path)


def gz_kib(paths: list[Path]) -> float:
    return len(gzip.compress(b"".join(path.read_bytes() for path in paths), 9)) / 1024


def scripts_of(template: str) -> list[Path]:
    text = (ROOT / "templates" / template).read_text(encoding="utf-8")
    return [ROOT / "static" / name for name in re.findall(r"{% static '([\w./-]+\.js)' %}", text)]


def test_budgets_of_a_page_without_charts() -> None:
    vendor = ROOT / "static" / "vendor"
    # No page loads all of ours at once; the shell in the browser is a page of its own.
    terminal = scripts_of("sessions/terminal.html")
    own = [path for path in OWN_JS if path not in terminal]
    assert gz_kib(own) <= 15
    assert gz_kib([vendor / "htmx.min.js", vendor / "idiomorph-ext.min.js", *own]) <= 45
    assert gz_kib(OWN_CSS) <= 25


def test_charts_come_late_and_fonts_never() -> None:
    """The library of charts keeps no page from showing; text has the system's own fonts."""
    assert gz_kib([ROOT / "static" / "vendor" / "plotly-basic.min.js"]) <= 450
    assert [name_of(path) for path in TEMPLATES if "plotly-basic" in path.read_text("utf-8")] == [
        "templates/components/_chart_head.html"
    ]
    for path in TEMPLATES:
        for attributes, _ in SCRIPT.findall(path.read_text(encoding="utf-8")):
            assert "src=" not in attributes or "defer" in attributes.split(), name_of(path)
    styles = "".join(path.read_text(encoding="utf-8") for path in OWN_CSS)
    assert "@font-face" not in styles
    fonts = [path for path in (ROOT / "static").rglob("*") if path.suffix in FONTS]
    assert fonts == []


def test_the_page_of_a_shell_loads_its_own_scripts_alone() -> None:
    terminal = scripts_of("sessions/terminal.html")
    assert terminal
    assert gz_kib(terminal) <= 15
    names = [str(path.relative_to(ROOT / "templates")) for path in TEMPLATES]
    others = {path for one in names for path in scripts_of(one) if "terminal.html" not in one}
    assert others.isdisjoint(terminal)
    # What no page loads would be counted for nothing.
    assert {*OWN_JS} == {path for path in (*others, *terminal) if "vendor" not in path.parts}


def test_every_style_sheet_is_in_the_one_that_pages_load(settings, tmp_path) -> None:
    assert sorted(joined.SHEETS) == [path.stem for path in OWN_CSS]
    settings.STATE_DIR = tmp_path
    found = finders.find("css/all.css")
    assert found and gz_kib([Path(found)]) <= 25
    text = Path(found).read_text(encoding="utf-8")
    assert all(path.read_text(encoding="utf-8") in text for path in OWN_CSS)
    # Names within are read from where the file is, so none may lead elsewhere.
    assert not re.search(r"url\((?!#)|@import", text)


def test_every_class_of_a_terminal_line_has_a_rule() -> None:
    rules = (ROOT / "static" / "css" / "log.css").read_text(encoding="utf-8")
    names = [f"t-{kind}{n}" for kind in ("fg", "bg") for n in range(16)]
    names += ["t-bold", "t-dim", "t-italic", "t-underline", "t-strike", "t-inverse", "t-cut"]
    assert [name for name in names if f".{name} {{" not in rules] == []


def test_every_icon_that_templates_name_is_drawn() -> None:
    sprite = (ROOT / "templates/components/_sprite.html").read_text(encoding="utf-8")
    drawn = set(re.findall(r'id="i-([\w-]+)"', sprite))
    for path in TEMPLATES:
        text = path.read_text(encoding="utf-8")
        named = set(re.findall(r'{% icon "([\w-]+)" %}', text))
        named |= set(re.findall(r'{% (?:rail|tab)_link "[\w:]+" "([\w-]+)"', text))
        assert named <= drawn, name_of(path)


def test_every_link_of_the_shell_is_a_page() -> None:
    for path in (ROOT / "templates/base.html", ROOT / "templates/components/_user_menu.html"):
        text = path.read_text(encoding="utf-8")
        for view_name in re.findall(r'{% (?:rail|tab)_link "([\w:]+)"', text):
            assert reverse(view_name)


def test_a_theme_changes_colours_alone() -> None:
    """So `browser/test_every_page.py` asks in one of them all that is not about colours."""
    for path in OWN_CSS:
        text = path.read_text(encoding="utf-8")
        bodies = re.findall(r"[^{}]*data-bs-theme[^{}]*\{([^{}]*)\}", text)
        assert all(re.fullmatch(r"\s*color-scheme: \w+;\s*", body) for body in bodies), path.name
        assert "prefers-color-scheme" not in text, path.name
        assert path.name == "tokens.css" or "light-dark(" not in text, path.name


def tokens(side: int) -> dict[str, str]:
    pairs = re.findall(r"--([\w-]+): light-dark\((#\w+), (#\w+)\);", TOKENS)
    return {pair[0]: pair[1 + side] for pair in pairs}


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(c * 2 for c in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def mixed(colour: str, ground: str, share: float) -> str:
    """CSS color-mix in sRGB."""

    def parts(text: str) -> list[int]:
        return [int(text[i : i + 2], 16) for i in (1, 3, 5)]

    both = zip(parts(colour), parts(ground), strict=True)
    return "#" + "".join(f"{round(a * share + b * (1 - share)):02x}" for a, b in both)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_text_is_readable(side: int) -> None:
    """WCAG 2.2: 4.5 for text, 3 for the outline of what can be used."""
    token = {
        k: f"#{v[1] * 2}{v[2] * 2}{v[3] * 2}" if len(v) == 4 else v for k, v in tokens(side).items()
    }
    states = ("held", "queued", "starting", "running", "stopping", "ok", "bad", "pre", "warn")
    pairs = [
        (text, ground) for text in ("text", "muted", "accent") for ground in ("bg", "s1", "s2")
    ]
    pairs += [("on-accent", "accent"), ("text", "accent-tint"), ("accent", "accent-tint")]
    pairs += [(state, f"{state}-t") for state in states] + [(state, "bg") for state in states]
    pairs += [("text", f"{state}-t") for state in states] + [("text", "mark"), ("text", "mark-now")]
    pairs += [(name, "s1") for name in token if name.startswith("ansi-")]
    low = {pair: contrast(token[pair[0]], token[pair[1]]) for pair in pairs}
    assert {pair: round(ratio, 2) for pair, ratio in low.items() if ratio < 4.5} == {}
    assert min(contrast(token["control"], token[g]) for g in ("bg", "s1", "s2")) >= 3


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_numbers_on_the_heat_ramp_are_readable_and_its_steps_differ(side: int) -> None:
    token = tokens(side)
    label = {f"h{n}": token["h-weak" if n < 4 else "h-strong"] for n in range(6)}
    low = {step: contrast(token[step], words) for step, words in label.items()}
    assert {step: round(ratio, 2) for step, ratio in low.items() if ratio < 4.5} == {}
    light = [luminance(token[f"h{n}"]) for n in range(6)]
    assert light == sorted(light, reverse=side == 0), "the busier, the farther from the ground"
    # What has no shade of its own, an idle square, is told from the ground by its outline.
    assert contrast(token["control"], token["bg"]) >= 3


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_series_of_charts_are_seen_on_what_they_are_drawn_on(side: int) -> None:
    """WCAG 2.2, 1.4.11: 3 for what has to be seen to understand a picture."""
    token = tokens(side)
    low = {
        (f"c{n}", ground): round(contrast(token[f"c{n}"], token[ground]), 2)
        for n in range(1, 9)
        for ground in ("bg", "s1")
        if contrast(token[f"c{n}"], token[ground]) < 3
    }
    assert low == {}


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_terminal_text_is_readable_whatever_is_behind_it(side: int) -> None:
    """Each of the sixteen colours, and the theme's own, on each of the sixteen backgrounds; and on
    what marks a line. Dim text is muted, or has its colour."""
    token = {"bg": "#ffffff"} | tokens(side)
    rules = (ROOT / "static" / "css" / "log.css").read_text(encoding="utf-8")
    inks = re.findall(r"\.t-fg\d+ { --fg: var\(--(ansi-[\w-]+)\); }", rules)
    tints = re.findall(
        r"\.t-bg\d+ { background: color-mix\(in srgb, var\(--(ansi-[\w-]+)\) (\d+)%, var\(--s1\)",
        rules,
    )
    [share] = re.findall(
        r'\[class\*="t-bg"\] { color: color-mix\(in srgb, var\(--fg, var\(--text\)\) (\d+)%', rules
    )
    assert (len(inks), len(tints)) == (16, 16) and "opacity" not in rules
    order = [rules.index(one) for one in (".t-dim {", '[class*="t-fg"] {', ".t-inverse {")]
    assert order == sorted(order), "dim gives way to a colour, and a colour to inverse"
    low = {
        (ink, name): contrast(
            mixed(token[ink], token["text"], int(share) / 100),
            mixed(token[name], token["s1"], int(tint) / 100),
        )
        for ink in (*inks, "text")
        for name, tint in tints
    }
    # The line one points at, those that are linked to, and the hit that is looked at.
    low |= {
        (ink, ground): contrast(token[ink], token[ground])
        for ink in (*inks, "text", "muted", "accent", "queued")
        for ground in ("s1", "s2", "accent-tint", "mark")
    }
    assert {pair: round(ratio, 2) for pair, ratio in low.items() if ratio < 4.5} == {}
