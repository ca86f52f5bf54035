// The page of a profile.

const data = JSON.parse(document.getElementById("data").textContent);
const phases = data.aggregated ? ["aggregated"] : ["prefill", "decode"];
const inMs = ns => ns / 1e6, msText = ns => number(Number(inMs(ns).toPrecision(4))) + " ms";
const atLoad = c => c.rate > 0 ? number(c.rate) + " requests/s" : number(c.in_flight) + " in flight";
const changed = (now, was) => {
  const share = 100 * (now / was - 1);
  return Math.abs(share) < .05 ? "as profiled" : (share > 0 ? "+" : "−") + Math.abs(share).toFixed(1) + " % against the profile's";
};

// gpuSeconds are what a request takes of GPUs at the picks: as profiled at the rates
// that they are recommended at, else at the load of their points; null where one is
// not known.
const gpuSeconds = (picks, rates) => picks.some(p => !p?.feasible) ? null
  : picks.reduce((sum, p) => sum + (rates ? p.c.gpus / rates[p.c.phase].rate : (p.c.phase === "prefill" ? data.isl : data.osl) / p.c.throughput), 0);

// choose is the answer of a phase for limits, given by their places: recommend's,
// which the page holds for each. Null where nothing can be compared.
const choose = (phase, at) => {
  const n = { prefill: () => data.picks.prefill[at.ttft], decode: () => data.picks.decode[at.itl], aggregated: () => data.picks.aggregated[at.ttft][at.itl] }[phase]();
  const a = data.answers[n];
  return a.candidate < 0 ? null : { ...a, c: data.candidates[a.candidate] };
};

// promised are flags of other promises.
const promised = ms => `--ttft ${ms.ttft} --itl ${ms.itl}`;
const own = { ttft: inMs(data.limits.ttft[data.sla.ttft]), itl: inMs(data.limits.itl[data.sla.itl]) }; // promises of the profile, ms
const asProfiled = ms => ms.ttft === own.ttft && ms.itl === own.itl;
const profiled = phases.map(p => choose(p, data.sla));

// latency and throughput are a point's figures, with where they may be.
const within = i => i ? ` (${number(i[0])} to ${number(i[1])})` : "";
const latency = (c, what) => `${what.toUpperCase()} ${msText(c[what + "_ns"])}${within(c["in_" + what])}`;
const throughput = c => `${number(c.throughput)}${within(c.in_throughput)} tokens/s/GPU`;

// charts of candidates: one for each latency that is promised.
const charts = phases.flatMap(phase => (data.aggregated ? ["ttft", "itl"] : [phase === "prefill" ? "ttft" : "itl"]).map(what => {
  const cs = data.candidates.filter(c => c.phase === phase && c[what + "_ns"] > 0 && c.throughput > 0);
  const labels = [...new Set(cs.map(c => c.label))], name = what.toUpperCase();
  const series = labels.map(label => ({ name: label, points: cs.filter(c => c.label === label).map(c => ({
    id: c.id, x: inMs(c[what + "_ns"]), y: c.throughput,
    low: c.bar ? c.in_throughput?.[0] : undefined, high: c.bar ? c.in_throughput?.[1] : undefined,
    text: `${c.label}, ${atLoad(c)}: ${latency(c, what)}, ${throughput(c)}`,
  })) }));
  const box = document.getElementById("candidates");
  return { what, phase, chart: series.length ? xy(box, { title: `${phase}: throughput by ${name}`, x: `${name} ${data.stat}, ms`, y: "tokens/s/GPU", log: true, series }) : null };
}));

const card = (phase, e, was, ms) => {
  const title = el("h3", {}, phase);
  if (!e) return el("div", { class: "pick" }, title, el("p", { class: "label" }, "none"), el("p", {}, "no point can be compared"));
  const c = e.c, facts = [];
  if (phase !== "decode") facts.push(latency(c, "ttft"));
  if (phase !== "prefill") facts.push(latency(c, "itl"));
  return el("div", { class: "pick" + (e.feasible ? "" : " missed"), "data-phase": phase, "data-id": c.id, "data-feasible": String(e.feasible) }, title,
    el("p", { class: "label" }, c.label, " ", el("small", {}, c.gpus + (c.gpus === 1 ? " GPU" : " GPUs"))),
    e.feasible ? "" : el("p", {}, el("b", {}, "Nothing in this profile meets it: the nearest is shown.")),
    el("p", {}, `${facts.join(", ")}, at ${atLoad(c)}`),
    el("p", {}, throughput(c), was?.feasible && e.feasible && !asProfiled(ms) ? `: ${changed(c.throughput, was.c.throughput)}` : ""),
    asProfiled(ms) ? recommended(data.recommended?.[phase]) : "");
};

// recommended is the rate of a pick as profiled, and what a load at it had.
const recommended = r => [
  r?.rate > 0 ? el("p", {}, `Recommended: ${number(Number(r.rate.toPrecision(4)))} requests/s for each engine`) : "",
  r?.missed && !(r.rate > 0) ? el("p", {}, el("b", {}, "Missed its SLA under load.")) : "",
  r?.verified ? el("p", {}, "In verification: " + r.verified + (r.under_load ? "; " + r.under_load : "")) : "",
];

