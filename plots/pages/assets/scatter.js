// GPU-hours across, attainment up: one mark a policy.

// stretched shows shares near 1 as far apart as those near 0: each nine of
// 99.9… takes as much room. Nothing is above top nines; 1 is drawn there.
const stretched = top => share => share >= 1 ? top : Math.min(top, -Math.log10(1 - share));

const scatter = (box, data) => {
  const hidden = new Set();
  const nines = Math.max(3, ...data.policies.map(p => p.attained.mean).filter(a => a < 1).map(a => Math.ceil(-Math.log10(1 - a))));
  const bend = stretched(nines + .5);
  const room = el("div", { class: "chart" });
  const tips = tipsIn(room);
  const even = el("input", { type: "checkbox", change: () => redraw() });
  const buttons = legend(data.policies.map(p => p.name), hidden, () => redraw(), i => swatch(mark(i, 8, 6, 4.5)));
  box.append(el("figure", {}, el("figcaption", {}, "Attainment of both promises (%) by GPU-hours"), buttons, room,
    el("label", { class: "choice" }, even, " the same room for each percent (else for each nine)")));

  // words is what a mark says.
  const words = p => `${p.name}: ${figure(p.attained, 100)} % attained, ${figure(p.gpu_hours)} GPU-hours`;

  const front = shown => {
    const online = shown.filter(p => !p.clairvoyant).sort((a, b) => a.gpu_hours.mean - b.gpu_hours.mean || b.attained.mean - a.attained.mean);
    let best = -1;
    return online.filter(p => p.attained.mean > best && (best = p.attained.mean, true));
  };

  const draw = width => {
    const W = Math.max(width, 240), H = Math.min(440, Math.max(300, W * .55)), L = 52, R = 14, T = 12, B = 40;
    const shown = data.policies.filter((_, i) => !hidden.has(i));
    const y = even.checked ? scale(0, 1, H - B, T) : (s => v => s(bend(v)))(scale(0, nines + .5, H - B, T));
    const most = Math.max(...data.policies.map(p => p.gpu_hours.mean)) * 1.06 || 1;
    const x = scale(0, most, L, W - R);
    const svg = el("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Attainment of both promises by GPU-hours, one mark for each policy" });
    const shares = even.checked ? [0, .2, .4, .6, .8, 1] : [0, .5, ...Array.from({ length: nines }, (_, k) => 1 - 10 ** -(k + 1)), 1];
    for (const s of shares) {
      svg.append(el("line", { class: "grid", x1: L, x2: W - R, y1: y(s), y2: y(s) }),
        el("text", { class: "tick", x: L - 6, y: y(s) + 4, "text-anchor": "end" }, s === 1 ? "100" : number(Number((100 * s).toPrecision(nines + 2)))));
    }
    for (const v of steps(0, most, Math.max(3, W / 110))) svg.append(el("line", { class: "grid", x1: x(v), x2: x(v), y1: T, y2: H - B }),
      el("text", { class: "tick", x: x(v), y: H - B + 16, "text-anchor": "middle" }, number(v)));
    svg.append(el("text", { class: "axis", x: (L + W - R) / 2, y: H - 4, "text-anchor": "middle" }, "GPU-hours"),
      el("text", { class: "axis", x: 12, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(T + H - B) / 2})` }, "attained, %"));
    svg.append(el("line", { class: "limit", x1: L, x2: W - R, y1: y(data.target), y2: y(data.target) }),
      el("text", { class: "limit-name", x: L + 4, y: y(data.target) - 5 }, "target " + number(100 * data.target) + " %"));
    const edge = front(shown);
    svg.append(el("path", { class: "front", d: edge.map((p, i) => `${i ? "H" + x(p.gpu_hours.mean).toFixed(1) + "V" : "M" + x(p.gpu_hours.mean).toFixed(1) + " "}${y(p.attained.mean).toFixed(1)}`).join("") }));
    marks(svg, shown, x, y, W, H, { L, R, T, B });
    room.replaceChildren(svg, tips.box);
  };

  const marks = (svg, shown, x, y, W, H, edges) => {
    const taken = shown.map(p => ({ x: x(p.gpu_hours.mean) - 6, y: y(p.attained.mean) - 6, w: 12, h: 12 }));
    for (const p of shown) {
      const i = data.policies.indexOf(p), cx = x(p.gpu_hours.mean), cy = y(p.attained.mean);
      const bar = (f, lo, hi) => known(f.half) ? [Math.max(lo, f.mean - f.half), Math.min(hi, f.mean + f.half)] : null;
      const g = el("g", { class: "point", tabindex: "0", role: "img", "aria-label": words(p), "data-policy": p.name });
      const across = bar(p.gpu_hours, 0, Infinity), up = bar(p.attained, 0, 1);
      if (across) g.append(el("line", { class: "bar " + paint(i), x1: Math.max(edges.L, x(across[0])), x2: Math.min(W - edges.R, x(across[1])), y1: cy, y2: cy }));
      if (up) g.append(el("line", { class: "bar " + paint(i), x1: cx, x2: cx, y1: y(up[0]), y2: y(up[1]) }));
      g.append(el("circle", { class: "reach", cx, cy, r: 14 }), mark(i, cx, cy, p.clairvoyant ? 8 : 6));
      tips.bind(g, words(p), cx, cy, W);
      svg.append(g);
      const spot = labelSpot(p.name, cx, cy, W, H, edges, taken);
      if (spot) svg.append(el("text", { class: "name", x: spot.x, y: spot.y + spot.h - 3, "aria-hidden": "true" }, p.name));
    }
  };

  const redraw = fitted(room, draw);
};

// labelSpot is room for a name beside a mark that hides no other; or none, where
// the legend and the tip have to do.
const labelSpot = (name, cx, cy, W, H, e, taken) => {
  const w = name.length * 6.6 + 4, hgt = 14;
  for (const [dx, dy] of [[10, -7], [-10 - w, -7], [-w / 2, -24], [-w / 2, 10], [8, -22], [8, 9], [-8 - w, -22], [-8 - w, 9]]) {
    const r = { x: cx + dx, y: cy + dy, w, h: hgt };
    const inside = r.x >= e.L && r.x + w <= W - e.R && r.y >= 0 && r.y + hgt <= H - e.B;
    if (inside && !taken.some(t => t.x < r.x + w && r.x < t.x + t.w && t.y < r.y + hgt && r.y < t.y + t.h)) {
      taken.push(r);
      return r;
    }
  }
  return null;
};
