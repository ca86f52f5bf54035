// Marks by two figures, of several series.

// decades are 1, 2 and 5 times the powers of ten in [lo, hi].
const decades = (lo, hi) => Array.from({ length: 40 }, (_, k) => [1, 2, 5].map(m => m * 10 ** (k - 20))).flat().filter(v => v >= lo && v <= hi);

// xy draws into box. chart has a title, x and y with a name and a unit, series of
// points {x, y, low, high, text, id}, and limits {x, name, colour}; marked are ids to be
// ringed. A bar that goes on above the chart ends in an arrow. With log, x has room for
// each decade where there is more than one. A series may say its colour and its shape,
// and that its line is dashed or that it has none.
const symbol = (s, i, x, y, r) => mark(s.shape ?? i, x, y, r, s.colour ?? i);

const xy = (box, chart) => {
  const hidden = new Set(), room = el("div", { class: "chart" });
  let { limits = [], marked = [] } = chart;
  const names = chart.series.map(s => s.name);
  box.append(el("figure", {}, el("figcaption", {}, chart.title), legend(names, hidden, () => redraw(), i => swatch(symbol(chart.series[i], i, 8, 6, 4.5))), room, pointsTable(chart)));
  const tips = tipsIn(room);
  const all = chart.series.flatMap(s => s.points);
  const draw = width => {
    const W = Math.max(width, 240), H = Math.min(340, Math.max(240, W * .5)), L = 64, R = 14, T = 14, B = 40;
    const top = of => Math.max(...all.map(of)) * 1.06 || 1, high = top(p => p.high ?? p.y) > 2 * top(p => p.y) ? top(p => p.y) * 1.3 : top(p => p.high ?? p.y);
    const far = top(p => p.x), end = Math.max(far, ...limits.filter(l => l.x < 3 * far).map(l => l.x * 1.06)), near = Math.min(...all.map(p => p.x));
    const log = chart.log && near > 0 && far > 10 * near, begin = log ? near * .8 : 0;
    const x = log ? (s => v => s(Math.log10(v)))(scale(Math.log10(begin), Math.log10(end), L, W - R)) : scale(0, end, L, W - R), y = scale(0, high, H - B, T);
    const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": chart.title });
    for (const v of steps(0, high, 4)) svg.append(el("line", { class: "grid", x1: L, x2: W - R, y1: y(v), y2: y(v) }), el("text", { class: "tick", x: L - 6, y: y(v) + 4, "text-anchor": "end" }, number(v)));
    let free = 0; // from where on a name of a step has room
    for (const v of log ? decades(begin, end) : steps(0, end, Math.max(3, W / 110))) {
      const name = number(Number(v.toPrecision(6))), half = name.length * 3.2 + 3;
      svg.append(el("line", { class: "grid", x1: x(v), x2: x(v), y1: T, y2: H - B }));
      if (x(v) - half < free) continue;
      free = x(v) + half;
      svg.append(el("text", { class: "tick", x: x(v), y: H - B + 16, "text-anchor": "middle" }, name));
    }
    svg.append(el("text", { class: "axis", x: (L + W - R) / 2, y: H - 4, "text-anchor": "middle" }, chart.x), el("text", { class: "axis", x: 12, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(T + H - B) / 2})` }, chart.y));
    const tint = l => known(l.colour) ? " side " + paint(l.colour) : "";
    for (const l of limits) if (l.x <= end && l.x >= begin) svg.append(el("line", { class: "limit" + tint(l), x1: x(l.x), x2: x(l.x), y1: T, y2: H - B }), el("text", { class: "limit-name" + tint(l), x: x(l.x) - 5, y: H - B - 6, transform: `rotate(-90 ${x(l.x) - 5} ${H - B - 6})` }, l.name));
    const there = new Map(); // marks at a place: one on others is smaller, so that all are seen
    const size = (px, py) => { const at = `${Math.round(px / 3)} ${Math.round(py / 3)}`, n = there.get(at) ?? 0; there.set(at, n + 1); return [5, 2.75][n] ?? 2; };
    chart.series.forEach((s, i) => {
      if (hidden.has(i)) return;
      const sorted = [...s.points].sort((a, b) => a.x - b.x);
      if (!s.bare) svg.append(el("path", { class: "line thin " + paint(s.colour ?? i) + (s.dashed ? " dashed" : ""), d: sorted.map((p, k) => (k ? "L" : "M") + x(p.x).toFixed(1) + " " + y(p.y).toFixed(1)).join("") }));
      for (const p of sorted) {
        const g = el("g", { class: "point" + (marked.includes(p.id) ? " marked" : ""), tabindex: "0", role: "img", "aria-label": p.text });
        if (known(p.low)) g.append(el("line", { class: "bar " + paint(s.colour ?? i), x1: x(p.x), x2: x(p.x), y1: y(Math.max(0, p.low)), y2: y(Math.min(high, p.high)) }));
        if (known(p.high) && p.high > high) g.append(el("path", { class: "bar cut " + paint(s.colour ?? i), d: `M${x(p.x) - 5} ${y(high) + 8}L${x(p.x)} ${y(high)}L${x(p.x) + 5} ${y(high) + 8}` })); // it goes on
        g.append(el("circle", { class: "reach", cx: x(p.x), cy: y(p.y), r: 11 }), symbol(s, i, x(p.x), y(p.y), size(x(p.x), y(p.y))));
        tips.bind(g, p.text, x(p.x), y(p.y), W);
        svg.append(g);
      }
    });
    room.replaceChildren(svg, tips.box);
  };
  const redraw = fitted(room, draw);
  return { now(l, m) { limits = l ?? limits; marked = m; redraw(); } };
};

// pointsTable are a chart's as a table, which is made when it is opened.
const pointsTable = chart => {
  const room = el("div", { class: "scroll", role: "region", "aria-label": "Values of " + chart.title, tabindex: "0" });
  const details = el("details", { class: "values", toggle: () => {
    if (!details.open) { room.replaceChildren(); return; }
    const head = (text, n) => el("th", { scope: "col", class: n ? "n" : "" }, text);
    const rows = chart.series.flatMap(s => [...s.points].sort((a, b) => a.x - b.x).map(p => el("tr", {}, el("th", { scope: "row" }, s.name), el("td", { class: "n" }, number(p.x)),
      el("td", { class: "n" }, number(p.y) + (known(p.low) ? ` (${number(p.low)} to ${number(p.high)})` : "")))));
    room.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, head("Series"), head(chart.x, true), head(chart.y, true))), el("tbody", {}, rows)));
  } }, el("summary", {}, "Table of values"), room);
  return details;
};
