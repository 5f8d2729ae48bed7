// The mouse, and one or two fingers, over a pane.

function listenToFingers(pane) {
  const {view} = pane, down = new Map();
  let from = null;
  const middle = () => {
    const [one, two] = [...down.values()], box = view.getBoundingClientRect();
    const to = two || one;
    return {x: (one.clientX + to.clientX) / 2 - box.left, y: (one.clientY + to.clientY) / 2 - box.top,
      wide: Math.hypot(one.clientX - to.clientX, one.clientY - to.clientY)};
  };
  const begin = () => { from = down.size ? {...middle(), at: {...pane.at}, far: from ? from.far : false, fingers: down.size} : null; };
  view.addEventListener("pointerdown", (event) => {
    if (event.target === pane.map || (event.pointerType === "mouse" && event.button)) return;
    if (!down.size) from = null;
    down.set(event.pointerId, event);
    begin();
    view.focus({preventScroll: true});
    tip(null);
  });
  view.addEventListener("pointermove", (event) => {
    if (!down.has(event.pointerId)) { hover(pane, event); return; }
    down.set(event.pointerId, event);
    const now = middle();
    if (!from.far && from.fingers === 1 && Math.hypot(now.x - from.x, now.y - from.y) < 4) return;
    if (!from.far) { from.far = true; view.setPointerCapture(event.pointerId); view.classList.add("held"); }
    const ratio = from.fingers > 1 && from.wide ? now.wide / from.wide : 1;
    const k = Math.min(6, Math.max(0.004, from.at.k * ratio)), grown = k / from.at.k;
    pane.move({k, x: now.x - (from.x - from.at.x) * grown, y: now.y - (from.y - from.at.y) * grown});
  });
  const up = (event, act) => {
    if (!down.delete(event.pointerId)) return;
    view.classList.remove("held");
    if (act && from && !from.far && !down.size) pane.click(event);
    begin();
  };
  view.addEventListener("pointerup", (event) => up(event, true));
  view.addEventListener("pointercancel", (event) => up(event, false));
  view.addEventListener("pointerleave", () => tip(null));
}

/** What is told of the box under the mouse: all of its texts. */
function hover(pane, event) {
  if (event.pointerType !== "mouse") return;
  const shape = event.target === pane.map ? null : pane.under(event);
  pane.view.classList.toggle("over", Boolean(shape));
  if (!shape) { tip(null); return; }
  if (shape.frame) { tip(event, el("b", {}, shape.frame.label), el("div", {class: "quiet"}, shape.frame.folded ? "click to open" : "click to close")); return; }
  const item = ITEMS[pane.side][shape.item], status = statusOf(pane.side, shape.item);
  tip(event, el("b", {}, item.title), item.kind === "op" ? ` ${nameOf(item)}` : "",
    status ? el("span", {class: `status ${status}`}, status) : null,
    ...(item.gives || []).slice(0, 3).map(([, type]) => el("div", {}, typeOf(type, true))),
    item.detail ? el("div", {class: "quiet"}, item.detail) : null,
    item.where ? el("div", {class: "quiet"}, item.where) : null);
}

function tip(event, ...content) {
  const box = by("tip");
  box.hidden = !event;
  if (!event) return;
  box.replaceChildren(...content.filter((each) => each != null));
  const wide = box.offsetWidth, tall = box.offsetHeight;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 6))}px`;
  box.style.top = `${event.clientY + 18 + tall > innerHeight ? event.clientY - tall - 10 : event.clientY + 18}px`;
}
