// The map of a pane: all of the graph, what was removed or changed in it, and the part that is seen.

const MAP = {most: 110, tall: 0.62, scale: 0.12};  // no larger than needed: it covers a part of the graph

/** The scales of the map of a pane, across and down, and its size. */
function mapOf({scene: {box}, size}) {
  const wide = Math.min(MAP.most, size.w * 0.26);
  const k = Math.min(wide / box.w, (size.h * MAP.tall) / box.h, MAP.scale);
  const across = Math.max(k, Math.min(wide / box.w, 44 / box.w));  // a thread is no map: narrow graphs are stretched
  return {kx: across, ky: k, box, w: Math.max(24, Math.round(box.w * across)), h: Math.max(24, Math.round(box.h * k))};
}

function paintMap(pane) {
  const {map, scene, size, at} = pane, {box} = scene, {ink} = Theme;
  const seen = {x: -at.x / at.k, y: -at.y / at.k, w: size.w / at.k, h: size.h / at.k};
  const all = seen.x <= box.x && seen.y <= box.y && seen.x + seen.w >= box.x + box.w && seen.y + seen.h >= box.y + box.h;
  map.hidden = all || size.w < 240;
  if (map.hidden) return;
  const {kx: across, ky: k, w, h} = pane.mapping = mapOf(pane);
  const ratio = pane.ratio;
  if (map.width !== w * ratio || map.height !== h * ratio) {
    Object.assign(map, {width: w * ratio, height: h * ratio});
    Object.assign(map.style, {width: `${w}px`, height: `${h}px`});
  }
  const ctx = map.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = ink.paper;
  ctx.fillRect(0, 0, w, h);
  const blot = (shape, colour, least) => {
    ctx.fillStyle = colour;
    ctx.fillRect((shape.x - box.x) * across, (shape.y - box.y) * k, Math.max(least, shape.w * across), Math.max(least, shape.h * k));
  };
  const marked = [];
  for (const shape of scene.shapes) {
    if (shape.frame) {
      blot(shape, ink.arrow, 1);
      for (const item of shape.ops) { const status = statusOf(pane.side, item); if (status) { marked.push([{...shape, w: shape.w / 2}, status]); break; } }
      continue;
    }
    const status = statusOf(pane.side, shape.item);
    if (status) marked.push([shape, status]); else blot(shape, Theme.of(ITEMS[pane.side][shape.item].type)[1], 1);
  }
  for (const [shape, status] of marked) blot(shape, ink[status], 2.5);
  for (const item of pane.hits) { const shape = scene.shape(item); if (shape) blot(shape, ink.hit, 3); }
  const mine = chosen && chosen.side === pane.side && scene.shape(chosen.item);
  if (mine) blot(mine, ink.mark, 5);
  ctx.strokeStyle = ink.mark;
  ctx.lineWidth = 1.5;
  ctx.strokeRect((seen.x - box.x) * across, (seen.y - box.y) * k, seen.w * across, Math.max(3, seen.h * k));
}

/** A press on the map brings that place to the middle. */
function listenToMap(pane) {
  const {map} = pane;
  const go = (event) => {
    const place = map.getBoundingClientRect(), {kx, ky, box} = pane.mapping;
    const x = (event.clientX - place.left) / kx + box.x, y = (event.clientY - place.top) / ky + box.y;
    pane.move({...pane.at, x: pane.size.w / 2 - x * pane.at.k, y: pane.size.h / 2 - y * pane.at.k});
  };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); go(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
}
