/* A terminal's screen: bytes of a program in, rows of coloured cells out. After ECMA-48 and what
   xterm's control sequences document; enough for shells, editors and pagers. Knows no page. */
(() => {
  "use strict";

  const BLANK = { text: " ", style: "" };
  const KEPT_ROWS = 2000;
  const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\ud83c-\ud83e][\udc00-\udfff]/;
  const LINES = { j: "┘", k: "┐", l: "┌", m: "└", n: "┼", q: "─", t: "├", u: "┤", v: "┴", w: "┬", x: "│", a: "▒", "`": "◆", "~": "·" };

  class Screen {
    constructor(columns, rows, answer) {
      this.answer = answer;
      this.columns = columns;
      this.rows = rows;
      this.gone = 0; // rows that were in the history and are not any more
      this.history = [];
      this.begin();
    }

    /* As before the first byte: of what was cut off nothing goes on. */
    begin() {
      this.decoder = new TextDecoder();
      this.pending = "";
      this.forget(this.history.length);
      this.reset();
    }

    forget(count) {
      this.history.splice(0, count);
      this.gone += count;
    }

    reset() {
      this.grid = this.blankGrid();
      this.other = null;
      this.x = this.y = 0;
      this.top = 0;
      this.bottom = this.rows - 1;
      this.saved = { x: 0, y: 0, pen: null };
      this.pen = { fore: null, back: null, bold: false, dim: false, under: false, invert: false };
      this.style = "";
      this.wraps = true;
      this.mustWrap = this.drawsLines = this.appKeys = this.pastes = false;
      this.showsCursor = true;
      this.title = this.last = "";
    }

    static blank() { return BLANK; }

    blankRow() { return Array(this.columns).fill(BLANK); }
    blankGrid() { return Array.from({ length: this.rows }, () => this.blankRow()); }

    resize(columns, rows) {
      const fit = (grid) => {
        for (const row of grid) {
          while (row.length < columns) row.push(BLANK);
          row.length = columns;
        }
        while (grid.length > rows) {
          if (grid === this.grid && this.y < grid.length - 1) grid.pop();
          else {
            const gone = grid.shift();
            if (grid === this.grid) {
              this.y = Math.max(0, this.y - 1);
              if (!this.other) this.keep(gone);
            }
          }
        }
        while (grid.length < rows) grid.push(Array(columns).fill(BLANK));
      };
      this.columns = columns;
      fit(this.grid);
      if (this.other) fit(this.other);
      this.rows = rows;
      this.top = 0;
      this.bottom = rows - 1;
      this.x = Math.min(this.x, columns - 1);
      this.y = Math.min(this.y, rows - 1);
      this.mustWrap = false;
    }

    keep(row) {
      this.history.push(row);
      if (this.history.length > KEPT_ROWS) this.forget(KEPT_ROWS / 10);
    }

    write(bytes) {
      const text = this.pending + this.decoder.decode(bytes, { stream: true });
      this.pending = "";
      for (let at = 0; at < text.length;) {
        if (text[at] === "\x1b") {
          const used = this.escape(text, at);
          if (!used) {
            // A sequence that is cut here goes on in the next piece, unless it never ends.
            if (text.length - at < 4096) this.pending = text.slice(at);
            return;
          }
          at += used;
          continue;
        }
        const code = text.codePointAt(at);
        const sign = String.fromCodePoint(code);
        at += sign.length;
        if (code < 32 || code === 127) this.control(code);
        else this.put(this.drawsLines ? LINES[sign] || sign : sign);
      }
    }

    control(code) {
      if (code === 13) this.x = 0;
      else if (code >= 10 && code <= 12) this.feed();
      else if (code === 8) this.x = Math.max(0, this.x - 1);
      else if (code === 9) this.x = Math.min(this.columns - 1, (this.x | 7) + 1);
      else if (code === 14) this.drawsLines = true;
      else if (code === 15) this.drawsLines = false;
      else return;
      this.mustWrap = false;
    }

    put(sign) {
      this.last = sign;
      const width = WIDE.test(sign) ? 2 : 1;
      if (/\p{M}|\u200d/u.test(sign)) {
        const before = Math.max(0, this.x - (this.mustWrap ? 0 : 1));
        const cell = this.grid[this.y][before];
        if (cell.text.length < 16) this.grid[this.y][before] = { text: cell.text + sign, style: cell.style };
        return;
      }
      if ((this.mustWrap || this.x + width > this.columns) && this.wraps) {
        this.x = 0;
        this.feed();
      }
      this.mustWrap = false;
      const row = this.grid[this.y];
      row[this.x] = { text: sign, style: this.style };
      if (width === 2 && this.x + 1 < this.columns) row[this.x + 1] = { text: "", style: this.style };
      this.x += width;
      if (this.x >= this.columns) {
        this.x = this.columns - 1;
        this.mustWrap = true;
      }
    }

    feed() {
      if (this.y === this.bottom) this.scroll(1);
      else this.y = Math.min(this.rows - 1, this.y + 1);
    }

    /* Up by `count`, or down by -count, inside the region. */
    scroll(count, from = this.top) {
      for (let n = 0; n < Math.min(Math.abs(count), this.rows); n += 1) {
        if (count > 0) {
          const [gone] = this.grid.splice(from, 1);
          this.grid.splice(this.bottom, 0, this.blankRow());
          if (from === 0 && this.top === 0 && !this.other) this.keep(gone);
        } else {
          this.grid.splice(this.bottom, 1);
          this.grid.splice(from, 0, this.blankRow());
        }
      }
    }
  }

  window.TrainyardScreen = Screen;
})();
