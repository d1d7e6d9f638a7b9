/* The log window: a few thousand lines of a log of any length. Markup: components/_log.html; ids of rows
   are numbers of lines, which never change. */
(() => {
  "use strict";

  const MOST_ROWS = 5000;
  /* Of a log that grows each row is laid out many times a second. */
  const MOST_FOLLOWED = 300;
  const NEAR_END_PX = 40;
  const LOAD_AHEAD_PX = 400;
  const PACE_MS = 2000;

  class LogWindow {
    constructor(root) {
      this.root = root;
      this.view = root.querySelector(".lines");
      this.rows = root.querySelector(".rows");
      this.more = root.querySelector("[data-more]");
      this.says = root.querySelector("[data-says]");
      this.tells = root.querySelector("[data-tells]");
      this.total = Number(root.dataset.total);
      this.complete = root.dataset.complete === "true";
      this.follow = root.dataset.follow === "true";
      this.seen = this.total;
      this.busy = null;
      this.put = { top: 0, height: 0 };
      this.pace = 0;
      this.tools = new window.trainyard.LogTools(this);
    }

    start() {
      this.view.addEventListener("scroll", () => this.onScroll(), { passive: true });
      this.more.addEventListener("click", () => this.toEnd());
      window.addEventListener("hashchange", () => this.toHash());
      if (!this.complete) {
        window.trainyard.watch(this.root.dataset.logTopic, {
          onFrame: (frame) => this.onFrame(frame),
          onResync: () => this.catchUp(),
          lastLine: () => Math.max(this.last(), this.total),
        });
      }
      /* Sets how high lines are. */
      this.tools.start();
      const error = Number(this.root.dataset.error);
      if (this.toHash()) this.follow = false;
      else if (error && !this.follow) this.showRange(error, error);
      else if (this.follow || this.first() > 1) this.stickToEnd();
      this.report();
      this.fill();
    }

    first() {
      return this.lineOf(this.rows.firstElementChild) || 1;
    }

    last() {
      return this.lineOf(this.rows.lastElementChild);
    }

    /* The line at the top of the view, nearly: lines may be wrapped. */
    topLine() {
      const { scrollTop, scrollHeight } = this.view;
      return this.first() + Math.floor((this.rows.childElementCount * scrollTop) / scrollHeight);
    }

    lineOf(row) {
      return Number(row?.id.slice(1) ?? 0);
    }

    async fetchLines(ask) {
      const answer = await fetch(`${this.root.dataset.linesUrl}&${ask}`, { headers: { "HX-Request": "true" } });
      if (!answer.ok || answer.redirected) throw answer;
      /* Frames that came meanwhile know more. */
      this.total = Math.max(this.total, answer.headers.get("X-Total-Lines"));
      this.complete ||= answer.headers.get("X-Log-Complete") === "true";
      return answer.text();
    }

    parse(html) {
      const holder = document.createElement("template");
      holder.innerHTML = html;
      return holder.content;
    }

    /* One fetch at a time. What scrolling asks for meanwhile it asks for again; a jump waits. */
    async load(ask, place, isJump = false) {
      while (this.busy) {
        if (!isJump) return false;
        await this.busy;
      }
      const before = this.rows.childElementCount;
      this.busy = this.fetchLines(ask).then((html) => place(this.parse(html)) ?? true).catch(() => false);
      const isDone = await this.busy;
      this.busy = null;
      this.report();
      /* Of long lines few come at once. */
      if (before !== this.rows.childElementCount) requestAnimationFrame(() => this.fill());
      return isDone;
    }

    jump(ask) {
      return this.load(ask, (content) => {
        this.head = "";
        this.rows.replaceChildren(content);
      }, true);
    }

    readOn() {
      return this.load(`from_line=${this.last() + 1}`, (content) => this.append(content));
    }

    append(content) {
      const end = this.last();
      for (const row of [...content.children]) if (this.lineOf(row) <= end) row.remove();
      this.rows.append(content);
      const surplus = this.rows.childElementCount - (this.follow ? MOST_FOLLOWED : MOST_ROWS);
      if (surplus <= 0) return;
      /* Each offsetTop is a layout of all. */
      const stays = !this.follow && this.rows.children[surplus];
      const before = stays && stays.offsetTop;
      let kept;
      for (const row of [...this.rows.children].slice(0, surplus)) {
        if (row.matches(".lg, .le")) {
          kept?.remove();
          kept = row.matches(".lg") && row;
          this.head = kept.id;
        }
        /* It is opened there. */
        if (row !== kept || !this.tools.shut.has(row.id)) row.remove();
      }
      if (stays) this.view.scrollTop -= before - stays.offsetTop;
    }

    prepend(content) {
      const height = this.view.scrollHeight;
      this.head = "";
      this.rows.prepend(content);
      this.view.scrollTop += this.view.scrollHeight - height;
      while (this.rows.childElementCount > MOST_ROWS) this.rows.lastElementChild.remove();
    }

    onFrame(frame) {
      if (frame.kind !== "lines") return;
      if (this.isMovedUp()) this.setFollow(false);
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

    /* After a gap. */
    async catchUp() {
      if (!this.follow) return this.rows.childElementCount < MOST_ROWS && this.readOn();
      for (let before = -1; before < this.last();) {
        if (this.total - this.last() > MOST_ROWS) return this.toEnd();
        before = this.last();
        if (!(await this.readOn())) break;
      }
      if (this.follow) this.stickToEnd();
    }

    onScroll() {
      this.tools.place();
      if (this.follow && !this.isMovedUp()) return;
      const { scrollTop, scrollHeight, clientHeight } = this.view;
      const left = scrollHeight - scrollTop - clientHeight;
      /* News of our own move to the end may come after the reader said not to follow. */
      const isOurs = Math.abs(scrollTop - this.put.top) <= 1;
      if (!isOurs) this.put = { top: -2, height: 0 };
      if (!this.complete && !isOurs) this.setFollow(left <= NEAR_END_PX && this.last() >= this.total);
      this.fill();
    }

    fill() {
      const { scrollTop, scrollHeight, clientHeight } = this.view;
      if (this.follow && !this.isMovedUp() && this.rows.childElementCount > 99) return;
      const first = this.first();
      if (scrollTop < LOAD_AHEAD_PX && first > 1) {
        this.load(`before=${first}`, (content) => first === this.first() && this.prepend(content));
      } else if (scrollHeight - scrollTop - clientHeight < LOAD_AHEAD_PX && this.last() < this.total) this.readOn();
    }

    setFollow(on) {
      if (on || this.follow) this.seen = this.total;
      if (this.follow === on) return;
      this.follow = on;
      this.tools.press("f", on);
      this.report();
    }

    stickToEnd() {
      this.view.scrollTop = this.view.scrollHeight;
      this.put = { top: this.view.scrollTop, height: this.view.scrollHeight };
      this.seen = this.total;
    }

    /* Whether somebody has scrolled up since the end was shown: rows that go move it, too. */
    isMovedUp() {
      const { scrollTop, scrollHeight } = this.view;
      return this.follow && scrollTop < this.put.top - 1 && scrollHeight >= this.put.height;
    }

    async toEnd() {
      /* Rows of frames that came meanwhile are replaced, too. */
      for (let n = 0; n < 3 && this.last() < this.total; n += 1) await this.jump(`before=${1e15}`);
      this.setFollow(!this.complete);
      this.stickToEnd();
      this.report();
    }

    async toStart() {
      this.setFollow(false);
      if (this.first() > 1) await this.jump("from_line=1");
      this.view.scrollTop = 0;
    }

    /* Without an attempt an address means the latest one. */
    link(hash) {
      const url = new URL(location.href);
      const { path, attempt, rank } = this.root.dataset;
      url.pathname = path;
      url.hash = hash;
      url.searchParams.set("attempt", attempt);
      url.searchParams.set("rank", rank);
      return url;
    }

    toHash() {
      const match = /^#L(\d{1,15})(?:-L?(\d{1,15}))?$/.exec(location.hash);
      if (!match) return false;
      const [from, to] = [match[1], match[2] ?? match[1]].map((line) => Math.min(line, this.total)).sort((a, b) => a - b);
      if (match[1] > this.total) window.trainyard.toast(`The last line is ${this.total}.`);
      this.root.scrollIntoView({ block: "nearest" });
      this.showRange(from, to);
      return true;
    }

    /* Of several jumps at once the last one counts; where the rows are is known after a load. */
    async showRange(from, to, mark = "sel") {
      const turn = (this.turn = (this.turn ?? 0) + 1);
      this.setFollow(false);
      while (this.busy) await this.busy;
      for (const begin of [Math.max(1, from - 100), from]) {
        if (turn === this.turn && (from < this.first() || from > this.last())) await this.jump(`from_line=${begin}`);
      }
      if (turn !== this.turn) return;
      for (const row of this.rows.querySelectorAll(`.${mark}`)) row.classList.remove(mark);
      const row = this.rows.querySelector(`#L${from}`);
      this.tools.reveal(row);
      for (let next = row; next && this.lineOf(next) <= to; next = next.nextElementSibling) {
        next.classList.add(mark);
      }
      /* The page stays where it is. */
      if (row) this.view.scrollTop = row.offsetTop - this.view.clientHeight / 2;
    }

    report() {
      const fresh = this.total - this.seen;
      this.more.hidden = this.follow || fresh <= 0;
      this.more.textContent = `${fresh.toLocaleString("en")} new line${fresh === 1 ? "" : "s"} ↓`;
      this.tools.dress();
      const place = this.rows.childElementCount
        ? `lines ${this.first().toLocaleString("en")}–${this.last().toLocaleString("en")} of ${this.total.toLocaleString("en")}`
        : "no lines yet";
      const pace = this.pace ? `, ${this.pace.toLocaleString("en")} lines/s` : "";
      const state = this.complete ? this.root.dataset.end || "complete" : this.follow ? "following" : "not following";
      const text = `${place} · ${state}${state === "following" ? pace : ""}`;
      if (this.says.textContent !== text) this.says.textContent = text;
      /* Screen readers are not told each count. */
      if (this.tells.textContent !== state) this.tells.textContent = state;
    }
  }

  for (const root of document.querySelectorAll("[data-log]")) {
    const log = new LogWindow(root);
    log.start();
    let before = log.total;
    setInterval(() => {
      log.pace = Math.round(((log.total - before) * 1000) / PACE_MS);
      if (log.pace) log.tools.tick();
      before = log.total;
      if (!log.complete) log.report();
      /* Lines that came while others were being fetched, and none after them. */
      if (log.follow && !log.busy && log.last() < log.total) log.catchUp();
    }, PACE_MS);
  }
})();
