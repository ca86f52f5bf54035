// One timeline: panels over the same time, a slider that reads values, a table.

// wholes are steps of what is counted.
const wholes = [1, 2, 5].flatMap(v => [0, 1, 2, 3, 4, 5].map(e => v * 10 ** e)).sort((a, b) => a - b);

// binAt is the bin that holds a time.
const binAt = (t, time) => Math.min(t.bins - 1, Math.max(0, Math.floor((time - t.start) / t.width + 1e-9)));

// timeline draws t into box. view has the times that all timelines show, [from,
// to], and the time that is read, at; view.zoom and view.read change them.
const timeline = (box, name, t, view) => {
  const panels = t.panels.map(p => ({ ...p, hidden: new Set(), room: el("div", { class: "chart" }) }));
  const slider = el("input", { type: "range", value: "0", min: "0", max: String(t.bins - 1), step: "1", "aria-label": "Time in " + name, input: () => view.read(t.start + (Number(slider.value) + .5) * t.width) });
  const clock = el("output", { class: "clock" }, "–");
  for (const p of panels) {
    p.legend = legend(p.lines.map(l => l.name || p.title), p.hidden, () => draw(width), i => swatch(el("line", { class: "line " + paint(i), x1: 0, x2: 16, y1: 6, y2: 6 })));
    p.values = [...p.legend.querySelectorAll(".value")];
    p.legend.append(...p.limits.map(l => el("span", { class: "key" }, swatch(el("line", { class: "limit", x1: 0, x2: 16, y1: 6, y2: 6 })), l.name)));
    box.append(el("figure", {}, el("figcaption", {}, p.title + (p.unit ? ` (${p.unit})` : "")), p.legend, p.room));
  }
  box.append(el("label", { class: "slider" }, el("span", {}, "Time ", clock), slider), values(name, t, view));

  let width = 0;
  const draw = w => {
    width = w;
    panels.forEach((p, i) => p.room.replaceChildren(panel(p, t, view, w, i === panels.length - 1)));
    // Whole bins within what is shown.
    slider.min = binAt(t, view.from);
    slider.max = binAt(t, view.to - t.width / 2);
    cursor();
  };

  const cursor = () => {
    if (view.at === null || view.at < view.from || view.at > view.to) {
      panels.forEach(p => p.values.forEach(v => { v.textContent = ""; }));
      clock.textContent = "–";
      slider.setAttribute("aria-valuetext", "no time chosen");
    } else {
      const bin = binAt(t, view.at), from = t.start + bin * t.width;
      slider.value = bin;
      clock.textContent = span(from) + " to " + span(from + t.width);
      panels.forEach(p => p.lines.forEach((l, i) => { p.values[i].textContent = number(l.values[bin]); }));
      slider.setAttribute("aria-valuetext", clock.textContent + ": " + panels.map(p => p.title + " " +
        p.lines.map(l => (l.name ? l.name + " " : "") + withUnit(number(l.values[bin]), p.unit)).join(", ")).join("; "));
    }
    box.querySelectorAll(".cursor").forEach(line => {
      const there = view.at !== null && view.at >= view.from && view.at <= view.to;
      line.setAttribute("visibility", there ? "visible" : "hidden");
      if (there) for (const end of ["x1", "x2"]) line.setAttribute(end, Number(line.dataset.left) + (view.at - view.from) / (view.to - view.from) * Number(line.dataset.wide));
    });
  };

  return { redraw: fitted(box, draw), cursor };
};

