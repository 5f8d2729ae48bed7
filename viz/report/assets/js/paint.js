// Painting a scene. At a small scale boxes are blots of their colour, and what was removed or changed stays large enough
// to be seen.

const MONO = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const SANS = "system-ui, Helvetica, Arial, sans-serif";
const [READABLE, LEAST] = [0.42, 5];  // the scale at which texts are drawn; the least pixels of what is marked

function paint(ctx, scene, at, size, look) {
  const {ink} = Theme, ratio = look.ratio;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = ink.paper;
  ctx.fillRect(0, 0, size.w, size.h);
  ctx.setTransform(ratio * at.k, 0, 0, ratio * at.k, ratio * at.x, ratio * at.y);
  const seen = {left: -at.x / at.k, top: -at.y / at.k, right: (size.w - at.x) / at.k, bottom: (size.h - at.y) / at.k};
  const visible = (box) => box.x <= seen.right && box.x + box.w >= seen.left && box.y <= seen.bottom && box.y + box.h >= seen.top;
  for (const each of scene.open) if (visible(each)) paintBand(ctx, each, at.k);
  paintArrows(ctx, scene, at.k, seen, look);
  const marked = [];
  for (const shape of scene.shapes) {
    if (!visible(shape)) continue;
    const status = shape.frame ? "" : statusOf(scene.side, shape.item);
    if (status) marked.push([shape, status]);
    else paintShape(ctx, scene, shape, at.k, "", look);
  }
  for (const [shape, status] of marked) paintShape(ctx, scene, shape, at.k, status, look);
  for (const [shape, colour, wide] of look.rings) if (shape) ring(ctx, shape, at.k, colour, wide);
}