// costCard is the cost of the picks, at what load, and against the profile's.
const costCard = (picks, own) => {
  const all = phases.map(p => data.recommended?.[p]), closed = gpuSeconds(picks), was = gpuSeconds(profiled);
  const rates = own && all.every(r => r?.rate > 0), now = own && all.some(r => r?.missed && !(r.rate > 0)) ? null : rates ? gpuSeconds(picks, data.recommended) : closed;
  const box = el("div", { class: "pick cost" }, el("h3", {}, "cost"));
  if (now === null) {
    box.append(el("p", { class: "label" }, "–"), el("p", {}, "not known where a promise is missed"));
    return box;
  }
  box.append(el("p", { class: "label" }, number(Number(now.toPrecision(4))), " ", el("small", {}, "GPU-seconds a request")),
    el("p", {}, rates ? "at the recommended rates" : data.aggregated ? "at the rate that held in the search" : "at full closed-loop load, which no rate of arrivals carries"));
  if (data.usd > 0) box.append(el("p", {}, number(Number((now / 3600 * data.usd * 1000).toPrecision(4))) + " USD per 1,000 requests"));
  if (!own && was !== null) box.append(el("p", {}, changed(closed, was) + (data.aggregated ? "" : " at that load")));
  return box;
};

// show is told the promises in milliseconds, and the places of their answers.
const show = (ms, at) => {
  const picks = phases.map(p => choose(p, at));
  const cards = picks.map((e, i) => card(phases[i], e, profiled[i], ms));
  cards.push(costCard(picks, asProfiled(ms)));
  document.getElementById("picks").replaceChildren(...cards);
  document.getElementById("otherwise").textContent = asProfiled(ms) ? ""
    : `This profile looked at loads for TTFT ${number(own.ttft)} ms and ITL ${number(own.itl)} ms. One for these promises would look at other loads, and may find better ones: ${promised(ms)}.`;
  redraw(ms, picks.filter(p => p).map(p => p.c.id));
};

// redraw moves limits and rings in the charts, once for a frame.
let waiting = null;
const redraw = (ms, marked) => {
  if (!waiting) requestAnimationFrame(() => { waiting(); waiting = null; });
  waiting = () => { for (const c of charts) c.chart?.now([{ x: ms[c.what], name: "SLA " + number(ms[c.what]) + " ms" }], marked); };
};

// control links a slider and a field to one promise, in milliseconds: a field keeps
// what is typed, the slider has its stops. The place is that of the greatest limit
// with an answer that is no greater.
const control = (what, tell) => {
  const field = document.getElementById(what), slide = document.getElementById(what + "-slide"), all = data.limits[what], stops = data.stops[what];
  const last = (of, ns) => Math.max(0, of.findLastIndex(l => l <= ns));
  let ms = own[what];
  Object.assign(slide, { min: 0, max: stops.length - 1, step: 1 });
  const put = v => {
    ms = v;
    field.value = v;
    slide.value = last(stops.map(i => all[i]), Math.round(v * 1e6));
    slide.setAttribute("aria-valuetext", v + " ms");
  };
  slide.addEventListener("input", () => { put(inMs(all[stops[slide.value]])); tell(); });
  field.addEventListener("change", () => { put(Number(field.value) > 0 ? Number(field.value) : ms); tell(); });
  put(ms);
  return { ms: () => ms, at: () => last(all, Math.round(ms * 1e6)), reset: () => put(own[what]) };
};

const update = () => show({ ttft: ttft.ms(), itl: itl.ms() }, { ttft: ttft.at(), itl: itl.at() });
const ttft = control("ttft", update), itl = control("itl", update);
document.getElementById("reset").addEventListener("click", () => { ttft.reset(); itl.reset(); update(); });
document.getElementById("sla").addEventListener("submit", e => e.preventDefault());
update();

// Curves at the profile's picks. Decode's samples are joined where their contexts
// are within a sixth of each other.
const curves = document.getElementById("curves");
if (data.prefill.length) {
  for (const [k, title, y] of [[1, "prefill: TTFT by ISL", "TTFT, ms"], [2, "prefill: throughput by ISL", "tokens/s/GPU"]]) {
    xy(curves, { title, x: "ISL, tokens", y, series: [{ name: "points of the profile", points: data.prefill.map(s => ({ x: s[0], y: s[k], text: `ISL ${number(s[0])} tokens: TTFT ${number(s[1])} ms, ${number(s[2])} tokens/s/GPU` })) }] });
  }
}
if (data.decode.length) {
  const groups = [];
  for (const s of [...data.decode].sort((a, b) => a[1] - b[1])) {
    if (groups.length && s[1] <= groups.at(-1)[0][1] * 7 / 6) groups.at(-1).push(s);
    else groups.push([s]);
  }
  const name = g => "context " + number(Math.round(g[0][1])) + (g.at(-1)[1] - g[0][1] > 1 ? "–" + number(Math.round(g.at(-1)[1])) : "") + " tokens";
  for (const [k, title, y] of [[2, "decode: ITL by KV use", "ITL, ms"], [3, "decode: throughput by KV use", "tokens/s/GPU"]]) {
    xy(curves, { title, x: "KV use, %", y, series: groups.map(g => ({ name: name(g), points: g.map(s => ({ x: 100 * s[0], y: s[k], text: `KV use ${number(100 * s[0])} %, context ${number(Math.round(s[1]))} tokens: ITL ${number(s[2])} ms, ${number(s[3])} tokens/s/GPU` })) })) });
  }
}
