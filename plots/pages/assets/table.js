// A table whose columns can be sorted by: largest first, then smallest, then as
// the page has it. Cells without a value stay at the end.

const sortable = table => {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const sort = (column, direction) => {
    const value = row => {
      const v = row.cells[column].dataset.value;
      return v === undefined ? null : Number(v);
    };
    const order = direction === "none" ? rows : [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return direction === "descending" ? y - x : x - y;
    });
    body.append(...order);
  };
  heads.forEach((head, column) => {
    if (!rows.some(r => r.cells[column].dataset.value !== undefined)) return;
    const button = el("button", {
      type: "button",
      click: () => {
        const next = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") ?? "none"];
        heads.forEach(other => other.removeAttribute("aria-sort"));
        if (next !== "none") head.setAttribute("aria-sort", next);
        sort(column, next);
      },
    });
    button.append(...head.childNodes);
    head.append(button);
  });
};
