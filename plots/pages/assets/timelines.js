// All timelines of a page, one below the other: they show the same times, and one
// time is read in all of them.

const timelines = (box, all) => {
  const start = Math.min(...all.map(a => a.timeline.start)), end = Math.max(...all.map(a => a.timeline.start + a.timeline.bins * a.timeline.width));
  const least = 4 * Math.min(...all.map(a => a.timeline.width)); // seconds that are still shown
  const open = new Map();
  const shown = el("output", { class: "clock" });
  const view = {
    from: start, to: end, at: null,
    zoom(from, to) {
      const wide = Math.min(end - start, Math.max(least, to - from)), middle = (from + to) / 2;
      this.from = Math.min(end - wide, Math.max(start, middle - wide / 2));
      this.to = this.from + wide;
      shown.textContent = span(this.from) + " to " + span(this.to);
      open.forEach(o => o.redraw());
    },
    read(at) { this.at = at; open.forEach(o => o.cursor()); },
    all() { this.zoom(start, end); },
    by(k) { // around what is read, or the middle
      const at = this.at !== null && this.at > this.from && this.at < this.to ? this.at : (this.from + this.to) / 2, half = (this.to - this.from) / 2 * k;
      this.zoom(at - half, at + half);
    },
    shift(k) { const wide = this.to - this.from; this.zoom(this.from + k * wide, this.to + k * wide); },
  };
  const button = (text, label, click) => el("button", { type: "button", "aria-label": label, title: label, click }, text);
  box.append(el("div", { class: "tools", role: "group", "aria-label": "Times shown" },
    button("−", "Zoom out", () => view.by(2)), button("+", "Zoom in", () => view.by(.5)),
    button("‹", "Earlier", () => view.shift(-.5)), button("›", "Later", () => view.shift(.5)), button("All", "Show all times", () => view.all()), shown));
  all.forEach(a => {
    const room = el("div", { class: "strips" });
    const details = el("details", { class: "policy", "data-policy": a.name, toggle: () => {
      if (!details.open) { open.delete(a); room.replaceChildren(); return; }
      open.set(a, timeline(room, a.name, a.timeline, view));
    } }, el("summary", {}, el("span", { class: "which" }, a.name), " ", el("span", { class: "brief" }, a.brief)), room);
    details.open = a.open;
    box.append(details);
  });
  view.all();
};
