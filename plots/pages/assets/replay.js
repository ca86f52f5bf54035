// The page of a replay.

const data = JSON.parse(document.getElementById("data").textContent);
document.querySelectorAll("table[data-sortable]").forEach(sortable);
scatter(document.getElementById("scatter"), data);
timelines(document.getElementById("timelines"), data.policies.map(p => ({
  name: p.name, open: data.open.includes(p.name), timeline: p.timeline,
  brief: figure(p.attained, 100) + " % attained, " + figure(p.gpu_hours) + " GPU-hours",
})));
