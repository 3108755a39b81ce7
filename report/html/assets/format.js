"use strict";
// Numbers as people read them, and the places of ticks. Nothing here knows of a page.
const Format = (() => {
  const unknown = "–";
  const finite = (v) => typeof v === "number" && Number.isFinite(v);

  // digits writes three significant digits, with no zero behind the point that says nothing when it is short.
  function digits(v, short) {
    const a = Math.abs(v);
    const s = v.toFixed(a === 0 || a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2);
    return short && s.includes(".") ? s.replace(/\.?0+$/, "") : s;
  }

  function scaled(v, steps, short) {
    const a = Math.abs(v);
    for (const [least, name] of steps) {
      if (a >= least * 0.9995) return digits(v / least, short) + name;
    }
    const [least, name] = steps[steps.length - 1];
    return digits(v / least, short) + name;
  }

  const thousands = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const seconds = [[1e6, " s"], [1e3, " ms"], [1, " µs"], [1e-3, " ns"]];
  const bytes = [[1e9, " GB/s"], [1e6, " MB/s"], [1e3, " kB/s"], [1, " B/s"]];

  function small(v, short) {
    const a = Math.abs(v);
    if (a === 0 || a >= 0.01) return scaled(v, thousands, short);
    return String(Number(v.toPrecision(2)));
  }

  const zero = { __proto__: null, "µs": "0", us: "0", bytes_per_s: "0" };

  // value writes v of a unit; short leaves out what a tick has no room for.
  function value(v, unit, short) {
    if (!finite(v)) return unknown;
    if (v === 0 && zero[unit]) return zero[unit];
    switch (unit) {
      case "%": case "ratio": {
        const p = v * 100;
        if (!short && p > 0 && p < 0.05) return "<0.1 %";
        if (!short && p < 100 && p > 99.95) return ">99.9 %";
        return short ? digits(p, true) + " %" : p.toFixed(1) + " %";
      }
      case "µs": case "us": return scaled(v, seconds, short);
      case "bytes_per_s": return scaled(v, bytes, short);
      case "rps": case "requests/s": return scaled(v, thousands, short);
      case "tail": return percentile(v);
      default: return small(v, short);
    }
  }

  // percentile writes the percentile of a place on the axis of a spectrum, which is 1/(1−p).
  function percentile(v) {
    const p = 100 * (1 - 1 / v);
    return Number(p.toFixed(6)) + " %";
  }

  const names = { __proto__: null, "µs": "", us: "", "%": "", ratio: "", rps: "requests/s", "requests/s": "requests/s", bytes_per_s: "", tail: "" };
  function unitName(unit) { return unit in names ? names[unit] : unit; }

  // niceStep is the 1, 2 or 5 of a power of ten nearest above v.
  function niceStep(v) {
    const p = Math.pow(10, Math.floor(Math.log10(v)));
    return (v <= p ? 1 : v <= 2 * p ? 2 : v <= 5 * p ? 5 : 10) * p;
  }

  // logTicks are 1, 2 and 5 of each power of ten where there are few powers, and powers only where there are many.
  function logTicks(low, high) {
    const from = Math.floor(Math.log10(low) + 1e-9), to = Math.ceil(Math.log10(high) - 1e-9);
    const span = Math.log10(high / low);
    if (span < 0.5) { // near enough to even
      const step = niceStep((high - low) / 4), list = [];
      for (let i = Math.ceil(low / step); i * step <= high; i++) list.push(Number((i * step).toPrecision(12)));
      return list;
    }
    const parts = span < 1 ? [1, 1.5, 2, 3, 5, 7] : span < 2.2 ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil((to - from) / 8));
    const list = [];
    for (let e = from; e <= to; e += every) {
      for (const m of parts) {
        const v = Number((m * Math.pow(10, e)).toPrecision(12));
        if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) list.push(v);
      }
    }
    return list;
  }

  // linearRange pads the span of data; what begins near 0 begins at 0.
  function linearRange(low, high, fromZero) {
    if (!finite(low) || !finite(high)) return [0, 1];
    if (low === high) return low === 0 ? [0, 1] : low > 0 ? [0, high * 1.2] : [low * 1.2, 0];
    if (fromZero && low >= 0) return [0, high * 1.06];
    const pad = (high - low) * 0.06;
    return [low >= 0 && low < (high - low) * 1.5 ? 0 : low - pad, high + pad];
  }

  function logRange(low, high) {
    if (!finite(low) || !finite(high) || high <= 0) return [1, 10];
    if (low <= 0) low = high / 1e3;
    const pad = Math.max(Math.pow(high / low, 0.05), low === high ? 2 : 1.12);
    return [low / pad, high * pad];
  }

  return { value, digits, unitName, logTicks, linearRange, logRange, finite, unknown };
})();
