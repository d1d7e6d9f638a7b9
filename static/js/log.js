/* The log window: a few thousand lines of a log of any length, live at its end.

   Markup: components/_log.html. Rows come from the server as HTML that it escaped; their ids are
   their line numbers, which never change. */
(() => {
  "use strict";

  const CHUNK = 500;
  const MOST_ROWS = 5000;
  const NEAR_END_PX = 40;
  const LOAD_AHEAD_PX = 400;
  const POLL_MS = 5000;

  class LogWindow {
    constructor(root) {
      this.root = root;
      this.view = root.querySelector(".lines");
      this.rows = root.querySelector(".rows");
      this.more = root.querySelector("[data-more]");
      this.says = root.querySelector("[data-says]");
      this.total = Number(root.dataset.total) || 0;
      this.complete = root.dataset.complete === "true";
      this.follow = root.dataset.follow === "true";
      this.seen = this.total;
      this.busy = false;
      this.lastKey = "";
      this.quiet = false;
    }

    start() {
      this.view.addEventListener("scroll", () => this.onScroll(), { passive: true });
      this.view.addEventListener("click", (event) => this.onGutter(event));
      this.view.addEventListener("keydown", (event) => this.onKey(event));
      this.root.addEventListener("click", (event) => this.onTool(event));
      this.more?.addEventListener("click", () => this.toEnd());
      window.addEventListener("hashchange", () => this.toHash());
      if (!this.complete) {
        window.trainyard.watch(this.root.dataset.logTopic, {
          onFrame: (frame) => this.onFrame(frame),
          onResync: () => this.catchUp(),
          lastLine: () => Math.max(this.last(), this.total),
        });
      }
      if (!this.toHash() && (this.follow || this.first() > 1)) this.stickToEnd();
      this.report();
    }

    first() {
      return this.lineOf(this.rows.firstElementChild) || 1;
    }

    last() {
      return this.lineOf(this.rows.lastElementChild);
    }

    lineOf(row) {
      return row ? Number(row.id.slice(1)) : 0;
    }

    /* Rows from `from` on, and what the answer says about the whole log. */
    async fetchLines(from) {
      const url = new URL(this.root.dataset.linesUrl, location.href);
      url.searchParams.set("from_line", String(Math.max(1, from)));
      url.searchParams.set("count", String(CHUNK));
      const answer = await fetch(url, { headers: { "HX-Request": "true" } });
      if (!answer.ok || answer.redirected) throw new Error(`lines: ${answer.status}`);
      this.total = Number(answer.headers.get("X-Total-Lines") ?? this.total);
      this.complete = answer.headers.get("X-Log-Complete") === "true";
      return answer.text();
    }

    parse(html) {
      const holder = document.createElement("template");
      holder.innerHTML = html;
      return holder.content;
    }

    /* One fetch at a time; what was asked for meanwhile is asked again by scrolling or frames. */
    async load(from, place) {
      if (this.busy) return false;
      this.busy = true;
      try {
        place(this.parse(await this.fetchLines(from)));
        return true;
      } catch {
        return false;
      } finally {
        this.busy = false;
        this.report();
      }
    }

    append(content) {
      this.rows.append(content);
      while (this.rows.childElementCount > MOST_ROWS) {
        const height = this.view.scrollHeight;
        this.rows.firstElementChild.remove();
        if (!this.follow) this.view.scrollTop -= height - this.view.scrollHeight;
      }
    }

    prepend(content) {
      const height = this.view.scrollHeight;
      const limit = this.first();
      for (const row of [...content.children]) if (this.lineOf(row) >= limit) row.remove();
      this.rows.prepend(content);
      this.view.scrollTop += this.view.scrollHeight - height;
      while (this.rows.childElementCount > MOST_ROWS) this.rows.lastElementChild.remove();
    }

    onFrame(frame) {
      if (frame.kind !== "lines") return;
      this.total = Math.max(this.total, frame.total_lines);
      this.complete = frame.complete;
      const end = this.last();
      if (frame.from_line === end + 1 && (this.follow || this.rows.childElementCount < MOST_ROWS)) {
        this.append(this.parse(frame.html));
      } else if (frame.from_line > end + 1 && this.follow) {
        this.catchUp();
      }
      if (this.follow) this.stickToEnd();
      this.report();
    }

    /* After a gap: read on by line number until the end is reached, or jump there if it is far. */
    async catchUp() {
      if (!this.follow) {
        if (this.rows.childElementCount < MOST_ROWS) {
          await this.load(this.last() + 1, (content) => this.appendNew(content));
        }
        return;
      }
      if (this.total - this.last() > MOST_ROWS) return this.toEnd();
      for (let before = -1; before < this.last();) {
        before = this.last();
        if (!(await this.load(before + 1, (content) => this.appendNew(content)))) break;
      }
      this.stickToEnd();
    }

    appendNew(content) {
      const end = this.last();
      for (const row of [...content.children]) if (this.lineOf(row) <= end) row.remove();
      this.append(content);
    }

    onScroll() {
      if (this.quiet) return;
      const { scrollTop, scrollHeight, clientHeight } = this.view;
      const left = scrollHeight - scrollTop - clientHeight;
      if (!this.complete) this.setFollow(left <= NEAR_END_PX && this.last() >= this.total);
      if (scrollTop < LOAD_AHEAD_PX && this.first() > 1) {
        this.load(this.first() - CHUNK, (content) => this.prepend(content));
      } else if (left < LOAD_AHEAD_PX && this.last() < this.total) {
        this.load(this.last() + 1, (content) => this.appendNew(content));
      }
    }

    setFollow(on) {
      if (on) this.seen = this.total;
      if (this.follow === on) return;
      this.follow = on;
      if (!on) this.seen = this.total;
      this.root.querySelector("[data-tool=follow]")?.setAttribute("aria-pressed", String(on));
      this.report();
    }

    stickToEnd() {
      this.quiet = true;
      this.view.scrollTop = this.view.scrollHeight;
      this.seen = this.total;
      requestAnimationFrame(() => (this.quiet = false));
    }

    async toEnd() {
      if (this.last() < this.total) {
        await this.load(this.total - CHUNK + 1, (content) => this.rows.replaceChildren(content));
      }
      this.setFollow(!this.complete);
      this.stickToEnd();
      this.report();
    }

    async toStart() {
      this.setFollow(false);
      if (this.first() > 1) {
        await this.load(1, (content) => this.rows.replaceChildren(content));
      }
      this.view.scrollTop = 0;
    }

    /* `#L120` and `#L120-L140`: show, highlight, stop following. */
    toHash() {
      const match = /^#L(\d{1,15})(?:-L?(\d{1,15}))?$/.exec(location.hash);
      if (!match) return false;
      const [from, to] = [Number(match[1]), Number(match[2] ?? match[1])];
      this.showRange(Math.min(from, to), Math.max(from, to));
      return true;
    }

    async showRange(from, to) {
      this.setFollow(false);
      if (from < this.first() || from > this.last()) {
        await this.load(from - 100, (content) => this.rows.replaceChildren(content));
      }
      for (const row of this.rows.querySelectorAll(".sel")) row.classList.remove("sel");
      for (let row = this.rows.querySelector(`#L${from}`); row && this.lineOf(row) <= to;
        row = row.nextElementSibling) row.classList.add("sel");
      this.rows.querySelector(`#L${from}`)?.scrollIntoView({ block: "center" });
    }

    onGutter(event) {
      const link = event.target.closest(".ln > a");
      if (!link) return;
      event.preventDefault();
      const line = Number(link.hash.slice(2));
      const start = /^#L(\d+)/.exec(location.hash);
      const range = event.shiftKey && start
        ? `#L${Math.min(start[1], line)}-L${Math.max(start[1], line)}`
        : `#L${line}`;
      history.replaceState(history.state, "", range);
      this.toHash();
    }

    onTool(event) {
      const tool = event.target.closest("[data-tool]")?.dataset.tool;
      if (tool) this.act(tool);
    }

    /* Keys work only while the window has the focus, so they never surprise. */
    onKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const both = this.lastKey === "g" && event.key === "g";
      this.lastKey = both ? "" : event.key;
      const tools = { f: "follow", G: "end", w: "wrap", y: "copy" };
      const tool = both ? "start" : tools[event.key];
      if (!tool) return;
      event.preventDefault();
      this.act(tool);
    }

    act(tool) {
      const acts = {
        follow: () => (this.follow ? this.setFollow(false) : this.toEnd()),
        end: () => this.toEnd(),
        start: () => this.toStart(),
        wrap: () => this.toggleWrap(),
        copy: () => window.trainyard.copy(location.href),
        full: () => this.toggleFull(),
      };
      acts[tool]?.();
    }

    toggleWrap() {
      const on = this.view.classList.toggle("wrap");
      this.root.querySelector("[data-tool=wrap]")?.setAttribute("aria-pressed", String(on));
    }

    toggleFull() {
      if (document.fullscreenElement) document.exitFullscreen();
      else this.root.requestFullscreen?.();
    }

    report() {
      const fresh = this.total - this.seen;
      if (this.more) {
        this.more.hidden = this.follow || fresh <= 0;
        this.more.textContent = `${fresh.toLocaleString("en")} new lines ↓`;
      }
      if (!this.says) return;
      const place = this.rows.childElementCount
        ? `lines ${this.first().toLocaleString("en")}–${this.last().toLocaleString("en")} of ${this.total.toLocaleString("en")}`
        : "no lines yet";
      const state = this.complete ? "complete" : this.follow ? "following" : "not following";
      const text = `${place} · ${state}`;
      if (this.says.textContent !== text) this.says.textContent = text;
    }
  }

  for (const root of document.querySelectorAll("[data-log]")) {
    const log = new LogWindow(root);
    log.start();
    /* The rest of a log that arrives while the socket is away. */
    setInterval(() => {
      const live = document.getElementById("live-chip");
      if (!log.complete && !document.hidden && live?.classList.contains("paused")) log.catchUp();
    }, POLL_MS);
  }
})();
