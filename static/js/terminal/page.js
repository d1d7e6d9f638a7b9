/* The shell's page: draws the screen, sends keys, and comes back when the connection was lost. */
(() => {
  "use strict";

  const Screen = window.TrainyardScreen;
  const place = document.getElementById("terminal");
  const state = document.getElementById("state");
  const MAX_KEYS = 8192;
  const IS_MAC = navigator.platform.startsWith("Mac");
  const encoder = new TextEncoder();
  const keyboard = document.createElement("textarea");
  const view = document.createElement("div");
  const past = document.createElement("div");
  const rows = document.createElement("div");
  let socket = null;
  let tries = 0;
  let drawn = 0; // the number of the next row of the past, counted from its beginning
  let frame = 0;
  let isPressed = false; // the pointer, on a row
  let isBehind = false; // the rows, while a part of them is being chosen
  let size = [80, 24];

  keyboard.className = "shell-keys";
  keyboard.setAttribute("aria-label", "Type into the shell; Ctrl+Shift+Up leaves it");
  for (const [name, value] of [["autocapitalize", "off"], ["autocomplete", "off"], ["spellcheck", "false"]]) keyboard.setAttribute(name, value);
  view.className = "shell-view";
  view.tabIndex = 0;
  rows.setAttribute("role", "log");
  view.append(past, rows);
  place.replaceChildren(view, keyboard);

  const screen = new Screen(80, 24, (text) => send(text));

  function say(word, isPaused) {
    state.textContent = word;
    state.classList.toggle("paused", isPaused);
  }

  function send(text) {
    if (!socket || socket.readyState !== WebSocket.OPEN) return;
    const bytes = encoder.encode(text);
    for (let at = 0; at < bytes.length; at += MAX_KEYS) socket.send(bytes.slice(at, at + MAX_KEYS));
  }

  function rowElement(cells, cursorAt) {
    const line = document.createElement("div");
    let run = null;
    let style = null;
    cells.forEach((cell, x) => {
      const wanted = x === cursorAt ? `${cell.style} shell-cursor` : cell.style;
      if (run === null || wanted !== style) {
        run = document.createElement("span");
        run.className = style = wanted;
        line.append(run);
      }
      run.textContent += cell.text;
    });
    return line;
  }

  function draw() {
    frame = 0;
    // New rows take the place of those drawn: what is chosen in them would be lost to the copy.
    const chosen = getSelection();
    isBehind = isPressed || !chosen.isCollapsed && chosen.containsNode(rows, true);
    if (isBehind) return;
    const stays = view.scrollTop + view.clientHeight < view.scrollHeight - 4;
    const { history, gone } = screen;
    while (past.childElementCount > Math.max(0, drawn - gone)) past.firstChild.remove();
    for (drawn = Math.max(drawn, gone); drawn < gone + history.length; drawn += 1) past.append(rowElement(history[drawn - gone], -1));
    past.hidden = screen.other !== null;
    rows.replaceChildren(...screen.grid.map((cells, y) => rowElement(cells, screen.showsCursor && y === screen.y ? screen.x : -1)));
    if (!stays) view.scrollTop = view.scrollHeight;
    document.title = `${screen.title || "Shell"} · Trainyard`;
  }

  function drawSoon() {
    if (!frame) frame = requestAnimationFrame(draw);
  }

  function catchUp() {
    if (isBehind) drawSoon();
  }

  function choose(pressed) {
    isPressed = pressed;
    catchUp();
  }

  function fit() {
    const probe = document.createElement("span");
    probe.textContent = "0".repeat(100);
    rows.append(probe);
    const box = probe.getBoundingClientRect();
    probe.remove();
    if (!box.width) return;
    const columns = Math.max(20, Math.min(500, Math.floor((view.clientWidth - 16) / (box.width / 100))));
    const lines = Math.max(4, Math.min(200, Math.floor((view.clientHeight - 8) / 18)));
    size = [columns, lines];
    if (columns !== screen.columns || lines !== screen.rows) screen.resize(columns, lines);
    if (socket && socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(size));
    drawSoon();
  }

  function connect() {
    socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}${location.pathname}terminal`);
    socket.binaryType = "arraybuffer";
    let isFirst = true;
    socket.addEventListener("open", () => {
      fit();
      keyboard.focus();
    });
    socket.addEventListener("message", (event) => {
      if (isFirst) {
        // The shell is there: what was printed lately comes once more.
        isFirst = false;
        tries = 0;
        screen.begin();
        say("connected", false);
      }
      screen.write(new Uint8Array(event.data));
      drawSoon();
    });
    socket.addEventListener("close", (event) => {
      if (event.code === 1000 || event.code === 4403 || event.code === 1006 && tries > 8) {
        say(event.code === 1000 ? "the shell has ended" : "not connected any more; reload the page to try again", true);
        return;
      }
      tries += 1;
      say("connection lost, trying again", true);
      setTimeout(connect, Math.min(10000, 500 * 2 ** tries) * (0.8 + Math.random() * 0.4));
    });
  }

  const KEYS = { ArrowUp: "A", ArrowDown: "B", ArrowRight: "C", ArrowLeft: "D", Home: "H", End: "F" };
  const TILDE = { Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F12: 24 };
  const PLAIN = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", F1: "\x1bOP", F2: "\x1bOQ", F3: "\x1bOR", F4: "\x1bOS" };

  function bytesOf(event) {
    const { key } = event;
    if (event.metaKey || event.isComposing) return null;
    // Tab is the shell's: this is how the keyboard gets out. Ctrl+Shift+C and the like stay the browser's.
    if (event.ctrlKey && event.shiftKey && key === "ArrowUp") document.querySelector(".shell-head a").focus();
    if (event.ctrlKey && event.shiftKey) return null;
    if (event.ctrlKey && key === "c" && String(getSelection())) return null;
    if (event.ctrlKey && key === "v") return null;
    if (key === "Tab" && event.shiftKey) return "\x1b[Z";
    if (KEYS[key]) return event.ctrlKey ? `\x1b[1;5${KEYS[key]}` : `\x1b${screen.appKeys ? "O" : "["}${KEYS[key]}`;
    if (TILDE[key]) return `\x1b[${TILDE[key]}~`;
    if (PLAIN[key]) return (event.altKey ? "\x1b" : "") + PLAIN[key];
    if (key.length !== 1) return null;
    if (event.ctrlKey && !event.altKey) {
      if (key === " ") return "\x00";
      const code = key.toUpperCase().charCodeAt(0);
      return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : null;
    }
    // On a Mac Alt makes signs, @ and [ among them: those are typed.
    return event.altKey && !event.ctrlKey && !IS_MAC ? `\x1b${key}` : null;
  }

  keyboard.addEventListener("keydown", (event) => {
    const text = bytesOf(event);
    if (text === null) return;
    event.preventDefault();
    if (isBehind) getSelection().removeAllRanges();
    view.scrollTop = view.scrollHeight;
    send(text);
  });
  keyboard.addEventListener("input", (event) => {
    if (event.isComposing) return;
    send(keyboard.value.replaceAll("\n", "\r"));
    keyboard.value = "";
  });
  keyboard.addEventListener("compositionend", () => {
    send(keyboard.value);
    keyboard.value = "";
  });
  keyboard.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = event.clipboardData.getData("text").replace(/\r?\n/g, "\r").replaceAll("\x1b", "");
    send(screen.pastes ? `\x1b[200~${text}\x1b[201~` : text);
  });
  view.addEventListener("mouseup", () => {
    if (!String(getSelection())) keyboard.focus({ preventScroll: true });
  });
  // Presses of a scroll bar, and on a Mac with Ctrl for the menu, have no end that a page hears of.
  view.addEventListener("mousedown", (event) => choose(event.button === 0 && event.target !== view && !(IS_MAC && event.ctrlKey)));
  for (const end of ["mouseup", "dragend", "blur"]) window.addEventListener(end, () => choose(false));
  document.addEventListener("selectionchange", catchUp);
  view.addEventListener("keydown", (event) => {
    // What is typed beside something chosen is the shell's, but for the keys that copy it.
    if (!isBehind || event.key.length > 1 || event.ctrlKey || event.metaKey) return;
    getSelection().removeAllRanges();
    keyboard.focus({ preventScroll: true });
  });
  new ResizeObserver(fit).observe(view);
  connect();
})();
