"use strict";
// Stacked bars in panels, as elements of SVG: they follow the theme and a printer without being drawn anew.
const Bars = (() => {
  const { el, svg } = Chart;

  // Colours of segments and the patterns upon them: neighbours differ in both, so that they can be told apart without colours.
  const looks = {
    ok: ["#009e73", ""], late: ["#e69f00", "rising"], refused: ["#56b4e9", ""], rejected: ["#0072b2", "falling"], dropped: ["#d55e00", "dots"],
    expired: ["#cc79a7", "rising"],
    "timed out": ["#8c8c8c", ""], failed: ["#5a4a42", "falling"], unsent: ["#b8b000", "dots"],
    queue_full: ["#0072b2", ""], queue_delay: ["#e69f00", "rising"], limit: ["#009e73", "falling"], slo: ["#cc79a7", ""], priority: ["#8a63b8", "dots"],
    fraction: ["#5f8f3e", ""], resource: ["#a65628", "rising"], budget: ["#4b6a9b", "falling"], codel: ["#b8860b", ""], lock: ["#d55e00", "falling"],
    memory: ["#d55e00", "dots"], cancelled: ["#8c8c8c", "rising"],
    other: ["#8c8c8c", ""],
  };
  const look = (name) => looks[name] || ["#0072b2", ""];

  // patterns are there once in a page.
  function patterns() {
    if (document.getElementById("pattern-rising")) return;
    const make = (id, d) => svg("pattern", { id: "pattern-" + id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, svg("path", { d, class: "hatch" }));
    document.body.append(svg("svg", { width: 0, height: 0, class: "quiet", "aria-hidden": "true" }, svg("defs", {},
      make("rising", "M-1,1L1,-1M0,6L6,0M5,7L7,5"), make("falling", "M-1,5L1,7M0,0L6,6M5,-1L7,1"),
      make("dots", "M2,3a1,1 0 1,0 2,0a1,1 0 1,0 -2,0"), make("invalid", "M0,0L6,6M0,6L6,0"))));
  }

  function block(x, width, height, colour, pattern) {
    const g = svg("g");
    if (width <= 0) return g;
    const box = { x: x.toFixed(3) + "%", y: 0, width: width.toFixed(3) + "%", height };
    g.append(svg("rect", { ...box, fill: colour }));
    if (pattern) g.append(svg("rect", { ...box, fill: `url(#pattern-${pattern})` }));
    return g;
  }

  function legendOf(spec, hidden, draw) {
    const box = el("div", { class: "legend", role: "group", "aria-label": "Segments" });
    for (const name of spec.seg) {
      const [colour, pattern] = look(name);
      const s = svg("svg", { width: 14, height: 12, "aria-hidden": "true", class: "swatch" }, block(0, 100, 12, colour, pattern));
      const b = el("button", { type: "button", "aria-pressed": "true", "data-key": name }, s, name.replace("_", " "));
      b.addEventListener("click", () => {
        if (!hidden.delete(name)) hidden.add(name);
        b.setAttribute("aria-pressed", String(!hidden.has(name)));
        draw();
      });
      box.append(b);
    }
    return box;
  }

  // parts returns what a row consists of: [{name, share, text}].
  function parts(spec, row) {
    const whole = row[2];
    return spec.seg.map((name, i) => ({ name, share: whole > 0 && Format.finite(row[3 + i]) ? row[3 + i] / whole : null }));
  }

  function rowOf(spec, run, row, hidden) {
    const label = spec.by ? run.labels[row[0]] : null;
    const name = label ? label.n : row[0];
    const list = parts(spec, row);
    const picture = svg("svg", { height: 14, width: "100%", class: "bar", "aria-hidden": "true" });
    let x = 0, longest = 1;
    for (const p of list) if (p.share > longest) longest = p.share;
    for (const p of list) {
      if (p.share === null || hidden.has(p.name)) continue;
      const [colour, pattern] = label ? [label.c, ""] : look(p.name);
      picture.append(block(x, 100 * p.share / longest, 14, colour, row[1] ? pattern : "invalid"));
      x += 100 * p.share / longest;
    }
    const some = list.filter((p) => p.share > 0), told = some.length ? some : list, none = list.every((p) => p.share === null);
    const said = none ? "nothing was due" : told.map((p) => p.name.replace("_", " ") + " " + Format.value(p.share, "%")).join(", ");
    const text = label ? Format.value(list[0].share, "%") : none ? "none due" : "";
    const line = el("div", { class: "row" + (row[1] ? "" : " bad"), tabindex: "0", role: "img", "aria-label": `${name}: ${said}${row[1] ? "" : ", not valid"}` },
      el("bdi", { class: "name" }, name), el("span", { class: "track" }, picture), el("span", { class: "num" }, text, row[1] ? "" : " ⊘"));
    const tell = (e) => {
      const tip = line.closest("figure").querySelector(".tip");
      const rows = told.map((p) => el("tr", {}, el("td", {}, p.name.replace("_", " ")), el("td", { class: "n" }, Format.value(p.share, "%"))));
      tip.replaceChildren(el("div", { class: "at" }, el("bdi", {}, name), row[1] ? "" : " · not valid"), el("table", {}, el("tbody", {}, ...rows)));
      tip.hidden = e === null;
      const box = line.getBoundingClientRect(), home = tip.offsetParent.getBoundingClientRect();
      tip.style.left = Math.max(0, Math.min(box.left - home.left + 20, home.width - tip.offsetWidth)) + "px";
      tip.style.top = box.bottom - home.top + 4 + "px";
    };
    line.addEventListener("mouseenter", tell);
    line.addEventListener("focus", tell);
    const away = () => { line.closest("figure").querySelector(".tip").hidden = true; };
    line.addEventListener("mouseleave", away);
    line.addEventListener("blur", away);
    return line;
  }

  // draw fills a figure with the bars of a spec. Arrows move between bars.
  function draw(figure, host, spec, run) {
    patterns();
    const hidden = new Set();
    const panels = el("div", { class: "bars" + (spec.by ? " by" : "") });
    const panel = (p) => el("div", { class: "panel" }, el("h6", {}, el("bdi", {}, p.t)), ...p.r.map((r) => rowOf(spec, run, r, hidden)));
    const fill = () => panels.replaceChildren(...spec.panels.map(panel));
    const longest = Math.max(4, ...spec.panels.flatMap((p) => p.r.map((r) => String(spec.by ? run.labels[r[0]].n : r[0]).length)));
    panels.style.setProperty("--name", Math.min(longest * 0.62, 13) + "em"); // so that bars begin below each other
    fill();
    panels.addEventListener("keydown", (e) => {
      const by = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[e.key];
      if (!by) return;
      const rows = [...panels.querySelectorAll(".row")], next = rows[rows.indexOf(document.activeElement) + by];
      if (next) { next.focus(); e.preventDefault(); }
    });
    if (!spec.by && spec.seg.length > 0) host.append(legendOf(spec, hidden, fill));
    host.append(panels, el("div", { class: "tip", hidden: "" }));
    if (spec.note) host.append(el("p", { class: "hint" }, spec.note));
  }

  // table returns head and rows of the table behind the bars.
  function table(spec, run) {
    const head = [spec.by ? "scenario" : "controller", spec.by ? "allocator" : "load", ...(spec.by ? [] : ["due"]), ...spec.seg.map((s) => s.replace("_", " ")), "valid"];
    const rows = [];
    for (const p of spec.panels) {
      for (const r of p.r) {
        rows.push([p.t, spec.by ? run.labels[r[0]].n : r[0], ...(spec.by ? [] : [String(r[2])]),
          ...parts(spec, r).map((s, i) => (Format.value(s.share, "%") + (spec.by ? "" : ` (${r[3 + i]})`))), r[1] ? "valid" : "not valid"]);
      }
    }
    return { h: head, a: head.map((_, i) => i > 0 && i < head.length - 1 && !(spec.by && i === 1)), r: rows };
  }

  return { draw, table };
})();
