// The page of a profile.

const data = JSON.parse(document.getElementById("data").textContent);
const phases = data.aggregated ? ["aggregated"] : ["prefill", "decode"];
const inMs = ns => ns / 1e6, msText = ns => number(Number(inMs(ns).toPrecision(4))) + " ms";
const atLoad = c => c.rate > 0 ? number(c.rate) + " requests/s" : number(c.in_flight) + " in flight";
const changed = (now, was) => {
  const share = 100 * (now / was - 1);
  return Math.abs(share) < .05 ? "as profiled" : (share > 0 ? "+" : "−") + Math.abs(share).toFixed(1) + " % against the profile's";
};

// gpuSeconds are what a request takes of GPUs at the picks; null where one is none.
const gpuSeconds = picks => picks.some(p => !p || !p.feasible) ? null
  : picks.reduce((sum, p) => sum + (p.c.phase === "prefill" ? data.isl : data.osl) / p.c.throughput, 0);

// choose is the pick of a phase for limits, given by their places: recommend's, which
// the page holds for each limit. Null where nothing can be compared.
const choose = (phase, at) => {
  const n = { prefill: () => data.picks.prefill[at.ttft], decode: () => data.picks.decode[at.itl], aggregated: () => data.picks.aggregated[at.ttft][at.itl] }[phase]();
  return n === 0 ? null : { c: data.candidates[Math.abs(n) - 1], feasible: n > 0 };
};

const limitNs = (what, at) => data.limits[what][at[what]];
const profiled = phases.map(p => choose(p, data.sla));

// charts of candidates: one for each latency that is promised.
const charts = phases.flatMap(phase => (data.aggregated ? ["ttft", "itl"] : [phase === "prefill" ? "ttft" : "itl"]).map(what => {
  const cs = data.candidates.filter(c => c.phase === phase && c[what + "_ns"] > 0 && c.throughput > 0);
  const labels = [...new Set(cs.map(c => c.label))], name = what.toUpperCase();
  const series = labels.map(label => ({ name: label, points: cs.filter(c => c.label === label).map(c => ({
    id: c.id, x: inMs(c[what + "_ns"]), y: c.throughput,
    text: `${c.label}, ${atLoad(c)}: ${name} ${msText(c[what + "_ns"])}, ${number(c.throughput)} tokens/s/GPU`,
  })) }));
  const box = document.getElementById("candidates");
  return { what, phase, chart: series.length ? xy(box, { title: `${phase}: throughput by ${name}`, x: `${name} ${data.stat}, ms`, y: "tokens/s/GPU", log: true, series }) : null };
}));

const card = (phase, e, was) => {
  const title = el("h3", {}, phase);
  if (!e) return el("div", { class: "pick" }, title, el("p", { class: "label" }, "none"), el("p", {}, "no point can be compared"));
  const c = e.c, facts = [];
  if (phase !== "decode") facts.push("TTFT " + msText(c.ttft_ns));
  if (phase !== "prefill") facts.push("ITL " + msText(c.itl_ns));
  return el("div", { class: "pick" + (e.feasible ? "" : " missed"), "data-phase": phase, "data-id": c.id, "data-feasible": String(e.feasible) }, title,
    el("p", { class: "label" }, c.label, " ", el("small", {}, c.gpus + (c.gpus === 1 ? " GPU" : " GPUs"))),
    e.feasible ? "" : el("p", {}, el("b", {}, "Nothing in this profile meets it: the nearest is shown.")),
    el("p", {}, `${facts.join(", ")}, at ${atLoad(c)}`),
    el("p", {}, `${number(c.throughput)} tokens/s/GPU`, was?.feasible && e.feasible ? `: ${changed(c.throughput, was.c.throughput)}` : ""));
};

const show = at => {
  const picks = phases.map(p => choose(p, at));
  const cards = picks.map((e, i) => card(phases[i], e, profiled[i]));
  const now = gpuSeconds(picks), was = gpuSeconds(profiled);
  cards.push(el("div", { class: "pick cost" }, el("h3", {}, "cost"), now === null ? el("p", { class: "label" }, "–") : el("p", { class: "label" }, number(Number(now.toPrecision(4))), " ", el("small", {}, "GPU-seconds a request")),
    now !== null && data.usd > 0 ? el("p", {}, number(Number((now / 3600 * data.usd * 1000).toPrecision(4))) + " USD per 1,000 requests") : "",
    now !== null && was !== null ? el("p", {}, changed(now, was)) : el("p", {}, "not known where a promise is missed")));
  document.getElementById("picks").replaceChildren(...cards);
  document.getElementById("otherwise").textContent = at.ttft === data.sla.ttft && at.itl === data.sla.itl ? ""
    : `This profile looked at loads for TTFT ${msText(limitNs("ttft", data.sla))} and ITL ${msText(limitNs("itl", data.sla))}. One for these promises would look at other loads, and may find better ones: --ttft ${inMs(limitNs("ttft", at))} --itl ${inMs(limitNs("itl", at))}.`;
  redraw(at, picks.filter(Boolean).map(p => p.c.id));
};

// redraw moves limits and rings in the charts, once for a frame.
let waiting = null;
const redraw = (at, marked) => {
  if (!waiting) requestAnimationFrame(() => { waiting(); waiting = null; });
  waiting = () => { for (const c of charts) c.chart?.now([{ x: inMs(limitNs(c.what, at)), name: "SLA " + msText(limitNs(c.what, at)) }], marked); };
};

// control links a slider and a field to one limit: a field takes the nearest limit
// that the page has an answer for.
const control = (what, tell) => {
  const field = document.getElementById(what), slide = document.getElementById(what + "-slide"), all = data.limits[what].map(inMs);
  Object.assign(slide, { min: 0, max: all.length - 1, step: 1 });
  const put = i => { slide.value = i; field.value = all[i]; slide.setAttribute("aria-valuetext", all[i] + " ms"); };
  const far = (i, ms) => Math.abs(Math.log(all[i] / ms));
  slide.addEventListener("input", () => { put(Number(slide.value)); tell(); });
  field.addEventListener("change", () => {
    const ms = Number(field.value);
    put(ms > 0 ? all.reduce((best, _, i) => far(i, ms) < far(best, ms) ? i : best, 0) : Number(slide.value));
    tell();
  });
  put(data.sla[what]);
  return { at: () => Number(slide.value), reset: () => put(data.sla[what]) };
};

const update = () => show({ ttft: ttft.at(), itl: itl.at() });
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
