"""Keys alone: what has the focus is seen and not hidden, and nobody touches a mouse."""

from __future__ import annotations

from playwright.sync_api import Locator, Page

_NO_MOUSE = "addEventListener('pointerdown', () => console.error('a mouse was used'), true)"
_SETTLES_MS = 500
_LIMIT = 120
# WCAG 2.2: focus visible (2.4.7) and not obscured (2.4.11). A ring may be drawn by a label or a
# group around the control; some part of the control itself must be what is on top there.
_SEEN = """(wanted) => {
  const at = document.activeElement;
  if (!at || at === document.body) return {is_there: false, fault: ""};
  const name = `${at.tagName.toLowerCase()}#${at.id} ${at.textContent.trim().slice(0, 30)}`;
  const is_there = at === wanted;
  const rings = [at, at.parentElement, at.closest("label")].filter(Boolean).map(getComputedStyle);
  const has_ring = rings.some((s) => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1
    || s.boxShadow !== "none");
  if (!has_ring) return {is_there, fault: `${name}: no ring`};
  const spots = [...at.getClientRects()].flatMap((box) => {
    const [top, end] = [Math.max(0, box.top), Math.min(innerHeight, box.bottom)];
    return [0.25, 0.5, 0.75].map((part) => [box.left + box.width / 2, top + (end - top) * part]);
  });
  const on_top = spots.some(([x, y]) => {
    const top = document.elementFromPoint(x, y);
    return top && (at.contains(top) || top.contains(at) && top !== document.documentElement
      || at.labels && [...at.labels].some((label) => label.contains(top)));
  });
  return {is_there, fault: on_top ? "" : `${name}: hidden`};
}"""


def by_keys(page: Page) -> Page:
    """From its next address on the page complains about every press of a mouse."""
    page.add_init_script(_NO_MOUSE)
    return page


def tab_to(target: Locator) -> None:
    """Press Tab until this has the focus; whatever has it on the way must be seen."""
    page = target.page
    for _ in range(_LIMIT):
        seen = target.evaluate(f"(wanted) => ({_SEEN})(wanted)")
        if seen["fault"]:
            # What arrived in this very moment may have moved it.
            page.wait_for_timeout(_SETTLES_MS)
            seen = target.evaluate(f"(wanted) => ({_SEEN})(wanted)")
        assert not seen["fault"], f"{page.url} {seen['fault']}"
        if seen["is_there"]:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{target} is not reached by Tab")


def press(target: Locator, key: str = "Enter") -> None:
    """Go there by Tab, then press a key."""
    tab_to(target)
    target.page.keyboard.press(key)


def write(target: Locator, text: str) -> None:
    """Go there by Tab and type over what is in it."""
    press(target, "Control+a")
    target.page.keyboard.type(text)
