"use strict";
// The page: makes figures of the data when their places come into view, and tables when they are opened.
(() => {
  const { el } = Chart;
  const data = JSON.parse(document.getElementById("data").textContent);
  const pending = new Map(); // element → what draws it
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) if (e.isIntersecting) drawNow(e.target);
  }, { rootMargin: "300px" });

  function later(element, draw) {
    pending.set(element, draw);
    seen.observe(element);
  }
  function drawNow(element) {
    const draw = pending.get(element);
    if (!draw) return;
    pending.delete(element);
    seen.unobserve(element);
    try {
      draw();
    } catch (e) { // the others are still worth having
      console.error(e);
      element.append(el("p", { class: "notice" }, `This could not be drawn: ${e.message}. What it shows is in report.md beside this page.`));
    }
  }

  // inView draws what stands on the screen now. A browser that makes a picture of a page, or prepares one, may never say that something came into view.
  function inView() {
    const at = [...pending.keys()].map((e) => [e, e.getBoundingClientRect()]);
    for (const [e, r] of at) if (r.width && r.bottom > -300 && r.top < innerHeight + 300) drawNow(e);
  }

  // Tables.
  const chunk = 200;
  function tableOf(t) {
    const head = el("tr", {}, ...t.h.map((h, i) => el("th", { scope: "col", class: t.a[i] ? "n" : "" }, h)));
    const body = el("tbody");
    const box = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" }, el("table", {}, el("thead", {}, head), body));
    let shown = 0;
    const more = el("button", { type: "button", class: "more" });
    const add = (n) => {
      const rows = t.r.slice(shown, shown + n).map((r) => {
        const row = el("tr", {}, ...r.map((c, i) => el("td", { class: t.a[i] ? "n" : "" }, el("bdi", {}, c === null ? Format.unknown : String(c)))));
        if (r.includes("not valid")) row.className = "bad";
        return row;
      });
      body.append(...rows);
      shown += rows.length;
      more.hidden = shown >= t.r.length;
      more.textContent = `Show ${Math.min(5 * chunk, t.r.length - shown)} more of ${t.r.length} rows`;
    };
    add(chunk);
    more.addEventListener("click", () => add(5 * chunk));
    return [box, more];
  }
  function onOpen(details, content) {
    const fill = () => {
      if (!details.open || details.dataset.filled) return;
      details.dataset.filled = "yes";
      details.append(...content());
    };
    details.addEventListener("toggle", fill);
    fill();
  }

  // A figure: title, what it says in words, legend, the picture, the table.
  function figure(spec, draw, table) {
    const id = spec.id;
    const name = [spec.title, spec.sub].filter(Boolean).join(", ");
    const keys = spec.bars ? {} : {
      tabindex: "0", role: "img", "aria-roledescription": "chart", "aria-label": `${name}. ${spec.summary} Arrow keys move the cursor, plus and minus zoom, 0 resets.`,
    };
    const host = el("div", { class: "plot", ...keys });
    const f = el("figure", { id, class: spec.bars ? "wide-figure" : "" },
      el("figcaption", {},
        el("h5", {}, spec.title, spec.tag ? el("bdi", { class: "tag" }, spec.tag) : "", el("a", { class: "anchor", href: "#" + id, "aria-label": "Link to this chart" }, "#")),
        spec.axis ? el("span", { class: "axis" }, spec.axis) : "", el("p", { class: "quiet" }, spec.summary)), host);
    const tools = el("div", { class: "tools" });
    const details = el("details", { class: "rows" }, el("summary", {}, "Table"));
    onOpen(details, () => tableOf(table()));
    f.append(el("div", { class: "foot" }, details, tools));
    later(f, () => {
      const chart = draw(f, host);
      f.dataset.drawn = "yes";
      if (!chart) return;
      const tool = (text, name, act) => tools.append(el("button", { type: "button", "aria-label": name, title: name, onclick: act }, text));
      tool("−", "Zoom out", () => chart.zoomBy(2));
      tool("+", "Zoom in", () => chart.zoomBy(1 / 2));
      tool("reset", "Show everything", () => { chart.zoom(null); chart.leave(); });
    });
    return f;
  }

  // lineFigure is a figure of lines; one without a single value says so.
  function lineFigure(spec, table) {
    const some = spec.lines.some((l) => l.ys.some((y, i) => Format.finite(y) && (!spec.y.log || y > 0) && (!spec.x.log || l.xs[i] > 0)));
    const named = (axis) => [axis.title, Format.unitName(axis.unit)].filter(Boolean).join(", ");
    spec.axis = named(spec.y) + (spec.x.title ? " ↑   " + named(spec.x) + " →" : "");
    return figure(spec, (f, host) => {
      if (!some) {
        host.append(el("p", { class: "notice" }, "Nothing here has a value that could be drawn; the table says what is known."));
        return null;
      }
      if (spec.legend !== false) {
        const believed = (l) => l.valid !== false && (!l.ok || l.ok.includes(true));
        host.before(Chart.legend(spec.lines.map((l) => ({ label: l.label, key: l.key, note: believed(l) ? "" : "not valid" })), spec.run, !spec.bare));
      }
      return new Chart.Lines(f, host, spec);
    }, table || (() => linesTable(spec)));
  }

  // linesTable has a row for each place and a column for each line.
  function linesTable(spec) {
    const xs = [...new Set(spec.lines.flatMap((l) => l.xs))].sort((a, b) => a - b);
    const at = spec.lines.map((l) => new Map(l.xs.map((x, i) => [x, i])));
    const head = [spec.x.title || "time", ...spec.lines.map((l) => l.label.n)];
    const rows = xs.map((x) => {
      let name = Format.value(x, spec.x.unit);
      const cells = spec.lines.map((l, n) => {
        const i = at[n].get(x);
        if (i === undefined) return Format.unknown;
        if (l.load) name = l.load[i];
        let text = Format.value(l.ys[i], spec.y.unit);
        if (l.low && Format.finite(l.low[i]) && l.high[i] > l.low[i]) text += ` (${Format.value(l.low[i], spec.y.unit)} to ${Format.value(l.high[i], spec.y.unit)})`;
        if (l.valid === false || l.ok && !l.ok[i]) text += ` not valid${l.why && l.why[i] ? ": " + l.why[i] : ""}`;
        return text;
      });
      return [name, ...cells];
    });
    return { h: head, a: head.map(() => true), r: rows };
  }

  const keyOf = (label) => (label.ref ? "reference " : "") + label.n;

  // Charts against the load.
  function loadFigure(run, name, g, c) {
    const lines = c.lines.map((l) => ({
      label: run.labels[l.l], key: keyOf(run.labels[l.l]), xs: l.p.map((p) => p[0]), ys: l.p.map((p) => p[1]), low: l.p.map((p) => p[2]), high: l.p.map((p) => p[3]),
      ok: l.p.map((p) => p[4] === 1), load: l.p.map((p) => p[5]), why: l.p.map((p) => p[6] || ""),
    }));
    return lineFigure({
      id: c.id, title: c.t, sub: name, tag: g.c, summary: c.s, run: run.p, group: run.p + "load",
      x: { title: c.x.t, unit: c.x.u, log: c.x.l }, y: { title: c.y.t, unit: c.y.u, log: c.y.l },
      whole: c.y.u === "%" && c.t.includes("optimum"), fromZero: true, lines, marks: (c.k || []).map(([x, text]) => ({ x, text })),
    });
  }

  function barsFigure(run, spec, tag) {
    return figure({ id: spec.id, title: spec.t, tag, summary: spec.s, bars: true }, (f, host) => {
      if (!spec.seg.length || !spec.panels.length) host.append(el("p", { class: "notice" }, spec.s));
      else Bars.draw(f, host, spec, run);
      return null;
    }, () => Bars.table(spec, run));
  }

  function groups(run) {
    for (const g of run.groups) {
      const details = document.getElementById(g.id);
      const make = () => {
        if (!details.open || details.dataset.made) return;
        details.dataset.made = "yes";
        const name = (g.v ? g.v + ", " : "") + "class " + g.c;
        details.querySelector(".charts").replaceChildren(...g.charts.map((c) => loadFigure(run, name, g, c)), ...g.bars.map((b) => barsFigure(run, b, g.c)));
      };
      details.addEventListener("toggle", make);
      make();
    }
  }

  // chooser makes selects for [name, what there is given what was chosen before it, whether the last of them comes first], those with one value left
  // out, and calls change with what is chosen.
  function chooser(box, prefix, lists, change) {
    const chosen = {};
    const make = () => {
      const labels = [];
      for (const [name, of, last] of lists) {
        const values = of(chosen).map(String);
        if (!values.includes(chosen[name])) chosen[name] = (last ? values[values.length - 1] : values[0]) ?? "";
        if (values.length < 2) continue;
        const select = el("select", { id: prefix + "choose-" + name }, ...values.map((v) => el("option", { value: v }, v === "" ? "–" : v)));
        select.value = chosen[name];
        select.addEventListener("change", () => {
          chosen[name] = select.value;
          make();
          document.getElementById(select.id).focus();
        });
        labels.push(el("label", {}, name + " ", select));
      }
      box.replaceChildren(...labels);
      change(chosen);
    };
    make();
  }
  const uniq = (list) => [...new Set(list)];

  // Distributions.
  function distributions(run, article) {
    const d = run.dist, section = article.querySelector(".dist");
    if (!d || !section) return;
    const box = section.querySelector(".charts"), said = el("p", { class: "summary" });
    box.before(said);
    const draw = (chosen) => {
      for (const f of box.children) forget(f);
      const rows = d.r.filter((r) => d.v[r[0]] === chosen.variant && d.c[r[1]] === chosen.class && d.o[r[2]] === chosen.load);
      const lines = rows.map((r) => ({ label: run.labels[r[3]], key: keyOf(run.labels[r[3]]), valid: r[4] === 1, count: r[5], values: r[6] }));
      const sub = [chosen.variant, "class " + chosen.class, chosen.load].filter(Boolean).join(", ");
      const limit = (d.lim || []).find((l) => l[0] === chosen.class);
      const at = (l, p) => `p${p} ${Format.value(l.values[d.ps.indexOf(p)], "µs")}`;
      const words = lines.map((l) => `${l.label.n} ${at(l, 50)}, ${at(l, 99)}${l.valid ? "" : " (not valid)"}`);
      const summary = lines.length ? `At ${chosen.load}, class ${chosen.class}: ${words.join("; ")}.` : "Nothing was answered there.";
      const table = () => ({
        h: ["percentile", ...lines.map((l) => l.label.n + (l.valid ? "" : " (not valid)"))], a: ["percentile", ...lines].map(() => true),
        r: [["answered", ...lines.map((l) => String(l.count))], ...d.ps.map((p, i) => [p + " %", ...lines.map((l) => Format.value(l.values[i], "µs"))])],
      });
      const cdf = lines.map((l) => {
        const xs = [], ys = [];
        l.values.forEach((v, i) => { // of the same value the highest percentile counts
          if (xs.length && v <= xs[xs.length - 1]) ys[ys.length - 1] = d.ps[i] / 100; else { xs.push(v); ys.push(d.ps[i] / 100); }
        });
        return { ...l, xs, ys };
      });
      const tail = lines.map((l) => {
        // The maximum stands where the share above it is that of one request.
        const xs = [], ys = [];
        d.ps.forEach((p, i) => {
          const x = p >= 100 ? Math.max(l.count, 2) : 1 / (1 - p / 100);
          if (x > l.count && p < 100) return;
          if (!xs.length || x > xs[xs.length - 1]) { xs.push(x); ys.push(l.values[i]); } else ys[ys.length - 1] = Math.max(ys[ys.length - 1], l.values[i]);
        });
        return { ...l, xs, ys };
      });
      said.textContent = summary;
      box.replaceChildren(
        lineFigure({
          id: run.p + "cdf", title: "Share of requests answered within", sub, summary, run: run.p, group: run.p + "cdf", bare: true,
          x: { title: "latency", unit: "µs", log: true },
          y: { title: "share of answered requests", unit: "%" }, whole: true, tag: chosen.class, lines: cdf, marks: limit ? [{ x: limit[1], text: "SLO " + Format.value(limit[1], "µs") }] : [],
        }, table),
        lineFigure({
          id: run.p + "spectrum", title: "Percentile spectrum", sub, summary, run: run.p, group: run.p + "spectrum", bare: true,
          x: { title: "percentile", unit: "tail", log: true },
          y: { title: "latency", unit: "µs", log: true }, tag: chosen.class, lines: tail,
        }, table));
    };
    later(section, () => chooser(section.querySelector(".choose"), run.p + "latency-", [
      ["variant", () => d.v], ["class", (c) => d.c.filter((_, i) => d.r.some((r) => r[1] === i && d.v[r[0]] === c.variant))],
      ["load", (c) => d.o.filter((_, i) => d.r.some((r) => r[2] === i && d.v[r[0]] === c.variant && d.c[r[1]] === c.class)), true]], draw));
  }

  // forget gives up a figure that another takes the place of.
  function forget(f) {
    pending.delete(f);
    for (const c of [...Chart.all]) if (c.figure === f) c.close();
  }

  // Time series. These stand first, in this order; the rest are meters that a controller adds.
  const main = ["goodput", "shed", "demand", "granted", "served", "queue_delay", "credits", "memsem", "membw", "cpu"];
  const titles = {
    __proto__: null, goodput: "Goodput", shed: "Shed", queue_delay: "Queueing delay", credits: "Credits", memsem: "Memory semaphore", membw: "Memory bandwidth", cpu: "CPU",
    demand: "Demand", granted: "Granted", served: "Served",
  };
  const stepwise = new Set(["credits", "memsem"]);

  function overTime(run, article) {
    const t = run.trace, section = article.querySelector(".time");
    if (!t || t.why || !section) return;
    const times = t.x.map((x) => (Array.isArray(x) ? x : Array.from({ length: x.n }, (_, i) => x.a + i * x.d)));
    const order = t.names.map((_, i) => i).sort((a, b) => rank(t.names[a]) - rank(t.names[b]) || a - b);
    function rank(n) { const i = main.indexOf(n.n); return i < 0 ? main.length : i; }
    const [box, extra] = section.querySelectorAll(".panels");
    const draw = (chosen) => {
      for (const f of [...box.children, ...extra.children]) forget(f);
      Chart.group(run.p + "time").zoom = null;
      const points = t.points.filter((p) => p.v === chosen.variant && p.o === chosen.load && String(p.r) === chosen.repeat).sort((a, b) => a.l - b.l);
      const marks = ((t.phases || []).find((p) => p.v === chosen.variant) || { b: [] }).b.map(([x, text]) => ({ x, text }));
      const labels = points.map((p) => ({ label: run.labels[p.l], key: keyOf(run.labels[p.l]), note: p.ok ? "" : "not valid" }));
      const legend = labels.length ? Chart.legend(labels, run.p, false) : el("p", { class: "notice" }, "There is no time series of that.");
      section.querySelector(".legend.shared").replaceChildren(legend);
      // Meters are sampled at different instants. All charts show the same stretch of time, so that what happened at once stands below each other.
      const span = [Infinity, -Infinity];
      for (const p of points) {
        for (const s of p.s) {
          const xs = times[s[1]];
          span[0] = Math.min(span[0], xs[0]);
          span[1] = Math.max(span[1], xs[xs.length - 1]);
        }
      }
      const figures = [[], []];
      for (const n of order) {
        const meter = t.names[n], lines = [];
        for (const p of points) {
          const s = p.s.find((one) => one[0] === n);
          if (s) lines.push({ label: { ...run.labels[p.l] }, key: keyOf(run.labels[p.l]), valid: p.ok === 1, xs: times[s[1]], ys: s[2], samples: s[3] });
        }
        if (!lines.length) continue;
        const known = main.includes(meter.n), name = titles[meter.n] || meter.n;
        figures[known ? 0 : 1].push(lineFigure({
          id: `${run.p}time-${n}`, title: name, tag: meter.c, sub: [chosen.variant, chosen.load].filter(Boolean).join(", "), run: run.p, group: run.p + "time",
          summary: lines.map((l) => peaks(l, meter.u)).join("; ") + ".",
          x: { title: "", unit: "µs" }, y: { title: meter.n === "cpu" ? "of all cores" : "", unit: meter.u },
          lines, marks, bare: true, legend: false, stepped: stepwise.has(meter.n), height: 190, tight: true, span,
        }));
      }
      box.replaceChildren(...figures[0]);
      extra.replaceChildren(...figures[1]);
      const more = section.querySelector(".meters");
      more.hidden = !figures[1].length;
      more.querySelector("summary").textContent = `More meters (${figures[1].length})`;
    };
    later(section, () => chooser(section.querySelector(".choose"), run.p + "time-", [
      ["variant", () => uniq(t.points.map((p) => p.v))], ["load", (c) => uniq(t.points.filter((p) => p.v === c.variant).map((p) => p.o)), true],
      ["repeat", (c) => uniq(t.points.filter((p) => p.v === c.variant && p.o === c.load).map((p) => p.r))]], draw));
  }

  function peaks(l, unit) {
    let low = Infinity, high = -Infinity;
    for (const y of l.ys) { if (y === null) continue; if (y < low) low = y; if (y > high) high = y; }
    return `${l.label.n} between ${Format.value(low, unit)} and ${Format.value(high, unit)}${l.valid ? "" : " (not valid)"}`;
  }

  // Allocations: who was served what, and where.
  function allocation(run, article) {
    const shares = article.querySelector(".shares");
    if (!shares) return;
    shares.append(...(run.shares || []).map((s) => barsFigure(run, s)));
    const d = run.places, box = article.querySelector(".places");
    if (!d || !d.r.length) return;
    const choose = el("div", { class: "choose" }), home = el("div", { class: "charts" });
    box.append(el("h4", {}, "Where: asked for, granted, served"), choose, home);
    const looks = [["demand", "#8c8c8c", "ring", [8, 4]], ["granted", "#0072b2", "square"], ["served", "#d55e00", "circle"]];
    const allocators = [...new Set(d.r.map((r) => run.labels[r[1]].n))];
    chooser(choose, run.p + "places-", [["scenario", () => d.v], ["allocator", () => allocators]], (chosen) => {
      for (const f of home.children) forget(f);
      home.replaceChildren(...d.c.map((name, c) => {
        const rows = d.r.filter((r) => d.v[r[0]] === chosen.scenario && run.labels[r[1]].n === chosen.allocator && r[2] === c);
        const lines = looks.map(([n, colour, marker, dash], i) => ({
          label: { n, c: colour, m: marker, d: dash }, key: "place " + n, xs: rows.map((r) => r[3] + 1), ys: rows.map((r) => r[4 + i]), load: rows.map((r) => d.x[r[3]]),
        }));
        return lineFigure({
          id: `${run.p}places-${c}`, title: "By location", tag: name, sub: chosen.scenario + ", " + chosen.allocator,
          summary: `What class ${name} asked for, was granted and was served at each of ${rows.length} locations, means of the window.`,
          run: run.p, group: run.p + "places", x: { title: "location", unit: "" }, y: { title: "requests", unit: "rps" }, lines,
        });
      }));
    });
  }

  // Everything of a run.
  for (const run of data.runs) {
    const article = document.getElementById(run.p + "run");
    if (run.groups) groups(run);
    distributions(run, article);
    overTime(run, article);
    allocation(run, article);
    const tables = [run.points, ...(run.tables || [])];
    for (const t of tables) {
      const details = article.querySelector(`details[data-table="${t.id}"]`);
      if (details) onOpen(details, () => tableOf({ ...t, r: t.r || [] }));
    }
  }

  // A link to a chart opens what it stands in.
  function arrive() {
    let id;
    try { id = decodeURIComponent(location.hash.slice(1)); } catch { return; } // a link that was cut off
    if (!id) return;
    for (const run of data.runs) {
      const g = (run.groups || []).find((one) => one.charts.concat(one.bars).some((c) => c.id === id));
      if (g) {
        const details = document.getElementById(g.id);
        details.open = true;
        details.dispatchEvent(new Event("toggle"));
      }
      for (const kind of ["cdf", "spectrum"]) if (id === run.p + kind) drawNow(document.getElementById(run.p + "run").querySelector(".dist"));
      if (id.startsWith(run.p + "time-")) drawNow(document.getElementById(run.p + "run").querySelector(".time"));
    }
    const target = document.getElementById(id);
    if (!target) return;
    for (let e = target.parentElement; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    document.querySelectorAll(".arrived").forEach((e) => e.classList.remove("arrived"));
    if (target.tagName === "FIGURE") target.classList.add("arrived");
    drawNow(target);
    target.scrollIntoView({ block: "start" });
    // What is drawn now on the way may have another height than was kept for it.
    requestAnimationFrame(() => requestAnimationFrame(() => target.scrollIntoView({ block: "start" })));
  }
  addEventListener("hashchange", arrive);

  // The theme: as the system has it, or as chosen.
  const themes = ["auto", "light", "dark"], button = document.getElementById("theme"), root = document.documentElement;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "auto") + 1) % themes.length];
    if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
    button.textContent = "Theme: " + next;
    Chart.redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => Chart.redraw());

  // Paper shows what the screen would when scrolled through, up to a bound: a printer has no use for thousands of charts.
  const mostPrinted = 150;
  function print() {
    for (const e of [...pending.keys()]) {
      if (Chart.all.size >= mostPrinted) break;
      if (e.closest("details:not([open])")) continue;
      drawNow(e);
    }
    for (const e of [...pending.keys()].filter((one) => one.tagName === "FIGURE").slice(0, mostPrinted)) if (!e.closest("details:not([open])")) drawNow(e);
    Chart.redraw();
  }
  addEventListener("beforeprint", print);
  addEventListener("afterprint", () => Chart.redraw());
  matchMedia("print").addEventListener("change", print);

  inView();
  for (const event of ["load", "pageshow"]) addEventListener(event, inView);
  document.addEventListener("visibilitychange", inView);
  arrive();
  root.dataset.ready = "yes";
})();
