/* One socket a page. Hints come in, and the regions that asked for their topic fetch themselves; without
   a socket the same happens by a timer, and the chip in the top bar says so. */
(() => {
  "use strict";

  const FIRST_WAIT_MS = 500;
  const LONGEST_WAIT_MS = 30000;
  const FAILURES_BEFORE_POLLING = 3;
  const HIDDEN_GRACE_MS = 30000;
  const COALESCE_MS = 250;
  const POLL_MS = 5000;
  const MINUTE_MS = 60000;
  const LOOK_MS = 1000;
  const STEADY_MS = 10000;
  const MOST_TOPICS = 50;
  const SIGNED_OUT = 4401;
  const FORBIDDEN = 4403;

  const listeners = new Map(); // topic → what `watch` was given
  const due = new Set(); // regions to refresh at the end of the present COALESCE_MS
  const followed = new Map(); // id of a region → when it was last due
  const failed = new Map(); // id of a region → how often in a row it could not be fetched
  let watched = new Set();
  let socket = null;
  let failures = 0;
  let upSince = Infinity; // what closes at once was not up
  let timer = 0;
  let hiddenTimer = 0;
  let polling = 0;
  let refused = false;
  let ended = false;

  const opened = Date.now();
  let freshAt = new Date(); // the page, or the last region that came
  const { updates } = document.body.dataset;
  const isLive = updates === "live";
  const chip = document.getElementById("live-chip");

  const regions = () => [...document.querySelectorAll("[data-topic][hx-get]")];
  const topicsOf = (region) => region.dataset.topic.split(/\s+/).filter(Boolean);
  const wanted = () => [...new Set([...regions().flatMap(topicsOf), ...listeners.keys()])];

  function show(state) {
    /* Where only the bell is live there is nothing to call live. */
    const isQuiet = !listeners.size && !document.querySelector("[data-points-url]") && regions().every((region) => region.dataset.calm !== undefined);
    chip.hidden = isQuiet && (state === "live" || (state === "paused" && !isLive));
    chip.classList.toggle("paused", state !== "live");
    const text = {
      live: "Live",
      paused: `${{ minute: "Every minute", manual: "Updates off" }[updates] ?? "Live paused"} — refreshed ${freshAt.toISOString().slice(11, 19)} UTC`,
      ended: "Signed out — reload to go on",
    }[state];
    if (chip.textContent !== text) chip.textContent = text;
  }

  /* What the reader is busy with is never swapped under the hand. */
  function isBusy(region) {
    const focus = document.activeElement;
    if (region.contains(focus) && focus.matches("input, textarea, select")) return true;
    if (region.querySelector("details.menu[open], dialog[open], [data-sent]")) return true;
    const selection = getSelection();
    if (!selection.isCollapsed && selection.containsNode(region, true)) return true;
    return [...region.querySelectorAll("input, textarea, select")].some(isChanged);
  }

  function isChanged(field) {
    if (field.type === "hidden" || field.disabled || field.closest("[data-log]")) return false;
    if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
    if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
    return field.selectedIndex !== 0 && [...field.options].some((option) => option.selected !== option.defaultSelected);
  }

  /* The mark floats over the region's corner, so that nothing jumps; the swap takes it away. */
  const markOf = (region) => document.querySelector(`[data-changed="${CSS.escape(region.id)}"]`);

  function markChanged(region) {
    if (markOf(region)) return;
    const mark = document.createElement("p");
    mark.className = "changed";
    mark.dataset.changed = region.id;
    mark.innerHTML = '<button class="lnk" type="button">changed — refresh</button>';
    mark.firstChild.addEventListener("click", () => refresh(region, true));
    const home = region.closest("table")?.parentElement ?? region;
    home.classList.add("has-changed");
    home.append(mark);
  }

  function refresh(region, force) {
    if (!region.isConnected) return;
    if (!force && isBusy(region)) return markChanged(region);
    markOf(region)?.remove();
    window.htmx.trigger(region, "live", { force });
  }

  function refreshSoon(region) {
    if (!due.size) {
      setTimeout(() => {
        const now = [...due];
        due.clear();
        for (const each of now) refresh(each, false);
      }, COALESCE_MS);
    }
    due.add(region);
  }

  function refreshAll() {
    for (const region of regions()) refreshSoon(region);
    for (const each of listeners.values()) each.onResync();
  }

  function onMessage(event) {
    const frame = JSON.parse(event.data);
    listeners.get(frame.topic)?.onFrame(frame);
    for (const region of regions()) {
      /* A calm region is fresh when the page is: it need not ask again when the socket is up. */
      if (frame.kind === "watching" && region.dataset.calm !== undefined) continue;
      if (!topicsOf(region).includes(frame.topic)) continue;
      if (frame.kind === "samples" && !isDue(region, region.dataset.samplesS)) continue;
      refreshSoon(region);
    }
  }

  /* Readings come every second for as long as a job runs: a region says how often it shows them. */
  function isDue(region, paceS) {
    if (!paceS || Date.now() - (followed.get(region.id) ?? opened) < paceS * 1000) return false;
    followed.set(region.id, Date.now());
    return true;
  }

  /* What only time changes is told by nobody; what failed is asked for again, later each time. */
  function refreshDue() {
    if (document.hidden || polling || ended) return;
    for (const region of regions()) {
      const times = failed.get(region.id);
      if (isDue(region, times ? waitMs(times) / 1000 : region.dataset.everyS)) refreshSoon(region);
    }
  }

  /* A log says from which line on. */
  function sync() {
    if (socket?.readyState !== WebSocket.OPEN) return;
    const now = wanted().slice(0, MOST_TOPICS);
    const fresh = now.filter((topic) => !watched.has(topic));
    const gone = [...watched].filter((topic) => !now.includes(topic));
    if (!fresh.length && !gone.length) return;
    const subscribe = fresh.map((topic) => {
      const reader = listeners.get(topic);
      return reader ? { topic, after: reader.lastLine() } : topic;
    });
    socket.send(JSON.stringify({ subscribe, unsubscribe: gone }));
    watched = new Set(now);
  }

  function onOpen() {
    upSince = Date.now();
    stopPolling();
    if (!failed.size) show("live");
    watched = new Set();
    sync();
    if (failures) refreshAll();
  }

  function onClose(event) {
    if (event.target !== socket) return;
    socket = null;
    if (event.code === SIGNED_OUT) return end();
    refused = event.code === FORBIDDEN;
    failures = Date.now() - upSince > STEADY_MS ? 1 : failures + 1;
    upSince = Infinity;
    if (failures >= FAILURES_BEFORE_POLLING || refused) startPolling();
    clearTimeout(timer);
    timer = setTimeout(connect, waitMs(failures));
  }

  /* Longer each time, and not for all pages the same. */
  function waitMs(times) {
    return Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (times - 1)) * (0.8 + 0.4 * Math.random());
  }

  function connect() {
    if (!isLive || document.hidden || socket || refused || ended || !wanted().length) return;
    socket = new WebSocket(`${location.origin.replace("http", "ws")}/ws/`);
    socket.addEventListener("open", onOpen);
    socket.addEventListener("message", onMessage);
    socket.addEventListener("close", onClose);
  }

  function startPolling() {
    if (polling) return;
    const paces = isLive ? regions().map((region) => region.dataset.pollS * 1000 || POLL_MS) : [];
    show("paused");
    polling = updates === "manual" || setInterval(() => {
      if (!document.hidden) refreshAll();
    }, Math.min(MINUTE_MS, ...paces));
  }

  function stopPolling() {
    clearInterval(polling);
    polling = 0;
  }

  function end() {
    ended = true;
    stopPolling();
    show("ended");
  }

  function onVisibility() {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(() => socket?.close(), HIDDEN_GRACE_MS);
    else if (!socket) {
      failures ||= 1;
      connect();
    }
  }

  /* Watch a log by script: `onFrame(frame)`, `onResync()` after a gap, `lastLine()`, the last it has. */
  function watch(topic, listener) {
    listeners.set(topic, listener);
    sync();
    connect();
  }

  /* For screen readers, every STEADY_MS and without the time of day. */
  function tell() {
    const now = [...document.querySelectorAll("#job-head .pill, .newrow, .changed, #live-chip")].map((one) => one.textContent.split(" —")[0]).join(", ");
    const tells = document.getElementById("tells");
    if (tells.textContent !== now) tells.textContent = now;
  }

  document.addEventListener("visibilitychange", onVisibility);
  document.addEventListener("htmx:afterSettle", () => {
    sync();
    if (!failures) connect();
  });
  /* A fragment that was sent elsewhere is the sign-in page: never put it into a region. */
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const { xhr, requestConfig, target } = event.detail;
    const asker = requestConfig.triggeringEvent;
    const asked = new URL(requestConfig.path, location.href).pathname;
    if (xhr.responseURL && new URL(xhr.responseURL).pathname !== asked && requestConfig.verb === "get") end();
    else if (asker?.type === "live" && !asker.detail.force && xhr.status < 300 && isBusy(xhr.getResponseHeader("HX-Refresh") ? document.body : target)) {
      markChanged(target);
      event.detail.successful = true;
    } else return;
    event.preventDefault();
  });
  /* That it fails is said until all has come, or is gone. */
  document.addEventListener("htmx:afterRequest", ({ detail: { requestConfig: { elt }, successful } }) => {
    if (ended) return;
    const times = failed.get(elt.id) ?? 0;
    const isAmiss = failed.size;
    const isRegion = elt.dataset.topic !== undefined;
    if (successful) {
      failed.delete(elt.id);
      if (isRegion && !markOf(elt)) freshAt = new Date();
    } else if (isRegion) failed.set(elt.id, times + 1);
    if (successful ? polling : times) show("paused");
    for (const id of failed.keys()) if (!document.getElementById(id)?.dataset.topic) failed.delete(id);
    if (isAmiss && !failed.size && !polling) show("live");
  });
  /* A line that is gone says so by itself only much later. */
  window.addEventListener("offline", () => {
    if (!socket) return;
    socket.close();
    startPolling();
    onClose({ target: socket });
  });
  window.addEventListener("online", connect);
  window.trainyard = Object.assign(window.trainyard ?? {}, { watch });
  /* What the reader opened stays open, and in focus what was made to take it. */
  window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (attribute, _, kind) => attribute !== "open" && kind + attribute !== "removetabindex";
  setInterval(refreshDue, LOOK_MS);
  tell();
  setInterval(tell, STEADY_MS);
  chip.addEventListener("click", () => {
    if (ended) location.reload();
    refreshAll();
  });
  if (isLive) connect();
  else startPolling();
})();
