// Putting the page together.

let mode = "both";

function setMode(to) {
  mode = to;
  for (const side of SIDES) by(side).hidden = mode !== "both" && mode !== side;
  for (const button of by("mode").children) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  for (const side of SIDES) if (!by(side).hidden) panes[side].resized();
}

function repaint() {
  for (const side of SIDES) panes[side].repaint();
}

Theme.set("auto");
const panes = Object.fromEntries(SIDES.map((side) => [side, new Pane(side)]));
SIDES.forEach((side) => listenToMap(panes[side]));
by("model").textContent = by("model").title = DATA.model;
by("summary").textContent = `${DATA.count.before} ${DATA.unit} → ${DATA.count.after} ${DATA.unit}, ${DATA.status}`;
by("coding").hidden = !SIDES.some((side) => DATA.sides[side].views.data);
by("code").checked = DATA.code;
by("code").addEventListener("change", () => {
  for (const side of SIDES) { panes[side].note(); if (panes[side].size) panes[side].start(); }
  if (chosen) select(chosen.side, chosen.item); else { details(); repaint(); }
});
for (const button of by("mode").children) button.addEventListener("click", () => setMode(button.dataset.mode));
Theme.start();
Rewrites.start();
for (const side of SIDES) panes[side].note();
setMode(innerWidth < 1000 ? "before" : "both");
details();
sheets();
const asked = location.hash.match(/^#(before|after)\/(\d+)$/);
if (asked && ITEMS[asked[1]][Number(asked[2])]) select(asked[1], Number(asked[2]));
requestAnimationFrame(() => requestAnimationFrame(() => {
  document.body.dataset.state = "ready";
  document.body.dataset.ms = Math.round(performance.now());
}));
