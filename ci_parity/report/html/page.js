"use strict";
(() => {
  const root = document.documentElement;
  const said = document.getElementById("said");

  // Colours: the system's, or the other ones; kept where the browser lets a file keep anything.
  const KEY = "ci-parity-theme";
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem(KEY);
      localStorage.setItem(KEY, value);
    } catch { /* a file without storage */ }
    return value;
  };
  const system = matchMedia("(prefers-color-scheme: dark)");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const toggle = document.createElement("button");
  toggle.type = "button";
  toggle.className = "theme";
  const paint = () => { toggle.textContent = dark() ? "Light colours" : "Dark colours"; };
  const kept = stored();
  if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  toggle.addEventListener("click", () => {
    root.dataset.theme = stored(dark() ? "light" : "dark");
    paint();
  });
  system.addEventListener("change", paint);
  paint();
  document.querySelector(".top > div").append(toggle);

  // Tables: a head is a button; a number sorts by its value, what is missing comes last.
  const collator = new Intl.Collator(undefined, { numeric: true });
  const valueOf = (row, at) => {
    const cell = row.cells[at];
    const given = cell.dataset.value;
    if (given === undefined) return cell.textContent.trim();
    if (given === "" || given === "nan") return null;
    if (given === "inf") return Infinity;
    return given === "-inf" ? -Infinity : Number(given);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a - b;
    return collator.compare(String(a), String(b));
  };
  const sort = (table, head, at) => {
    const numeric = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numeric;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [valueOf(row, at), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null || a === "-" || b === "-") {
        return (a === null || a === "-") - (b === null || b === "-");
      }
      return down ? -compare(a, b) : compare(a, b);
    });
    body.append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    said.textContent = `Sorted by ${head.textContent}, ${down ? "descending" : "ascending"}.`;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    if (table.tBodies[0].rows.length < 2) continue;
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      if (!head.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, at));
      head.append(button);
    });
  }

  // What scrolls can be reached by keys; measured again when anything opens.
  const reach = () => {
    for (const frame of document.querySelectorAll(".scroll")) {
      const scrolls = frame.scrollWidth > frame.clientWidth + 1;
      const caption = frame.querySelector("caption") || frame.querySelector("svg[aria-label]");
      if (scrolls) {
        frame.tabIndex = 0;
        frame.setAttribute("role", "group");
        frame.setAttribute("aria-label", caption?.getAttribute("aria-label") || caption?.textContent || "Wide content");
      } else {
        frame.removeAttribute("tabindex");
        frame.removeAttribute("role");
        frame.removeAttribute("aria-label");
      }
    }
  };
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);
  document.getElementById("all-figures")?.addEventListener("change", reach);
  reach();

  // A link opens what its target is folded into; printing opens everything.
  const unfold = () => {
    // Anchors are plain words; nothing in an address needs decoding.
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", unfold);
  unfold();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
