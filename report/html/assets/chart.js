"use strict";
// One chart of lines: uPlot draws axes and lines, this adds what it has not: markers, ranges of repeats, points that are not valid, a cursor and a zoom
// shared by charts of a group, keys, a legend of buttons, and the table behind the chart.
//
// spec = {id, title, sub, summary, x: {title, unit, log}, y: {…}, lines, marks, group, run, stepped, span, tight, bare, fromZero, whole, height}
// line = {label: {n, c, m, d, ref, f}, key, xs, ys, low, high, ok: [bool], load: [text], why: [text], valid: bool}
const Chart = (() => {
  const el = (tag, attributes, ...children) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes || {})) {
      if (k === "class") e.className = v; else if (k.startsWith("on")) e.addEventListener(k.slice(2), v); else e.setAttribute(k, v);
    }
    e.append(...children);
    return e;
  };
  const svg = (tag, attributes, ...children) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  };
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const all = new Set(); // charts that were drawn

  // Outlines of markers around 0, 0 for a radius of 1.
  const shapes = {
    circle: (p) => p.arc(0, 0, 1, 0, 2 * Math.PI),
    ring: (p) => p.arc(0, 0, 1, 0, 2 * Math.PI),
    square: (p) => p.rect(-0.9, -0.9, 1.8, 1.8),
    box: (p) => p.rect(-0.9, -0.9, 1.8, 1.8),
    triangle: (p) => { p.moveTo(0, -1.15); p.lineTo(1.1, 0.85); p.lineTo(-1.1, 0.85); p.closePath(); },
    diamond: (p) => { p.moveTo(0, -1.25); p.lineTo(1.25, 0); p.lineTo(0, 1.25); p.lineTo(-1.25, 0); p.closePath(); },
    cross: (p) => { p.moveTo(-0.9, -0.9); p.lineTo(0.9, 0.9); p.moveTo(-0.9, 0.9); p.lineTo(0.9, -0.9); },
    plus: (p) => { p.moveTo(-1.1, 0); p.lineTo(1.1, 0); p.moveTo(0, -1.1); p.lineTo(0, 1.1); },
    invalid: (p) => { p.arc(0, 0, 1.15, 0, 2 * Math.PI); p.moveTo(-0.8, 0.8); p.lineTo(0.8, -0.8); },
  };
  const open = new Set(["ring", "box", "invalid"]);
  const strokes = new Set(["cross", "plus"]);

  function drawMarker(ctx, name, x, y, r, colour, ground) {
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(r, r);
    ctx.beginPath();
    (shapes[name] || shapes.circle)(ctx);
    ctx.restore();
    ctx.strokeStyle = colour;
    ctx.lineWidth = r * 0.42;
    if (!strokes.has(name)) {
      ctx.fillStyle = open.has(name) ? ground : colour;
      ctx.fill();
    }
    if (open.has(name) || strokes.has(name)) ctx.stroke();
  }

  // swatch draws a label as a chart does.
  function swatch(label, marker) {
    const s = svg("svg", { viewBox: "-15 -6 30 12", width: 30, height: 12, "aria-hidden": "true", class: "swatch" });
    s.append(svg("line", { x1: -15, x2: 15, y1: 0, y2: 0, stroke: label.c, "stroke-width": 2, "stroke-dasharray": (label.d || []).join(" ") }));
    if (!marker || !label.m) return s;
    const d = {
      circle: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", ring: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", square: "M-3.6,-3.6h7.2v7.2h-7.2z", box: "M-3.6,-3.6h7.2v7.2h-7.2z",
      triangle: "M0,-4.6L4.4,3.4L-4.4,3.4z", diamond: "M0,-5L5,0L0,5L-5,0z", cross: "M-3.6,-3.6L3.6,3.6M-3.6,3.6L3.6,-3.6", plus: "M-4.4,0H4.4M0,-4.4V4.4",
    }[label.m] || "";
    const p = svg("path", { d, stroke: label.c, "stroke-width": 1.7, fill: open.has(label.m) || strokes.has(label.m) ? "none" : label.c });
    if (open.has(label.m)) p.setAttribute("class", "ground");
    s.append(p);
    return s;
  }

  // Groups share a cursor, a zoom, and which lines are hidden.
  const groups = new Map();
  function group(name) {
    if (!groups.has(name)) groups.set(name, { charts: new Set(), hidden: new Set(), zoom: null, busy: false });
    return groups.get(name);
  }

  // toggle hides or shows a line in every chart of a run, and says so in every legend. It asks who is there rather than keeping a list: charts come and
  // go with what is chosen.
  function toggle(run, key) {
    const { hidden } = group(run), shown = hidden.delete(key);
    if (!shown) hidden.add(key);
    for (const c of all) if (c.run === run) c.toggled(key, shown);
    for (const b of document.querySelectorAll(".legend button[data-run]")) {
      if (b.dataset.run === run && b.dataset.key === key) b.setAttribute("aria-pressed", String(shown));
    }
  }

  // legend returns buttons for labels; they hide and show a line in every chart of the run.
  function legend(labels, run, marker) {
    const box = el("div", { class: "legend", role: "group", "aria-label": "Lines" });
    for (const { label, key, note } of labels) {
      const state = { "aria-pressed": String(!group(run).hidden.has(key)), "data-key": key, "data-run": run };
      box.append(el("button", { type: "button", ...state, onclick: () => toggle(run, key) },
        swatch(label, marker), el("bdi", {}, label.n), ...(note ? [el("small", {}, note)] : [])));
    }
    return box;
  }

  function nearest(xs, x) {
    let low = 0, high = xs.length - 1;
    if (high < 0) return -1;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (xs[mid] < x) low = mid; else high = mid;
    }
    return Math.abs(xs[low] - x) <= Math.abs(xs[high] - x) ? low : high;
  }

  const usable = (axis, v) => Format.finite(v) && (!axis.log || v > 0);

  class Lines {
    constructor(figure, host, spec) {
      this.figure = figure;
      this.host = host;
      this.spec = spec;
      this.run = spec.run;
      this.group = group(spec.group);
      this.tip = el("div", { class: "tip", hidden: "" });
      this.make();
      host.append(this.tip);
      this.group.charts.add(this);
      all.add(this);
      this.sized = new ResizeObserver(() => this.fit());
      this.sized.observe(host);
      host.addEventListener("keydown", (e) => this.key(e));
      host.addEventListener("blur", () => this.leave());
    }

    toggled(key, shown) {
      this.spec.lines.forEach((l, i) => { if (l.key === key) this.plot.setSeries(i + 1, { show: shown }); });
    }

    size() {
      const width = Math.max(200, Math.floor(this.host.clientWidth));
      return { width, height: this.spec.height || (width < 420 ? 230 : 270) };
    }

    fit() {
      const s = this.size();
      if (s.width !== this.plot.width) this.plot.setSize(s);
    }

    // data puts the lines on one vector of places. What a line has no point for is undefined, which does not break it; null does.
    data() {
      const { x, y, lines } = this.spec;
      const tables = lines.map((l) => {
        const xs = [], ys = [];
        l.xs.forEach((v, i) => {
          if (!usable(x, v) || xs.length && v <= xs[xs.length - 1]) return;
          xs.push(v);
          ys.push(usable(y, l.ys[i]) ? l.ys[i] : null);
        });
        return [xs, ys];
      });
      return tables.length === 1 ? tables[0] : uPlot.join(tables, tables.map(() => [1, 1]));
    }

    make() {
      const spec = this.spec, { x, y, lines } = spec;
      const data = this.data();
      this.full = this.fullRange(data[0]);
      this.single = data[0].length === 1 && !spec.bare ? data[0][0] : null;
      const font = "12px " + css("--font");
      const axis = (a, side) => ({
        stroke: () => css("--ink-2"), font, side, grid: { stroke: () => css("--grid"), width: 1 }, ticks: { stroke: () => css("--grid"), width: 1, size: 4 }, gap: 5,
        splits: side === 2 && this.single !== null ? () => [this.single] : a.log ? (u, i, low, high) => Format.logTicks(low, high) : undefined,
        filter: a.log ? (u, splits) => splits : undefined,
        values: (u, splits) => splits.map((v) => Format.value(v, a.unit, true)),
      });
      const options = {
        ...this.size(), pxAlign: 1, legend: { show: false },
        padding: [12, spec.tight ? 26 : 16, 0, 4], // the last tick of a tight one may stand at the very edge
        scales: {
          x: { time: false, distr: x.log ? 3 : 1, range: (u, low, high) => (this.group.zoom || (low === null ? this.full : [low, high])) },
          y: { distr: y.log ? 3 : 1, range: (u, low, high) => this.yRange(low, high) },
        },
        axes: [
          { ...axis(x, 2), space: 58, size: 30 },
          { ...axis(y, 3), space: 34, size: (u, values) => Math.max(34, 12 + 6.7 * Math.max(...(values || [""]).map((v) => (v || "").length))) },
        ],
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: true, dist: 6 } },
        series: [{}, ...lines.map((l) => ({
          stroke: l.label.c, width: l.label.ref ? 1.5 : l.xs.length > 600 ? 1 : 2, dash: l.valid === false ? [3, 4] : l.label.d, show: !group(this.run).hidden.has(l.key),
          points: { show: false }, auto: !l.label.f, paths: spec.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
        }))],
        hooks: {
          drawAxes: [(u) => this.drawBehind(u)],
          draw: [(u) => this.drawPoints(u)],
          setCursor: [(u) => this.moved(u)],
          setScale: [(u, key) => { if (key === "x") this.zoomed(u); }],
        },
      };
      this.plot = new uPlot(options, data, this.host);
      this.plot.over.addEventListener("dblclick", () => this.zoom(null));
      this.plot.over.addEventListener("mouseleave", () => this.leave());
      this.figure.classList.toggle("zoomed", this.group.zoom !== null);
      if (!this.group.zoom) this.plot.setScale("x", { min: this.full[0], max: this.full[1] });
    }

    fullRange(xs) {
      const { x } = this.spec;
      if (!xs.length) return x.log ? [1, 10] : [0, 1];
      const [low, high] = this.spec.span || [xs[0], xs[xs.length - 1]];
      if (this.spec.tight && low < high) return [low, high];
      if (x.log) return Format.logRange(low, high);
      if (low === high) return low === 0 ? [-1, 1] : [low - Math.abs(low) / 2, low + Math.abs(low) / 2];
      return [low - (high - low) * 0.04, high + (high - low) * 0.04];
    }

    yRange(low, high) {
      const { y, lines } = this.spec;
      for (const l of lines) { // the ranges of repeats are to be seen whole
        if (group(this.run).hidden.has(l.key)) continue;
        for (const list of [l.low, l.high]) {
          for (const v of list || []) {
            if (!usable(y, v)) continue;
            if (low === null || v < low) low = v;
            if (high === null || v > high) high = v;
          }
        }
      }
      const r = y.log ? Format.logRange(low, high) : Format.linearRange(low, high, this.spec.fromZero);
      if (y.unit === "%" && r[0] === 0) r[1] = Math.max(r[1], this.spec.whole ? 1.04 : 0.02);
      return r;
    }

    // drawBehind draws what stands at a place of the x axis, such as a change of phase.
    drawBehind(u) {
      const ctx = u.ctx, ratio = devicePixelRatio, { left, top, width, height } = u.bbox;
      let free = left; // where the next name may begin
      for (const m of this.spec.marks || []) {
        const at = u.valToPos(m.x, "x", true);
        if (at < left || at > left + width) continue;
        ctx.save();
        ctx.strokeStyle = css("--ink-3");
        ctx.setLineDash([2 * ratio, 4 * ratio]);
        ctx.lineWidth = ratio;
        ctx.beginPath();
        ctx.moveTo(at, top);
        ctx.lineTo(at, top + height);
        ctx.stroke();
        ctx.fillStyle = css("--ink-2");
        ctx.font = `${11 * ratio}px ${css("--font")}`;
        ctx.textBaseline = "top";
        ctx.textAlign = "left";
        const wide = ctx.measureText(m.text || "").width, gap = 4 * ratio;
        const x = at + gap + wide <= left + width ? at + gap : at - gap - wide; // beyond the edge nobody sees it
        if (m.text && x >= free) {
          ctx.fillText(m.text, x, top + 2 * ratio);
          free = x + wide + gap;
        }
        ctx.restore();
      }
    }

    drawPoints(u) {
      const ctx = u.ctx, ratio = devicePixelRatio, ground = css("--ground"), { left, top, width, height } = u.bbox;
      const invalid = [];
      ctx.save();
      ctx.setLineDash([]); // the last line may have left its own
      ctx.beginPath();
      ctx.rect(left - 8 * ratio, top - 8 * ratio, width + 16 * ratio, height + 16 * ratio);
      ctx.clip();
      this.spec.lines.forEach((l, n) => {
        if (!u.series[n + 1].show || this.spec.bare) return;
        const dense = l.xs.length > 80;
        l.xs.forEach((x, i) => {
          if (!usable(this.spec.x, x) || !usable(this.spec.y, l.ys[i])) return;
          let px = u.valToPos(x, "x", true);
          const py = u.valToPos(l.ys[i], "y", true);
          if (this.single !== null) {
            if (l.label.ref) { this.across(u, py, l.label); return; }
            px += this.beside(n) * ratio; // all at one load: side by side
          }
          if (px < left - 1 || px > left + width + 1) return;
          if (l.low && usable(this.spec.y, l.low[i]) && l.high[i] > l.low[i]) this.whisker(u, px, l.low[i], l.high[i], l.label.c);
          if (l.ok && !l.ok[i]) { invalid.push([px, py, l.label.c]); return; }
          if (!l.label.ref && !dense) drawMarker(ctx, l.label.m || "circle", px, py, 4 * ratio, l.label.c, ground);
        });
      });
      for (const [px, py, colour] of invalid) drawMarker(ctx, "invalid", px, py, 5 * ratio, colour, ground);
      ctx.restore();
    }

    // across draws a reference that has but one place.
    across(u, py, label) {
      const ctx = u.ctx, ratio = devicePixelRatio, { left, width } = u.bbox;
      ctx.strokeStyle = label.c;
      ctx.lineWidth = 1.5 * ratio;
      ctx.setLineDash((label.d || []).map((v) => v * ratio));
      ctx.beginPath();
      ctx.moveTo(left, py);
      ctx.lineTo(left + width, py);
      ctx.stroke();
      ctx.setLineDash([]);
    }

    // beside is how far from its place a line's point stands where all have the same.
    beside(n) {
      const measured = this.spec.lines.filter((l) => !l.label.ref), at = measured.indexOf(this.spec.lines[n]);
      const step = Math.min(36, (this.plot.over.clientWidth - 30) / measured.length);
      return (at - (measured.length - 1) / 2) * step;
    }

    whisker(u, px, low, high, colour) {
      const ctx = u.ctx, ratio = devicePixelRatio, a = u.valToPos(low, "y", true), b = u.valToPos(high, "y", true), w = 3.5 * ratio;
      ctx.strokeStyle = colour;
      ctx.lineWidth = 1.2 * ratio;
      ctx.beginPath();
      ctx.moveTo(px, a); ctx.lineTo(px, b);
      ctx.moveTo(px - w, a); ctx.lineTo(px + w, a);
      ctx.moveTo(px - w, b); ctx.lineTo(px + w, b);
      ctx.stroke();
    }

    // moved shows what stands at the cursor, here and in the other charts of the group.
    moved(u) {
      const { left } = u.cursor;
      if (left === null || left === undefined || left < 0) { this.tip.hidden = true; return; }
      const x = u.posToVal(left, "x");
      this.show(x, left, !this.followed);
      if (this.group.busy) return;
      this.group.busy = true;
      for (const c of this.group.charts) if (c !== this) c.follow(x);
      this.group.busy = false;
    }

    follow(x) {
      const u = this.plot, at = u.valToPos(x, "x");
      this.followed = true;
      u.setCursor(at >= 0 && at <= u.over.clientWidth ? { left: at, top: 0 } : { left: -10, top: -10 });
      this.followed = false;
    }

    leave() {
      for (const c of this.group.charts) {
        c.plot.setCursor({ left: -10, top: -10 });
        c.tip.hidden = true;
      }
    }

    // readings are the values of the lines nearest to x.
    readings(x) {
      const { y, lines } = this.spec, list = [];
      let at = null;
      lines.forEach((l, n) => {
        if (!this.plot.series[n + 1].show) return;
        const i = nearest(l.xs, x);
        if (i < 0) return;
        if (at === null || Math.abs(l.xs[i] - x) < Math.abs(at - x)) at = l.xs[i];
      });
      lines.forEach((l, n) => {
        if (!this.plot.series[n + 1].show || at === null) return;
        const i = nearest(l.xs, at);
        const bad = l.valid === false || l.ok && !l.ok[i];
        list.push({ line: l, y: l.ys[i], text: Format.value(l.ys[i], y.unit), low: l.low && l.low[i], high: l.high && l.high[i], bad, load: l.load && l.load[i] });
      });
      list.sort((a, b) => (b.y ?? -Infinity) - (a.y ?? -Infinity));
      return { at, list };
    }

    heading(r) {
      const { x } = this.spec, load = r.list.find((e) => e.load);
      const text = load ? load.load : Format.value(r.at, x.unit);
      return load && Format.unitName(x.unit) ? text + " " + Format.unitName(x.unit) : text;
    }

    show(x, left, loud) {
      const r = this.readings(x);
      if (r.at === null) { this.tip.hidden = true; return; }
      const rows = r.list.map((e) => {
        const range = Format.finite(e.low) && Format.finite(e.high) && e.low !== e.high
          ? "(" + Format.value(e.low, this.spec.y.unit) + " to " + Format.value(e.high, this.spec.y.unit) + ")" : "";
        return el("tr", {}, el("td", {}, swatch(e.line.label, true)), el("td", {}, el("bdi", {}, e.line.label.n)),
          el("td", { class: "n" }, e.text), el("td", {}, el("small", {}, range), e.bad ? el("small", { class: "bad" }, " not valid") : ""));
      });
      this.tip.replaceChildren(el("div", { class: "at" }, this.heading(r)), el("table", {}, el("tbody", {}, ...rows)));
      this.tip.hidden = false;
      const room = this.host.clientWidth, w = this.tip.offsetWidth, at = left + this.plot.bbox.left / devicePixelRatio;
      this.tip.style.left = Math.max(0, Math.min(at + 14 + w > room ? at - w - 14 : at + 14, room - w)) + "px";
      this.tip.style.top = "8px";
      this.said = this.heading(r) + ": " + r.list.map((e) => e.line.label.n + " " + e.text + (e.bad ? " not valid" : "")).join(", ");
    }

    zoomed(u) {
      const { min, max } = u.scales.x;
      if (this.group.busy || min === null || this.setting) return;
      const full = Math.abs(min - this.full[0]) + Math.abs(max - this.full[1]) < 1e-9 * Math.abs(this.full[1] - this.full[0]);
      const zoom = full ? null : [min, max];
      if (String(zoom) === String(this.group.zoom)) return;
      this.zoom(zoom);
    }

    // zoom shows [low, high] in all charts of the group; null is everything.
    zoom(range) {
      const g = this.group;
      g.zoom = range;
      g.busy = true;
      for (const c of g.charts) {
        const [min, max] = range || c.full;
        c.plot.setScale("x", { min, max });
        c.figure.classList.toggle("zoomed", range !== null);
      }
      g.busy = false;
    }

    zoomBy(factor) {
      const u = this.plot, log = this.spec.x.log, to = log ? Math.log : (v) => v, from = log ? Math.exp : (v) => v;
      const low = to(u.scales.x.min), high = to(u.scales.x.max), a = to(this.full[0]), b = to(this.full[1]);
      const left = u.cursor.left >= 0 ? to(u.posToVal(u.cursor.left, "x")) : (low + high) / 2;
      const width = (high - low) * factor;
      if (width >= b - a) { this.zoom(null); return; }
      if (width < (b - a) * 1e-5) return;
      const start = Math.min(Math.max(left - (left - low) * factor, a), b - width);
      this.zoom([from(start), from(start + width)]);
    }

    key(e) {
      if (e.target !== this.host || e.ctrlKey || e.metaKey || e.altKey) return;
      const step = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -Infinity, End: Infinity }[e.key];
      if (step !== undefined) this.step(e.shiftKey ? step * 10 : step);
      else if (e.key === "+" || e.key === "=") this.zoomBy(1 / 2);
      else if (e.key === "-" || e.key === "−" || e.key === "_") this.zoomBy(2);
      else if (e.key === "0" || e.key === "Escape") { this.zoom(null); this.leave(); }
      else return;
      e.preventDefault();
    }

    // step moves the cursor to another place that has a point.
    step(by) {
      const u = this.plot, xs = u.data[0];
      if (!xs.length) return;
      const now = u.cursor.left >= 0 ? nearest(xs, u.posToVal(u.cursor.left, "x")) : by > 0 ? -1 : xs.length;
      const i = Math.max(0, Math.min(xs.length - 1, now + by));
      const { min, max } = u.scales.x, x = xs[i];
      if (x < min || x > max) {
        const w = max - min, low = Math.max(this.full[0], Math.min(x - w / 2, this.full[1] - w));
        this.zoom([low, low + w]);
      }
      u.setCursor({ left: u.valToPos(x, "x"), top: 4 });
      document.getElementById("live").textContent = this.said || "";
    }

    close() {
      this.group.charts.delete(this);
      all.delete(this);
      this.sized.disconnect();
      this.plot.destroy();
    }
  }

  function redraw() {
    for (const c of all) { c.fit(); c.plot.redraw(false, true); }
  }

  return { el, svg, css, Lines, legend, swatch, group, redraw, all };
})();
