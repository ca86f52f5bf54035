// On paper nothing can be opened: warnings that are folded are shown whole.
{
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll(".warnings details:not([open])")];
    for (const d of opened) d.open = true;
  });
  addEventListener("afterprint", () => { for (const d of opened) d.open = false; });
}
