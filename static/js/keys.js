/* The palette and the single keys. What they reach is a link, too. */
(() => {
  "use strict";

  const palette = document.getElementById("palette");
  const sheet = document.getElementById("shortcuts");
  const field = document.getElementById("palette-q");
  const PLACES = {
    j: "/jobs/", q: "/queue/", c: "/cluster/", n: "/cluster/nodes/", a: "/approvals/", r: "/requests/",
    b: "/bookings/", t: "/teams/", f: "/finance/", h: "/help/", i: "/notifications/", g: "/",
    s: "/settings/scope/",
  };
  const CHORD_MS = 1200;
  let goUntil = 0;
  let chosen = -1;
  let shown = null; // the text that these are the hits of
  let waits = false; // to open the first of what is still to come

  const hits = () => [...palette.querySelectorAll(".finds a")];

  function open() {
    if (palette.open) return;
    sheet.close();
    palette.showModal();
    field.select();
    window.htmx.trigger(field, "open");
  }

  /* Focus stays in the field; the chosen line is named to screen readers. */
  function choose(index) {
    const all = hits();
    chosen = all.length ? (index + all.length) % all.length : -1;
    all.forEach((hit, number) => hit.setAttribute("aria-selected", number === chosen));
    field.setAttribute("aria-activedescendant", all[chosen]?.id ?? "");
    all[chosen]?.scrollIntoView({ block: "nearest" });
  }

  function inPalette(event) {
    waits = event.key === "Enter" && field.value !== shown;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" && !waits && hits()[chosen]) hits()[chosen].click();
    else if (!waits) return;
    event.preventDefault();
  }

  function stepRow(by) {
    const rows = [...document.querySelectorAll("main tbody tr:has(a)")];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.querySelector("a").focus();
  }

  function single(event) {
    const { key } = event;
    if (Date.now() < goUntil) {
      goUntil = 0;
      if (PLACES[key]) location.assign(PLACES[key]);
      return PLACES[key];
    }
    if (key === "g") goUntil = Date.now() + CHORD_MS;
    else if (key === "?") sheet.showModal();
    else if (key === "c") location.assign("/jobs/new/");
    else if (key === "j" || key === "k") stepRow(key === "j" ? 1 : -1);
    else if ("x.".includes(key)) {
      /* It is tabbed into from who opened it. */
      document.querySelector(":popover-open")?.hidePopover();
      document.activeElement.closest("tr")?.querySelector(key === "x" ? "[type=checkbox]" : ".peek")?.click();
    } else {
      const marked = document.querySelector(`main [data-key="${CSS.escape(key)}"]`);
      if (!marked?.checkVisibility()) return false;
      marked.click();
    }
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
      return;
    }
    if (palette.open) {
      inPalette(event);
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.body.dataset.keys === "off" || event.target.matches?.("input, textarea, select") || document.querySelector("dialog[open]")) return;
    /* A log has keys of its own while it is in focus. */
    if (event.target.closest?.("[data-log-topic]")) return;
    if (single(event)) event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) {
      event.preventDefault();
      open();
    }
    if (event.target.matches("dialog")) event.target.close();
    /* A hit may lead to another part of this page. */
    if (event.target.closest(".finds a")) palette.close();
  });

  palette.addEventListener("htmx:afterSwap", (event) => {
    shown = event.detail.requestConfig.parameters.q;
    choose(0);
    if (waits && field.value === shown) hits()[0]?.click();
  });
})();