function paintBand(ctx, {frame, x, y, w, h}, k) {
  const {ink} = Theme;
  ctx.fillStyle = ink.soft;
  ctx.globalAlpha = frame.kind === "region" ? 0.9 : 0.55;
  ctx.fillRect(x, y, w, h);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = ink.line;
  ctx.lineWidth = 1 / Math.min(1, k);
  ctx.setLineDash(frame.kind === "layer" ? [] : [5, 4]);
  ctx.strokeRect(x, y, w, h);
  ctx.setLineDash([]);
  if (k < 0.2) return;
  const scale = Math.min(2.2, Math.max(1, 0.75 / k));  // names of bands stay readable longer than those of ops
  ctx.fillStyle = ink.quiet;
  ctx.font = `600 ${LOOK.fonts.frame * scale}px ${SANS}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillText(`▾ ${fitted(ctx, frame.label, w - 26)}`, x + 7, y + HEAD / 2);
}

function paintArrows(ctx, scene, k, seen, {ratio, near}) {
  const {ink} = Theme;
  const draw = (lines, colour, wide) => {
    ctx.strokeStyle = colour;
    ctx.lineWidth = Math.max(wide, 0.7 / k);
    ctx.beginPath();
    for (const {points} of lines) if (points) trace(ctx, points);
    ctx.stroke();
  };
  const inSight = scene.lines.filter(({points}) => points && points[0][1] <= seen.bottom && points[points.length - 1][1] >= seen.top);
  draw(inSight.filter((line) => !near.has(line)), ink.arrow, 1.1);
  if (k > 0.3) tips(ctx, inSight, ink.arrow);
  if (!near.size) return;
  const far = [...near].filter((line) => !line.points).map((line) => {
    const [one, two] = [scene.shapes[line.from], scene.shapes[line.to]];
    return {points: [[one.x + one.w / 2, one.y + one.h], [two.x + two.w / 2, two.y]], far: true};
  });
  ctx.setLineDash([7, 5]);
  draw(far, ink.mark, 1.4);
  ctx.setLineDash([]);
  const close = [...near].filter((line) => line.points);
  draw(close, ink.mark, 2.2);
  tips(ctx, [...close, ...far], ink.mark);
}

function trace(ctx, points) {
  ctx.moveTo(...points[0]);
  for (let k = 1; k < points.length; k++) {
    const [[x0, y0], [x1, y1]] = [points[k - 1], points[k]];
    if (x0 === x1) ctx.lineTo(x1, y1);
    else ctx.bezierCurveTo(x0, y0 + (y1 - y0) * 0.5, x1, y1 - (y1 - y0) * 0.5, x1, y1);
  }
}

function tips(ctx, lines, colour) {
  ctx.fillStyle = colour;
  ctx.beginPath();
  for (const {points} of lines) {
    if (!points) continue;
    const [x, y] = points[points.length - 1];
    ctx.moveTo(x, y);
    ctx.lineTo(x - 3.5, y - 7);
    ctx.lineTo(x + 3.5, y - 7);
  }
  ctx.fill();
}

function paintShape(ctx, scene, shape, k, status, look) {
  if (shape.frame) { paintClosed(ctx, scene, shape, k); return; }
  const item = ITEMS[scene.side][shape.item], {ink} = Theme;
  const [fill, edge] = Theme.of(item.type);
  let {x, y, w, h} = shape;
  if (status && Math.min(w, h) * k < LEAST) {
    const grow = LEAST / k;
    x -= Math.max(0, grow - w) / 2; y -= Math.max(0, grow - h) / 2;
    w = Math.max(w, grow); h = Math.max(h, grow);
  }
  const tiny = h * k < 11;
  ctx.fillStyle = tiny ? (status ? ink[status] : edge) : fill;
  ctx.globalAlpha = tiny && !status ? 0.75 : 1;
  path(ctx, x, y, w, h, tiny ? 0 : item.kind === "op" ? 5 : h / 2);
  ctx.fill();
  ctx.globalAlpha = 1;
  if (tiny) return;
  if (status === "gone") { ctx.fillStyle = ink.gone; ctx.globalAlpha = Theme.dark ? 0.22 : 0.12; ctx.fill(); ctx.globalAlpha = 1; }
  ctx.strokeStyle = status ? ink[status] : edge;
  ctx.lineWidth = Math.max(status ? 2.2 : 1, (status ? 2.2 : 0.8) / k);
  if (status === "gone") ctx.setLineDash([6, 4]);
  ctx.stroke();
  ctx.setLineDash([]);
  if (k < READABLE) return;
  paintText(ctx, shape, item, status);
  if (look.far.has(shape.item)) { ctx.fillStyle = ink.quiet; ctx.font = `11px ${SANS}`; ctx.textAlign = "right"; ctx.fillText("↰", x + w - 4, y + 9); }
}

function paintText(ctx, {x, y, w, h}, item, status) {
  const {ink} = Theme, room = w - LOOK.gaps.room, middle = x + w / 2;
  const type = item.gives && item.kind !== "end" ? typePieces(item.gives[0][1]) : null;
  const lines = 1 + (item.detail ? 1 : 0) + (type ? 1 : 0);
  let line = y + (h - LOOK.gaps.line * lines) / 2 + 8;
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  ctx.font = `600 ${LOOK.fonts.title}px ${SANS}`;
  ctx.fillStyle = status === "gone" ? ink.gone : ink.ink;
  const title = fitted(ctx, item.title, room);
  ctx.fillText(title, middle, line);
  if (status === "gone") {
    const wide = ctx.measureText(title).width;
    ctx.fillRect(middle - wide / 2 - 2, line - 0.5, wide + 4, 1.4);
  }
  if (item.detail) {
    line += LOOK.gaps.line;
    ctx.font = `${LOOK.fonts.detail}px ${SANS}`;
    ctx.fillStyle = ink.quiet;
    ctx.fillText(fitted(ctx, item.detail, room), middle, line);
  }
  if (!type) return;
  line += LOOK.gaps.line;
  ctx.font = `${LOOK.fonts.type}px ${MONO}`;
  const whole = type.map(([text]) => text).join("");
  const wide = ctx.measureText(whole).width;
  if (wide > room) { ctx.fillStyle = ink.quiet; ctx.fillText(fitted(ctx, whole, room), middle, line); return; }
  ctx.textAlign = "left";
  let left = middle - wide / 2;
  for (const [text, size] of type) {
    ctx.fillStyle = size ? colourOfSize(size) : ink.quiet;
    ctx.fillText(text, left, line);
    left += ctx.measureText(text).width;
  }
}

/** A closed band: its name, how many ops, and a strip of what is in it. */
function paintClosed(ctx, scene, shape, k) {
  const {ink} = Theme, {x, y, w, h, frame, ops} = shape;
  const count = {gone: 0, changed: 0, new: 0};
  for (const item of ops) { const status = statusOf(scene.side, item); if (status) count[status]++; }
  const tall = Math.max(h, Math.min(h * 2, 9 / k));
  ctx.fillStyle = ink.soft;
  path(ctx, x, y, w, tall === h ? h : tall, 6);
  ctx.fill();
  ctx.strokeStyle = ink.quiet;
  ctx.lineWidth = Math.max(1.2, 0.8 / k);
  ctx.stroke();
  const bar = Math.max(6, Math.min(h, 3 / k)), total = Math.max(1, ops.length);
  let left = x;
  for (const [status, many] of Object.entries(count)) {
    if (!many) continue;
    const wide = Math.max((w * many) / total, Math.min(w, LEAST / k));
    ctx.fillStyle = ink[status];
    ctx.fillRect(left, y + h - bar, Math.min(wide, x + w - left), bar);
    left += wide;
  }
  if (k < READABLE * 0.75) return;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillStyle = ink.ink;
  ctx.font = `600 ${LOOK.fonts.title}px ${SANS}`;
  ctx.fillText(`▸ ${fitted(ctx, frame.label, w - 28)}`, x + 8, y + 12);
  const said = [`${ops.length} ops`, count.gone ? `${count.gone} gone` : "", count.changed ? `${count.changed} changed` : "", count.new ? `${count.new} new` : ""];
  ctx.font = `11px ${SANS}`;
  ctx.fillStyle = ink.quiet;
  ctx.fillText(said.filter(Boolean).join(", "), x + 22, y + 26);
}

function ring(ctx, {x, y, w, h}, k, colour, wide) {
  const room = 3 / Math.min(1, k);
  ctx.strokeStyle = colour;
  ctx.lineWidth = wide / Math.min(1, k);
  path(ctx, x - room, y - room, w + 2 * room, h + 2 * room, 8);
  ctx.stroke();
}

function path(ctx, x, y, w, h, round) {
  ctx.beginPath();
  if (round) ctx.roundRect(x, y, w, h, Math.min(round, 14));
  else ctx.rect(x, y, w, h);
}

const FITTED = new Map();

/** A text cut to a width. */
function fitted(ctx, text, room) {
  const key = `${ctx.font}|${room | 0}|${text}`;
  if (FITTED.has(key)) return FITTED.get(key);
  let shown = text;
  if (ctx.measureText(text).width > room) {
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (ctx.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle; else high = middle - 1;
    }
    shown = `${text.slice(0, low)}…`;
  }
  if (FITTED.size > 20000) FITTED.clear();
  FITTED.set(key, shown);
  return shown;
}
