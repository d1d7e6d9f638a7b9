/* What a terminal's control sequences do to the screen of screen.js. */
(() => {
  "use strict";

  const Screen = window.TrainyardScreen;

  /* One of the palette's 256 as one of the 16 that the theme has. */
  function nearest(index) {
    if (index < 16) return index;
    let rgb;
    if (index >= 232) rgb = Array(3).fill((index - 232) * 10 + 8);
    else rgb = [36, 6, 1].map((step) => (Math.floor((index - 16) / step) % 6) * 51);
    return ofRgb(rgb);
  }

  function ofRgb([red, green, blue]) {
    const most = Math.max(red, green, blue);
    if (most - Math.min(red, green, blue) < 32) return most < 64 ? 0 : most < 140 ? 8 : most < 215 ? 7 : 15;
    const bits = [red, green, blue].map((part) => (part > most * 0.6 ? 1 : 0));
    return bits[0] + 2 * bits[1] + 4 * bits[2] + (most > 200 ? 8 : 0);
  }

  class Sequences {
  /* Carries out the sequence at `at`; its length, 0 when it is not whole yet. */
    escape(text, at) {
      const next = text[at + 1];
      if (next === undefined) return 0;
      if (next === "[") {
        const found = /^\x1b\[([?<>=!]?)([\d;:]*)([ -/]*)([@-~])/.exec(text.slice(at, at + 200));
        if (found) {
          this.sequence(found[1], found[2].split(/[;:]/).map(Number), found[4], found[3]);
          return found[0].length;
        }
        return /^\x1b\[[\d;:?<>=! -/]*$/.test(text.slice(at, at + 200)) ? 0 : 2;
      }
      if (next === "]" || next === "P" || next === "_" || next === "^") {
        const rest = text.slice(at + 2);
        const end = /\x07|\x1b\\/.exec(rest);
        if (!end) return rest.length > 4000 ? 2 : 0;
        const said = rest.slice(0, end.index);
        if (next === "]" && /^[02];/.test(said)) this.title = said.slice(2, 202);
        return 2 + end.index + end[0].length;
      }
      if (next === "(" || next === ")" || next === "#" || next === "%") {
        if (text[at + 2] === undefined) return 0;
        if (next === "(") this.drawsLines = text[at + 2] === "0";
        return 3;
      }
      if (next === "7") this.save();
      else if (next === "8") this.restore();
      else if (next === "M") {
        if (this.y === this.top) this.scroll(-1);
        else this.y = Math.max(0, this.y - 1);
      } else if (next === "D") this.feed();
      else if (next === "E") {
        this.x = 0;
        this.feed();
      } else if (next === "c") this.reset();
      return 2;
    }

    save() { this.saved = { x: this.x, y: this.y, pen: { ...this.pen } }; }

    restore() {
      this.go(this.saved.x, this.saved.y);
      if (this.saved.pen) this.pen = { ...this.saved.pen };
      this.restyle();
    }

    go(x, y) {
      this.x = Math.max(0, Math.min(this.columns - 1, x));
      this.y = Math.max(0, Math.min(this.rows - 1, y));
      this.mustWrap = false;
    }

    sequence(mark, given, final, between) {
      if (mark === "?") {
        if (final === "h" || final === "l") for (const mode of given) this.mode(mode, final === "h");
        return;
      }
      if (mark || between) return;
      const count = Math.max(1, Math.min(9999, given[0] || 1));
      const row = this.grid[this.y];
      switch (final) {
        case "A": this.go(this.x, Math.max(this.y < this.top ? 0 : this.top, this.y - count)); break;
        case "B": case "e": this.go(this.x, Math.min(this.y > this.bottom ? this.rows : this.bottom, this.y + count)); break;
        case "C": case "a": this.go(this.x + count, this.y); break;
        case "D": this.go(this.x - count, this.y); break;
        case "E": this.go(0, this.y + count); break;
        case "F": this.go(0, this.y - count); break;
        case "G": case "`": this.go(count - 1, this.y); break;
        case "d": this.go(this.x, count - 1); break;
        case "H": case "f": this.go((given[1] || 1) - 1, count - 1); break;
        case "J": this.clear(given[0] || 0); break;
        case "K": {
          const [from, to] = [[this.x, this.columns], [0, this.x + 1], [0, this.columns]][given[0] || 0] || [0, 0];
          this.wipe(this.y, from, to);
          break;
        }
        case "X": this.wipe(this.y, this.x, Math.min(this.columns, this.x + count)); break;
        case "P": row.splice(this.x, count); while (row.length < this.columns) row.push(this.space()); break;
        case "@": row.splice(this.x, 0, ...Array(Math.min(count, this.columns)).fill(this.space())); row.length = this.columns; break;
        case "b": if (this.last) for (let n = 0; n < count; n += 1) this.put(this.last); break;
        case "Z": this.go((Math.ceil(this.x / 8) - count) * 8, this.y); break;
        case "L": if (this.y >= this.top && this.y <= this.bottom) this.scroll(-count, this.y); break;
        case "M": if (this.y >= this.top && this.y <= this.bottom) this.drop(count); break;
        case "S": this.scroll(count); break;
        case "T": this.scroll(-count); break;
        case "m": this.colour(given); break;
        case "r": {
          const [first, last] = [(given[0] || 1) - 1, (given[1] || this.rows) - 1];
          if (first < last && last < this.rows) [this.top, this.bottom] = [first, last];
          this.go(0, 0);
          break;
        }
        case "s": this.save(); break;
        case "u": this.restore(); break;
        case "n": if (given[0] === 6) this.answer(`\x1b[${this.y + 1};${this.x + 1}R`); else if (given[0] === 5) this.answer("\x1b[0n"); break;
        case "c": this.answer("\x1b[?6c"); break;
        default:
      }
    }

    drop(count) {
      for (let n = 0; n < Math.min(count, this.rows); n += 1) {
        this.grid.splice(this.y, 1);
        this.grid.splice(this.bottom, 0, this.blankRow());
      }
    }

    space() { return this.pen.back === null ? Screen.blank() : { text: " ", style: `t-bg${this.pen.back}` }; }

    wipe(y, from, to) {
      for (let x = from; x < to; x += 1) this.grid[y][x] = this.space();
      this.mustWrap = false;
    }

    clear(how) {
      if (how === 3) this.forget(this.history.length);
      const rows = how === 0 ? [this.y + 1, this.rows] : how === 1 ? [0, this.y] : [0, this.rows];
      if (how > 2) return;
      for (let y = rows[0]; y < rows[1]; y += 1) this.wipe(y, 0, this.columns);
      if (how === 0) this.wipe(this.y, this.x, this.columns);
      if (how === 1) this.wipe(this.y, 0, this.x + 1);
    }

    mode(mode, on) {
      if (mode === 1) this.appKeys = on;
      else if (mode === 7) this.wraps = on;
      else if (mode === 25) this.showsCursor = on;
      else if (mode === 2004) this.pastes = on;
      else if (mode === 1049 || mode === 47 || mode === 1047) {
        if (on && !this.other) {
          this.save();
          this.other = this.grid;
          this.grid = this.blankGrid();
        } else if (!on && this.other) {
          this.grid = this.other;
          this.other = null;
          this.restore();
        }
      }
    }

    colour(given) {
      const pen = this.pen;
      for (let n = 0; n < given.length; n += 1) {
        const code = given[n];
        if (code === 0) this.pen = Object.assign(pen, { fore: null, back: null, bold: false, dim: false, under: false, invert: false });
        else if (code === 1) pen.bold = true;
        else if (code === 2) pen.dim = true;
        else if (code === 4) pen.under = true;
        else if (code === 7) pen.invert = true;
        else if (code === 22) pen.bold = pen.dim = false;
        else if (code === 24) pen.under = false;
        else if (code === 27) pen.invert = false;
        else if (code >= 30 && code <= 37) pen.fore = code - 30;
        else if (code >= 90 && code <= 97) pen.fore = code - 82;
        else if (code === 39) pen.fore = null;
        else if (code >= 40 && code <= 47) pen.back = code - 40;
        else if (code >= 100 && code <= 107) pen.back = code - 92;
        else if (code === 49) pen.back = null;
        else if (code === 38 || code === 48) {
          let found = null;
          if (given[n + 1] === 5) { found = nearest(given[n + 2] || 0); n += 2; }
          else if (given[n + 1] === 2) { found = ofRgb([given[n + 2] || 0, given[n + 3] || 0, given[n + 4] || 0]); n += 4; }
          if (code === 38) pen.fore = found;
          else pen.back = found;
        }
      }
      this.restyle();
    }

    restyle() {
      const { bold, dim, under, invert } = this.pen;
      let { fore, back } = this.pen;
      if (invert && (fore !== null || back !== null)) [fore, back] = [back, fore];
      const words = [];
      if (fore !== null) words.push(`t-fg${fore}`);
      if (back !== null) words.push(`t-bg${back}`);
      if (bold) words.push("t-bold");
      if (dim) words.push("t-dim");
      if (under) words.push("t-underline");
      if (invert && fore === null && back === null) words.push("t-inverse");
      this.style = words.join(" ");
    }
  }

  for (const name of Object.getOwnPropertyNames(Sequences.prototype)) {
    if (name !== "constructor") Screen.prototype[name] = Sequences.prototype[name];
  }
})();
