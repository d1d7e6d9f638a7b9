/* What pages do better with a script. Nothing needs it. */
(() => {
  "use strict";

  document.documentElement.classList.add("js");
  /* The next page says times in this zone. */
  document.cookie = `zone=${Intl.DateTimeFormat().resolvedOptions().timeZone};path=/;samesite=lax`;

  function durationText(seconds) {
    const whole = Math.max(0, Math.floor(seconds));
    if (whole < 60) return `${whole} s`;
    const minutes = Math.floor(whole / 60);
    if (minutes < 10 && whole % 60) return `${minutes} min ${whole % 60} s`;
    if (minutes < 60) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
    return `${Math.floor(hours / 24)} d${hours % 24 ? ` ${hours % 24} h` : ""}`;
  }

  function tick() {
    if (document.hidden) return;
    for (const time of document.querySelectorAll("time[data-tick]")) {
      const age = durationText((Date.now() - Date.parse(time.dateTime)) / 1000);
      const text = time.dataset.tick === "ago" ? `${age} ago` : age;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function toast(text) {
    const note = document.createElement("div");
    note.className = "toast";
    note.textContent = text;
    document.getElementById("toasts").append(note);
    expire(note);
  }

  function expire(note) {
    note.dataset.toast = "shown";
    setTimeout(() => {
      if (note.matches(":hover, :focus-within")) expire(note);
      else note.remove();
    }, 6000);
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast("The browser did not allow copying; select the text instead.");
    }
  }

  function closeMenus(except) {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (menu !== except) menu.open = false;
    }
  }

  /* What scrolls must be reachable with the keyboard. */
  function openScrollers() {
    for (const box of document.querySelectorAll("pre, .tw")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    }
  }

  /* The GPU map is one stop of the tab key; arrows lead on within it. */
  const nodesOf = (box) => [...box.querySelectorAll(".rack [aria-label]")];

  function rove() {
    const all = nodesOf(document);
    const at = Math.max(0, all.indexOf(document.activeElement));
    all.forEach((node, number) => { node.tabIndex = number === at ? 0 : -1; });
  }

  document.addEventListener("keydown", (event) => {
    const all = nodesOf(document);
    const at = all.indexOf(event.target);
    if (at < 0) return;
    const rack = event.target.closest("figure");
    const beside = { ArrowLeft: rack.previousElementSibling, ArrowRight: rack.nextElementSibling }[event.key];
    const to = beside
      ? nodesOf(beside)[nodesOf(rack).indexOf(event.target)] ?? nodesOf(beside).at(-1)
      : all[at + { ArrowUp: -1, ArrowDown: 1 }[event.key]];
    if (!to) return;
    event.preventDefault();
    to.focus();
    rove();
  });

  document.addEventListener("click", (event) => {
    const copied = event.target.closest("[data-copy]");
    if (copied) copy(copied.dataset.copy);
    closeMenus(event.target.closest("details.menu"));
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    const open = event.target.closest?.("details.menu[open]");
    closeMenus(null);
    open?.querySelector("summary")?.focus();
  });

  /* A second press must not send it again. */
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || form.target || event.defaultPrevented) return;
    if (form.dataset.sent) return event.preventDefault();
    form.dataset.sent = "yes";
    event.submitter?.setAttribute("aria-busy", "true");
    setTimeout(unlock, 15000);
  });

  /* Nor is anything asked beside a form that is on its way: leaving would break it off. */
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.closest("[data-sent]")) event.preventDefault();
  });

  /* Back, or stopped: the form may be sent again. */
  function unlock() {
    for (const form of document.querySelectorAll("[data-sent]")) delete form.dataset.sent;
    for (const button of document.querySelectorAll("[aria-busy=true]")) button.removeAttribute("aria-busy");
  }
  window.addEventListener("pageshow", unlock);

  /* What the composer's summary finds wrong stands at its field as well; that it is empty only once
     somebody has left it. */
  const composer = document.querySelector("#composer");

  function markFields() {
    if (!composer?.querySelector("#summary .todo")) return;
    for (const box of composer.querySelectorAll("[id$=_error]")) {
      const field = composer.elements[box.id.slice(0, -6)];
      const wrong = document.getElementById(`${box.id}_now`)?.innerHTML ?? "";
      if (!field || (wrong && !(box.firstElementChild || field.value || field.dataset.left))) continue;
      if (box.innerHTML !== wrong) box.innerHTML = wrong;
      field.setAttribute("aria-invalid", !!wrong);
    }
  }

  composer?.addEventListener("focusout", (event) => {
    event.target.dataset.left = "yes";
    markFields();
  });

  /* A picture of time begins at now. */
  function arrange() {
    openScrollers();
    rove();
    for (const box of document.querySelectorAll(".ganttbox")) {
      const now = box.querySelector(".now")?.getBoundingClientRect().left;
      if (now) box.begun ??= box.scrollLeft = now - box.getBoundingClientRect().left - 96;
    }
  }

  document.addEventListener("htmx:afterSettle", () => {
    markFields();
    arrange();
    for (const note of document.querySelectorAll("[data-toast='']")) expire(note);
  });

  window.trainyard = Object.assign(window.trainyard ?? {}, { copy, toast });
  document.querySelector(":not([data-example]) > #form-errors")?.focus();
  arrange();
  window.addEventListener("resize", openScrollers);
  setInterval(tick, 5000);
})();
