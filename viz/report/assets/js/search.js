// The search: ops first, then values and constants, then what else says the words.

const INDEX = SIDES.flatMap((side) => ITEMS[side].map((item, row) => {
  const names = (item.gives || []).map(([name]) => name);
  const types = (item.gives || []).map(([, type]) => typeText(type));
  const rules = (item.why || []).map((step) => DATA.texts[DATA.steps[step][0]]);
  return {side, row, item, names, title: item.title.toLowerCase(),
    text: [item.title, ...names.map((name) => `%${name}`), item.op != null ? DATA.texts[item.op] : "", ...types, item.where, item.status, ...rules].join(" ").toLowerCase()};
}).filter((entry) => entry.item.kind !== "end"));

function rank({title, names, item}, exact) {
  const low = exact.toLowerCase();
  if (names.includes(exact)) return item.kind === "op" ? 0 : 1;
  if (isOp(item)) return (title === low ? 2 : title.startsWith(low) ? 3 : title.includes(low) ? 4 : 6) + (item.code ? 0.5 : 0);
  return names.some((name) => name.toLowerCase().startsWith(low)) || title.startsWith(low) ? 5 : 7;
}

function find(words) {
  const exact = words.trim().replace(/^%/, "");
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = INDEX.filter((entry) => wanted.every((word) => entry.text.includes(word)));
  return hits.map((entry) => [rank(entry, exact), entry]).sort(([one], [two]) => one - two).map(([, entry]) => entry);
}

function search() {
  const list = by("found"), words = by("search").value, hits = words.trim() ? find(words) : [];
  list.hidden = !words.trim();
  for (const side of SIDES) panes[side].hits = new Set(hits.length > 2000 ? [] : hits.filter((hit) => hit.side === side && hit.item.kind !== "constant").map((hit) => hit.row));
  list.replaceChildren(...hits.slice(0, 60).map((hit, place) => el("li", {class: place ? null : "on", onclick: () => take(hit)},
    el("b", {}, hit.item.title), isOp(hit.item) ? ` ${nameOf(hit.item)} ` : ` ${hit.item.kind} `, hit.item.gives ? el("code", {}, typeText(hit.item.gives[0][1], false)) : "",
    el("span", {class: "where"}, ` ${hit.side}${hit.item.status ? `, ${hit.item.status}` : ""} ${hit.item.where || ""}`))),
  ...(hits.length > 60 ? [el("li", {class: "where"}, `and ${hits.length - 60} more, marked in the graph`)] : []),
  ...(hits.length || !words.trim() ? [] : [el("li", {class: "where"}, "nothing")]));
  repaint();
}

function take(hit) {
  by("found").hidden = true;
  select(hit.side, hit.row);
}

function searchFor(words) {
  by("search").value = words;
  by("search").focus();
  search();
}

by("search").addEventListener("input", search);
by("search").addEventListener("focus", search);
by("search").addEventListener("keydown", (event) => {
  const rows = [...by("found").children], now = rows.findIndex((row) => row.classList.contains("on"));
  if (event.key === "Enter" && rows[now]) rows[now].click();
  else if (event.key === "Escape") { by("found").hidden = true; by("search").blur(); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const to = Math.min(rows.length - 1, Math.max(0, now + (event.key === "ArrowDown" ? 1 : -1)));
    rows[now]?.classList.remove("on");
    rows[to]?.classList.add("on");
    rows[to]?.scrollIntoView({block: "nearest"});
  }
});
document.addEventListener("pointerdown", (event) => { if (!by("finder").contains(event.target)) by("found").hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== by("search")) { event.preventDefault(); by("search").focus(); }
});
