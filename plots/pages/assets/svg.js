// Elements, scales and axes that all charts share.

const drawn = new Set(["svg", "g", "path", "line", "text", "circle", "rect", "title", "polygon"]);

const el = (tag, attributes = {}, ...children) => {
  const e = drawn.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (typeof v === "function") e.addEventListener(k, v);
    else if (v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children.flat());
  return e;
};

// colours are those of plots: Okabe and Ito's, which page.css names.
const colours = 7, shapes = 6;
const paint = i => "c" + i % colours;

// mark is series i's marker, told from others by shape and by colour, which is i's
// unless another is named.
const mark = (i, x, y, r, colour = i) => {
  const corners = { 1: [4, .25, 1.18], 2: [3, -.25, 1.33], 3: [4, 0, 1.28], 4: [3, .25, 1.33], 5: [6, 0, 1.12] }[i % shapes];
  if (!corners) return el("circle", { cx: x, cy: y, r, class: "mark " + paint(colour) });
  const [n, turn, grow] = corners;
  const points = Array.from({ length: n }, (_, k) => {
    const a = 2 * Math.PI * (k / n + turn / (n === 4 ? 2 : 1));
    return (x + r * grow * Math.cos(a)).toFixed(2) + "," + (y + r * grow * Math.sin(a)).toFixed(2);
  });
  return el("polygon", { points: points.join(" "), class: "mark " + paint(colour) });
};

// scale maps [from, to] onto [a, b].
const scale = (from, to, a, b) => v => a + (v - from) / ((to - from) || 1) * (b - a);

// steps are the multiples of a round step in [lo, hi], about n of them.
const steps = (lo, hi, n, rounds) => {
  const want = (hi - lo) / n || 1;
  const step = rounds ? rounds.find(r => r >= want) ?? rounds.at(-1) * Math.ceil(want / rounds.at(-1)) : nice(want);
  const out = [];
  for (let k = Math.ceil(lo / step - 1e-9); k * step <= hi + step * 1e-9; k++) out.push(k * step);
  return out;
};

// nice is the least of 1, 2, 2.5 and 5 times a power of ten that is v or more.
const nice = v => {
  const p = 10 ** Math.floor(Math.log10(v));
  return p * ([1, 2, 2.5, 5].find(m => m * p >= v * (1 - 1e-9)) ?? 10);
};

const rounds = [
  .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, // seconds
  ...[1, 2, 5, 10, 15, 30].map(v => v * 60), ...[1, 2, 3, 6, 12].map(v => v * 3600), ...[1, 2, 7].map(v => v * 86400),
];

// timeSteps are round times in [lo, hi] seconds.
const timeSteps = (lo, hi, n) => steps(lo, hi, n, rounds);

// legend is a row of buttons that hide and show what they name; changed is told.
const legend = (names, hidden, changed, symbol) => {
  const box = el("div", { class: "legend", role: "group", "aria-label": "Series" });
  names.forEach((name, i) => {
    const value = el("span", { class: "value" });
    const button = el("button", {
      type: "button", "aria-pressed": String(!hidden.has(i)),
      click: () => {
        if (!hidden.delete(i)) hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        changed();
      },
    }, symbol(i), el("span", { class: "name" }, name), value);
    box.append(button);
  });
  return box;
};

// swatch is a legend's small picture of a series.
const swatch = draw => el("svg", { class: "swatch", viewBox: "0 0 16 12", "aria-hidden": "true" }, draw);

// tipsIn makes a tip that names what is pointed at or has the focus in a chart:
// bind it to a mark at cx, cy of a drawing that is W wide.
const tipsIn = room => {
  const box = el("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  const place = (text, cx, cy, W) => {
    box.textContent = text;
    box.hidden = false;
    const by = room.clientWidth / W;
    box.style.top = (cy * by + 14) + "px";
    box.style.left = Math.max(0, Math.min(cx * by + 10, room.clientWidth - box.offsetWidth)) + "px";
  };
  const bind = (g, text, cx, cy, W) => {
    for (const on of ["pointerenter", "focus", "click"]) g.addEventListener(on, () => place(text, cx, cy, W));
    for (const off of ["pointerleave", "blur"]) g.addEventListener(off, () => { box.hidden = true; });
  };
  return { box, bind };
};

// paper is how wide charts are drawn for print, in CSS pixels.
const paper = 640;

// fitted draws again whenever the box gets another width, and for print.
const fitted = (box, draw) => {
  let width = 0, printing = false;
  const to = w => { if (w > 0 && w !== width) { width = w; draw(w); } };
  const follow = () => { if (!printing) to(Math.floor(box.clientWidth)); };
  new ResizeObserver(follow).observe(box);
  addEventListener("beforeprint", () => { printing = true; to(Math.min(paper, width || paper)); });
  addEventListener("afterprint", () => { printing = false; follow(); });
  follow();
  return () => draw(width);
};