// panel is one strip, w wide. The last has times below it.
const panel = (p, t, view, w, last) => {
  const W = Math.max(w, 220), L = 46, R = 10, T = 8, B = last ? 22 : 6, H = 96 + T + B;
  const first = binAt(t, view.from), end = binAt(t, view.to - t.width * 1e-6);
  const lines = p.lines.map((l, i) => ({ ...l, i })).filter(l => !p.hidden.has(l.i));
  const seen = lines.flatMap(l => l.values.slice(first, end + 1).filter(known)).concat(p.limits.map(l => l.value));
  const most = seen.reduce((a, b) => Math.max(a, b), 0), top = p.unit === "%" ? 100 : most > 0 ? most * 1.08 : 1;
  const x = scale(view.from, view.to, L, W - R), y = scale(0, top, H - B, T);
  const within = v => Math.min(view.to, Math.max(view.from, v));
  const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": summary(p, lines, first, end, view) });
  for (const v of steps(0, top, 3, p.unit ? undefined : wholes)) svg.append(el("line", { class: "grid", x1: L, x2: W - R, y1: y(v), y2: y(v) }), el("text", { class: "tick", x: L - 5, y: y(v) + 4, "text-anchor": "end" }, number(Number(v.toPrecision(6)))));
  for (const v of timeSteps(view.from, view.to, Math.max(2, W / 90))) {
    svg.append(el("line", { class: "grid", x1: x(v), x2: x(v), y1: T, y2: H - B }));
    if (last) svg.append(el("text", { class: "tick", x: x(v), y: H - 6, "text-anchor": x(v) > W - 30 ? "end" : "middle" }, span(v)));
  }
  for (const l of p.limits) svg.append(el("line", { class: "limit", x1: L, x2: W - R, y1: y(l.value), y2: y(l.value) }));
  for (const l of lines) {
    const at = bin => t.start + bin * t.width;
    for (const run of runs(l.values, first, end)) {
      const xs = run.flatMap(b => l.step ? [x(within(at(b))), x(within(at(b + 1)))] : [x(within(at(b + .5)))]);
      const ys = run.flatMap(b => l.step ? [y(l.values[b]), y(l.values[b])] : [y(l.values[b])]);
      const path = xs.map((v, k) => (k ? "L" : "M") + v.toFixed(1) + " " + ys[k].toFixed(1)).join("");
      if (l.filled) svg.append(el("path", { class: "fill " + paint(l.i), d: `${path}L${xs.at(-1).toFixed(1)} ${y(0)}L${xs[0].toFixed(1)} ${y(0)}Z` }));
      svg.append(el("path", { class: "line " + paint(l.i), d: path }));
    }
  }
  svg.append(el("line", { class: "cursor", y1: T, y2: H - B, "data-left": L, "data-wide": W - R - L, visibility: "hidden" }), el("rect", { class: "chosen", y: T, height: H - B - T, visibility: "hidden" }));
  choose(svg, view, px => view.from + (px / svg.getBoundingClientRect().width * W - L) / (W - R - L) * (view.to - view.from), x);
  return svg;
};

// runs are the stretches of bins that have a value.
const runs = (values, first, end) => {
  const out = [];
  let run = [];
  for (let b = first; b <= end; b++) {
    if (known(values[b])) run.push(b);
    else if (run.length) { out.push(run); run = []; }
  }
  return run.length ? [...out, run] : out;
};

// summary is a strip in words.
const summary = (p, lines, first, end, view) => `${p.title}${p.unit ? ", " + p.unit : ""}, from ${span(view.from)} to ${span(view.to)}: ` + (lines.map(l => {
  const vs = l.values.slice(first, end + 1).filter(known);
  const name = l.name ? l.name + " " : "";
  if (!vs.length) return name + "has no values";
  return `${name}least ${number(Math.min(...vs))}, most ${number(Math.max(...vs))}, mean ${round(vs.reduce((a, b) => a + b, 0) / vs.length, 4)}`;
}).join("; ") || "every line is hidden");

// choose reads values under the pointer, and zooms to what it is dragged over.
const choose = (svg, view, timeOf, x) => {
  const rect = svg.querySelector(".chosen");
  let began = null;
  const time = e => Math.min(view.to, Math.max(view.from, timeOf(e.clientX - svg.getBoundingClientRect().left)));
  svg.addEventListener("pointerdown", e => { if (e.button === 0) { began = time(e); svg.setPointerCapture(e.pointerId); } });
  svg.addEventListener("pointermove", e => {
    view.read(time(e));
    if (began === null) return;
    const [a, b] = [began, time(e)].sort((p, q) => p - q);
    rect.setAttribute("x", x(a));
    rect.setAttribute("width", Math.max(0, x(b) - x(a)));
    rect.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerup", e => {
    if (began === null) return;
    const [a, b] = [began, time(e)].sort((p, q) => p - q);
    began = null;
    rect.setAttribute("visibility", "hidden");
    if (x(b) - x(a) > 8) view.zoom(a, b);
    else view.read(b);
  });
  svg.addEventListener("pointercancel", () => { began = null; rect.setAttribute("visibility", "hidden"); });
  svg.addEventListener("dblclick", () => view.all());
};

// values is a table of what is shown, made when it is opened.
const values = (name, t, view) => {
  const room = el("div", { class: "scroll", role: "region", "aria-label": "Values of " + name, tabindex: "0" });
  const columns = t.panels.flatMap(p => p.lines.map(l => ({ title: p.title + (l.name ? " " + l.name : ""), unit: p.unit, values: l.values })));
  const details = el("details", { class: "values", toggle: () => {
    if (!details.open) { room.replaceChildren(); return; }
    const body = el("tbody");
    for (let b = binAt(t, view.from); b <= binAt(t, view.to - t.width * 1e-6); b++) {
      body.append(el("tr", {}, el("th", { scope: "row", class: "n" }, span(t.start + b * t.width)), columns.map(c => el("td", { class: "n" }, number(c.values[b])))));
    }
    room.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "n" }, "From"),
      columns.map(c => el("th", { scope: "col", class: "n" }, c.title + " ", el("small", {}, c.unit))))), body));
  } }, el("summary", {}, "Table of values"), room);
  return details;
};
