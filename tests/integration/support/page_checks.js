// What an audit of accessibility would find, each fault as a sentence. Run in the page.
() => {
  const faults = [];
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    const style = getComputedStyle(element);
    return box.width > 1 && box.height > 1 && style.visibility !== "hidden" && style.display !== "none"
      && element.checkVisibility?.({ contentVisibilityAuto: true }) !== false;
  };
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = "#000";
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return a ? [r, g, b, a / 255] : [0, 0, 0, 0];
  };
  const over = (top, under) => [0, 1, 2].map((i) => top[i] * top[3] + under[i] * (1 - top[3])).concat(1);
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(rgba(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (color) => {
    const part = color.slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };

  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, title, desc, .hidden, .skip") || !seen(element)) continue;
    texts += 1;
    const drawn = element instanceof SVGElement;
    let under = ground(element.closest("svg") || element);
    if (drawn && element.classList.contains("inside")) {
      under = over(rgba(getComputedStyle(element.previousElementSibling).fill), under);
    }
    const style = getComputedStyle(element);
    const ink = over(rgba(drawn ? style.fill : style.color), under);
    const ratio = contrast(ink, under);
    if (ratio < 4.5) faults.push(`contrast ${ratio.toFixed(2)}: ${element.tagName}.${element.getAttribute("class")}: ${node.textContent.trim().slice(0, 40)}`);
  }
  if (texts < 50) faults.push(`only ${texts} texts were looked at`);

  let rank = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const next = Number(heading.tagName[1]);
    if (next > rank + 1) faults.push(`h${rank} is followed by h${next}`);
    if (!heading.textContent.trim()) faults.push("an empty heading");
    rank = next;
  }
  const named = (element) => {
    const by = element.getAttribute("aria-labelledby");
    const label = by ? by.split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ") : "";
    return (label || element.getAttribute("aria-label") || element.textContent || "").trim();
  };
  for (const element of document.querySelectorAll("a, button, summary, section, nav, [role=img], [role=group]")) {
    if (!named(element)) faults.push(`without a name: ${element.outerHTML.slice(0, 80)}`);
  }
  for (const input of document.querySelectorAll("input")) {
    if (!input.labels.length || !input.labels[0].textContent.trim()) faults.push("an input without a label");
  }
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) faults.push("a table without a caption");
    for (const head of table.querySelectorAll("th")) if (!head.scope) faults.push("a head without a scope");
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  if (new Set(ids).size !== ids.length) faults.push("an id stands twice");
  for (const frame of document.querySelectorAll(".scroll")) {
    if (seen(frame) && frame.scrollWidth > frame.clientWidth + 1 && frame.tabIndex !== 0) faults.push("a frame scrolls and no key reaches it");
  }
  for (const element of document.querySelectorAll("a, button, summary, input")) {
    const box = element.getBoundingClientRect();
    if (seen(element) && box.height < 12) faults.push(`too low to be hit: ${element.outerHTML.slice(0, 60)}`);
  }
  return [...new Set(faults)];
}
