/* What a reader does with a log beside scrolling. The server searches it. */
(() => {
  "use strict";

  const MOST_HITS = 10000;
  const TICKS = 200;
  const paint = window.Highlight && new window.Highlight();
  if (paint) CSS.highlights.set("hit", paint);

  const clockOf = (seconds) => new Date(seconds * 1000).toISOString().slice(11, 19);

  class LogTools {
    constructor(log) {
      this.log = log;
      this.root = log.root;
      this.form = this.root.querySelector("[data-find]");
      this.found = this.root.querySelector("[data-found]");
      this.strip = this.root.querySelector(".hits");
      this.times = this.root.querySelector("[data-times]");
      this.shut = new Set();
      this.turn = 0;
      this.clear();
    }

    clear() {
      Object.assign(this, { hits: [], known: new Set(), at: -1, note: "", rest: 0 });
    }

    start() {
      const { view } = this.log;
      view.addEventListener("click", (event) => this.onClick(event));
      view.addEventListener("keydown", (event) => this.onKey(event));
      view.addEventListener("pointerdown", ({ target }) => {
        if (target.matches(".ln > a")) target.href = this.log.link(target.hash);
      });
      this.root.addEventListener("click", (event) => {
        const tool = event.target.closest("[data-tool]")?.dataset.tool;
        if (tool) this.act(tool);
      });
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.remember("q", this.form.q.value);
        this.remember("mode", this.form.q.value && this.form.mode.checked ? "regex" : "");
        this.find();
        if (this.form.q.value) view.focus({ preventScroll: true });
      });
      this.times.addEventListener("change", () => this.setTimes());
      this.strip.addEventListener("click", (event) => {
        const box = this.strip.getBoundingClientRect();
        const line = Math.max(1, Math.round(((event.clientY - box.top) / box.height) * this.log.total));
        const near = this.hits.find((hit) => hit >= line - this.log.total / TICKS) ?? line;
        this.at = this.hits.indexOf(near);
        this.log.showRange(near, near, "at");
        if (this.hits.length) this.say();
      });
      const asked = new URLSearchParams(location.search);
      view.dataset.size = asked.get("size") ?? "";
      if (asked.get("wrap")) this.act("w");
      this.times.value = asked.get("ts");
      this.times.selectedIndex = Math.max(0, this.times.selectedIndex);
      this.form.q.value = asked.get("q") ?? "";
      this.form.mode.checked = asked.get("mode") === "regex";
      if (this.form.q.value) this.find(1, Boolean(location.hash));
    }

    /* So that a link shows the same. */
    remember(name, value) {
      const url = new URL(location.href);
      if (value) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
      history.replaceState(history.state, "", url);
    }

    async find(from = 1, stay = false) {
      const turn = ++this.turn;
      const text = this.form.q.value;
      if (from === 1) this.clear();
      this.isOn = true;
      for (let next = text && from; next && this.hits.length < MOST_HITS;) {
        this.say(`searching from line ${next.toLocaleString("en")}`);
        const ask = new URLSearchParams({ q: text, mode: this.form.mode.checked ? "regex" : "", from_line: next });
        const answer = await this.ask(`${this.root.dataset.findUrl}&${ask}`);
        if (turn !== this.turn) return;
        if (typeof answer === "string") {
          this.isOn = false;
          return this.say(answer);
        }
        /* The log grew while it was searched: its end may be there already. */
        for (const line of answer.lines) this.known.add(line);
        this.hits = [...this.known];
        this.note ||= answer.note;
        this.rest = next = answer.next_line;
        this.from = next || answer.total_lines + 1;
        if (this.at < 0 && this.hits.length && !stay) this.step(1);
      }
      this.isOn = false;
      this.say(text ? undefined : "");
    }

    async ask(url) {
      try {
        const answer = await fetch(url, { headers: { "HX-Request": "true" } });
        if (answer.ok && !answer.redirected) return await answer.json();
        if (answer.headers.get("Content-Type")?.startsWith("text/plain")) return await answer.text();
      } catch { /* Said below. */ }
      return "The search failed; reload the page.";
    }

    step(by) {
      const { log, hits } = this;
      if (!hits.length) return;
      if (this.at < 0) {
        const next = hits.findIndex((line) => line >= log.topLine());
        this.at = by > 0 ? Math.max(0, next) : (next < 0 ? hits.length : next) - 1;
      } else this.at += by;
      if (this.at >= hits.length && log.total >= this.from && hits.length < MOST_HITS) {
        this.at = hits.length - 1;
        /* What is being searched is not searched once more. */
        if (!this.isOn) this.find(this.from).then(() => this.at < this.hits.length - 1 && this.step(1));
        return;
      }
      this.at = (this.at + hits.length) % hits.length;
      log.showRange(hits[this.at], hits[this.at], "at");
      this.say();
    }

    say(text) {
      const many = (this.rest ? "more than " : "") + this.hits.length.toLocaleString("en");
      const place = this.at < 0 ? "" : `${(this.at + 1).toLocaleString("en")} of `;
      this.found.textContent = text ?? (this.hits.length ? `${place}${many} line${this.hits.length === 1 ? "" : "s"}` : "no line matches") + this.note;
      this.tick();
      this.dress();
    }

    tick() {
      const bins = new Set(this.hits.map((line) => Math.floor(((line - 1) / Math.max(1, this.log.total)) * TICKS)));
      this.strip.querySelectorAll("rect:not(.view)").forEach((old) => old.remove());
      for (const bin of bins) {
        const rect = this.strip.firstElementChild.cloneNode();
        rect.removeAttribute("class");
        rect.setAttribute("y", `${(bin / TICKS) * 100}%`);
        rect.setAttribute("height", "2");
        this.strip.append(rect);
      }
      this.place();
    }

    place() {
      this.strip.toggleAttribute("hidden", !this.hits.length && this.log.total <= this.log.rows.childElementCount);
      const view = this.strip.firstElementChild;
      view.setAttribute("y", `${Math.min(98, ((this.log.topLine() - 1) / Math.max(1, this.log.total)) * 100)}%`);
    }

    setTimes() {
      this.remember("ts", this.times.value.replace("off", ""));
      this.dress();
    }

    timeText(row) {
      const at = Number(row.dataset.t);
      if (!at) return "";
      if (this.times.value === "utc") return `${clockOf(at)}Z`;
      if (this.times.value === "local") return new Date(at * 1000).toTimeString().slice(0, 8);
      const since = Math.max(0, at - this.root.dataset.begins);
      return `+${String(Math.floor(since / 3600)).padStart(2, "0")}${clockOf(since).slice(2)}`;
    }

    /* Once a frame at most: rows may come many times a second. */
    dress() {
      if (this.waits) return;
      this.waits = true;
      requestAnimationFrame(() => {
        this.waits = false;
        this.dressRows();
      });
    }

    dressRows() {
      const mode = this.times.value;
      const { rows, view } = this.log;
      view.classList.toggle("timed", mode !== "off");
      paint?.clear();
      let inside = Boolean(this.log.head);
      let shut = this.shut.has(this.log.head);
      for (const row of rows.children) {
        if (mode !== "off" && row.dataset.as !== mode) {
          row.dataset.at = this.timeText(row);
          row.dataset.as = mode;
        }
        const isHead = row.classList.contains("lg");
        if (isHead) {
          shut = this.shut.has(row.id);
          row.querySelector(".fold").setAttribute("aria-expanded", !shut);
        } else if (row.classList.contains("le")) inside = shut = false;
        row.toggleAttribute("hidden", shut && !isHead);
        row.classList.toggle("l2", inside && !isHead);
        inside ||= isHead;
        const isHit = this.known.size > 0 && this.known.has(this.log.lineOf(row));
        row.classList.toggle("hit", isHit);
        if (isHit) this.paintRow(row);
      }
    }

    /* The words, without touching the row; a pattern marks its line alone. */
    paintRow(row) {
      if (!paint || this.form.mode.checked) return;
      const text = this.form.q.value;
      const folds = text === text.toLowerCase();
      const walker = document.createTreeWalker(row.lastElementChild, NodeFilter.SHOW_TEXT);
      for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const hay = folds ? node.data.toLowerCase() : node.data;
        for (let at = hay.indexOf(text); at >= 0 && text; at = hay.indexOf(text, at + text.length)) {
          if (at + text.length > node.length) break;
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + text.length);
          paint.add(range);
        }
      }
    }

    /* A line that is shown is in no shut group. */
    reveal(row) {
      if (!row?.hidden) return;
      this.shut.clear();
      this.dressRows();
    }

    onClick(event) {
      const row = event.target.closest(".ln");
      if (event.target.closest(".fold")) {
        const line = this.log.lineOf(row);
        if (!this.shut.delete(row.id)) this.shut.add(row.id);
        else if (this.log.lineOf(row.nextElementSibling) > line + 1) this.log.showRange(line, line);
        this.dressRows();
        this.log.onScroll();
      } else if (event.target.closest(".whole")) this.unfold(row);
      else if (event.target.closest(".ln > a")) this.onGutter(event, this.log.lineOf(row));
    }

    async unfold(row) {
      const html = await this.log.fetchLines(`from_line=${this.log.lineOf(row)}&whole=1`).catch(() => "");
      if (html) row.replaceWith(this.log.parse(html));
      this.dress();
    }

    onGutter(event, line) {
      event.preventDefault();
      const start = event.shiftKey && /^#L\d+/.exec(location.hash);
      const hash = start ? `${start}-L${line}` : `#L${line}`;
      const url = this.log.link(hash);
      history.replaceState(history.state, "", url.pathname === location.pathname ? url : hash);
      this.at = -1;
      this.log.toHash();
    }

    /* While the window has the focus; its buttons' keys reach it from all of the page. */
    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || document.body.dataset.keys === "off") return;
      const both = this.lastKey + event.key;
      this.lastKey = event.key;
      if (this.act(both === "gg" ? both : event.key)) event.preventDefault();
    }

    press(tool, isOn) {
      this.root.querySelector(`[data-tool=${tool}]`).setAttribute("aria-pressed", isOn);
    }

    /* A tool has the name of its key, if it has one. */
    act(tool) {
      const { log } = this;
      const error = Number(this.root.dataset.error);
      const acts = {
        f: () => (log.follow ? log.setFollow(false) : log.toEnd()),
        G: () => log.toEnd(),
        gg: () => log.toStart(),
        y: () => window.trainyard.copy(log.link(this.at < 0 && /^#L/.test(location.hash) ? location.hash : `#L${this.hits[this.at] ?? log.topLine()}`)),
        full: () => (document.fullscreenElement ? document.exitFullscreen() : this.root.requestFullscreen?.()),
        "/": () => this.form.q.select(),
        n: () => this.step(1),
        N: () => this.step(-1),
        e: () => error && log.showRange(error, error),
        t: () => {
          this.times.selectedIndex = (this.times.selectedIndex + 1) % this.times.length;
          this.setTimes();
        },
        size: () => this.remember("size", (log.view.dataset.size = { "": "large", large: "small" }[log.view.dataset.size] ?? "")),
        w: () => {
          const isOn = log.view.classList.toggle("wrap");
          this.press(tool, isOn);
          this.remember("wrap", isOn ? "1" : "");
        },
      };
      acts[tool]?.();
      return acts[tool];
    }
  }

  window.trainyard = Object.assign(window.trainyard ?? {}, { LogTools });
})();
