/* Draws the figure that the server wrote into each figure.chart and adds new points; the table beside
   it needs no script. */
(() => {
  "use strict";

  const SERIES = 8;
  const MOST_POINTS = 1000;
  const RENEW_MS = 20000;
  const SETTINGS = { displayModeBar: false, responsive: true };

  /* Tokens are pairs of colours; the browser resolves the one in force. */
  function colour(token) {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = `var(--${token})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function theme() {
    const axis = {
      gridcolor: colour("hair"),
      zerolinecolor: colour("border"),
      automargin: true,
      tickangle: 0,
      nticks: 5,
    };
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      colorway: Array.from({ length: SERIES }, (_, index) => colour(`c${index + 1}`)),
      font: {
        family: getComputedStyle(document.body).fontFamily,
        size: 12,
        color: colour("muted"),
      },
      hoverlabel: {
        bgcolor: colour("bg"),
        bordercolor: colour("border"),
        font: { color: colour("text"), size: 12 },
      },
      margin: { l: 40, r: 8, t: 8, b: 32 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      axis,
    };
  }

  function themed(layout) {
    const { axis, ...common } = theme();
    const kept = layout?.showlegend ? { margin: { ...common.margin, t: 32 } } : {};
    for (const [key, value] of Object.entries(layout ?? {})) {
      kept[key] = /^[xy]axis\d*$/.test(key) ? { ...axis, ...value } : value;
    }
    return { height: 240, xaxis: axis, yaxis: axis, ...common, ...kept };
  }

  /* A line needs two readings. */
  function draw(chart) {
    const plot = chart.querySelector(".plot");
    const figure = JSON.parse(chart.querySelector("script").textContent);
    if (!figure.data.some((trace) => trace.x?.length > (trace.mode === "lines" ? 1 : 0))) {
      plot.textContent = "Too few readings.";
      return;
    }
    const layout = themed(figure.layout);
    // The caption says it.
    if (chart.dataset.measure) layout.yaxis = { ...layout.yaxis, title: undefined };
    if (!chart.dataset.drawn) plot.textContent = "";
    // At a resize Plotly lets its frame be as high as this, which otherwise is as high as its frame.
    plot.style.height = `${layout.height}px`;
    window.Plotly.react(plot, figure.data, layout, SETTINGS);
    chart.dataset.drawn = "yes";
  }

  function recolour() {
    for (const plot of document.querySelectorAll("figure.chart[data-drawn] .plot")) {
      const { data, layout } = plot;
      const { height, margin, legend } = layout;
      const own = themed({ height, margin, legend });
      window.Plotly.react(plot, data, {
        ...layout,
        ...own,
        xaxis: { ...layout.xaxis, ...own.xaxis },
        yaxis: { ...layout.yaxis, ...own.yaxis },
      }, SETTINGS);
    }
  }

  /* `points`: measure → trace uid → {x: […], y: […]}. True when a trace is not drawn yet. */
  function extend(section, points) {
    let isNew = false;
    for (const chart of section.querySelectorAll("figure.chart[data-measure]")) {
      const plot = chart.querySelector(".plot");
      const [x, y, which] = [[], [], []];
      for (const [uid, more] of Object.entries(points[chart.dataset.measure] ?? {})) {
        if (!more.x?.length) continue;
        const index = (plot.data ?? []).findIndex((trace) => trace.uid === uid);
        if (index < 0) isNew = true;
        else {
          which.push(index);
          x.push(more.x);
          y.push(more.y);
        }
      }
      if (which.length) window.Plotly.extendTraces(plot, { x, y }, which, MOST_POINTS);
    }
    return isNew;
  }

  async function renew(section) {
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const chart of section.querySelectorAll("figure.chart[data-measure]")) {
      const fresh = page.querySelector(`figure.chart[data-measure="${chart.dataset.measure}"]`);
      if (!fresh) continue;
      fresh.querySelector("details").open = chart.querySelector("details").open;
      for (const part of ["script", "details"]) chart.querySelector(part).replaceWith(fresh.querySelector(part));
      draw(chart);
    }
  }

  function feed(section) {
    let since = section.dataset.since || "";
    let busy = false;
    let renewedAt = 0;

    async function poll() {
      if (busy || document.hidden || section.dataset.done === "true") return;
      busy = true;
      try {
        const url = new URL(section.dataset.pointsUrl, location.href);
        if (since) url.searchParams.set("since", since);
        const answer = await fetch(url, { headers: { Accept: "application/json" } });
        if (!answer.ok || answer.redirected) return;
        const body = await answer.json();
        since = body.latest || since;
        if (body.done) section.dataset.done = "true";
        const isNew = extend(section, body.points ?? {});
        if (isNew && Date.now() - renewedAt > RENEW_MS) {
          renewedAt = Date.now();
          await renew(section);
        }
      } catch {
        /* The next round asks for the same points again. */
      } finally {
        busy = false;
      }
    }

    /* As live.js: who chose so has it by the minute, or by a click on the word in the top bar. */
    const { updates } = document.body.dataset;
    const paceMs = section.dataset.pollS * 1000;
    if (updates !== "manual") setInterval(poll, updates === "minute" ? Math.max(paceMs, 60000) : paceMs);
    document.getElementById("live-chip").addEventListener("click", poll);
    if (updates === "live") document.addEventListener("visibilitychange", poll);
  }

  function drawAll() {
    for (const chart of document.querySelectorAll("figure.chart:not([data-drawn])")) draw(chart);
  }

  drawAll();
  for (const section of document.querySelectorAll("[data-points-url]")) feed(section);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  document.addEventListener("htmx:afterSettle", drawAll);
})();
