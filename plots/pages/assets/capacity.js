// The page of a capacity plan: every plan that can be chosen is in the page, made by
// the program itself.

const data = JSON.parse(document.getElementById("data").textContent);
const axes = ["qps", "ttft", "itl"], at = [...data.own];
const draw = (id, charts) => charts.map(c => xy(document.getElementById(id), c));
const costs = draw("costs", data.charts);
draw("alternatives", data.alternatives).forEach(c => c.now(undefined, ["plan 0"]));
document.querySelectorAll("table[data-sortable]").forEach(sortable);

const slides = axes.map(id => document.getElementById(id));
const chosen = () => data.cells[(at[0] * data.ttft.length + at[1]) * data.itl.length + at[2]];

const show = () => {
  const c = chosen(), box = document.getElementById("fleet");
  slides.forEach((s, i) => {
    if (!s) return;
    const text = number(data[axes[i]][at[i]]) + " " + s.dataset.unit;
    s.value = at[i];
    s.setAttribute("aria-valuetext", text);
    document.getElementById(axes[i] + "-shown").textContent = text;
  });
  box.dataset.key = c.key;
  box.dataset.gpus = c.gpus;
  box.dataset.usd = c.usd;
  box.dataset.layout = c.layout;
  const card = (title, ...rest) => el("div", { class: "pick" + (c.why ? " missed" : "") }, el("h3", {}, title), ...rest);
  box.replaceChildren(...(c.why ? [card("fleet", el("p", { class: "label" }, "none"), el("p", {}, c.why))] : [
    card("fleet", el("p", { class: "label" }, number(c.gpus), " ", el("small", {}, "GPUs")), el("p", {}, c.fleet)),
    card("cost", el("p", {}, c.cost), c.against ? el("p", {}, c.against) : ""),
    card("latency", el("p", {}, c.latency), c.breaks ? el("p", {}, "One engine fewer breaks: " + c.breaks) : ""),
  ]));
  document.getElementById("command").textContent = c.command;
  costs.forEach(chart => chart.now(undefined, [c.key]));
};

slides.forEach((s, i) => s?.addEventListener("input", () => { at[i] = Number(s.value); show(); }));
document.getElementById("reset")?.addEventListener("click", () => { at.splice(0, 3, ...data.own); show(); });
document.getElementById("demand")?.addEventListener("submit", e => e.preventDefault());
show();
