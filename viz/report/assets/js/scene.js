// One graph as it stands: boxes in rows, bands that fold into one row, arrows. The rows and the places in them come with
// the data; here they get their heights.

const {row: GAP, head: HEAD, foot: FOOT, folded: FOLDED, edge: EDGE} = LOOK.gaps;
const FOLD_AT = 600;  // boxes of a graph from which on its layers are closed at first
const [ROW_X, ROW_ROW, ROW_W, ROW_H] = [1, 2, 3, 4];

class Scene {
  constructor(side, view) {
    this.side = side;
    this.view = view;
    this.frames = view.frames.map(([label, kind, first, last, inside, opener], number) =>
      ({label, kind, first, last, inside, opener, number, boxes: [], folded: false}));
    this.boxAt = new Map(view.boxes.map((box, place) => [box[0], place]));
    view.boxes.forEach((box, place) => { for (const frame of this.around(box[ROW_ROW])) frame.boxes.push(place); });
    if (view.boxes.length > FOLD_AT) for (const frame of this.frames) frame.folded = this.isLeaf(frame);
    this.place();
  }

  isLeaf(frame) { return frame.kind === "layer" && !this.frames.some((each) => each.inside === frame.number); }
  around(row) { return this.frames.filter((frame) => frame.first <= row && row <= frame.last); }
  has(item) { return this.boxAt.has(item); }

  /** The outermost closed band around a row. */
  closed(row) { return this.around(row).find((frame) => frame.folded); }

  /** Heights of rows, then where everything is. */
  place() {
    const {view, frames} = this, rows = view.heights.length;
    const cover = new Array(rows).fill(null);
    for (const frame of frames) if (frame.folded) for (let row = frame.first; row <= frame.last; row++) cover[row] = cover[row] || frame;
    const opens = new Array(rows).fill(0), closes = new Array(rows).fill(0);
    for (const frame of frames) if (!cover[frame.first]) { opens[frame.first]++; closes[frame.last]++; }
    this.top = new Array(rows);
    this.height = new Array(rows);
    let y = 0;
    for (let row = 0; row < rows; row++) {
      y += HEAD * opens[row];
      this.top[row] = y;
      const frame = cover[row];
      this.height[row] = !frame ? view.heights[row] : frame.first === row ? FOLDED : 0;
      if (frame && frame.first !== row) { this.top[row] = this.top[row - 1]; this.height[row] = this.height[row - 1]; continue; }
      y += this.height[row] + GAP + FOOT * closes[row];
    }
    for (const frame of frames) if (frame.folded && cover[frame.first] === frame) {
      for (let row = frame.first; row <= frame.last; row++) { this.top[row] = this.top[frame.first]; this.height[row] = FOLDED; }
    }
    this.shapes = [];
    this.shapeOf = new Array(view.boxes.length);
    const shut = new Map();
    view.boxes.forEach(([item, x, row, w, h], place) => {
      const frame = cover[row];
      if (!frame) this.shapeOf[place] = this.add({item, x: x - w / 2, y: this.top[row] + (this.height[row] - h) / 2, w, h});
      else if (shut.has(frame)) this.shapeOf[place] = shut.get(frame);
      else {
        const at = this.add(this.summary(frame));
        shut.set(frame, at);
        this.shapeOf[place] = at;
      }
    });
    this.open = frames.filter((frame) => !cover[frame.first] && frame.boxes.length).map((frame) => this.outline(frame));
    this.lines = this.arrows();
    const right = Math.max(0, ...this.shapes.map((shape) => shape.x + shape.w), ...this.open.map((each) => each.x + each.w));
    const left = Math.min(0, ...this.open.map((each) => each.x));
    this.box = {x: left - 20, y: -10, w: right - left + 40, h: Math.max(60, y) + 10};
  }

  add(shape) {
    this.shapes.push(shape);
    return this.shapes.length - 1;
  }

  /** The one box of a closed band: what is in it, how much of it is gone or changed. */
  summary(frame) {
    const rows = frame.boxes.map((place) => this.view.boxes[place]);
    const ops = rows.filter(([item]) => isOp(ITEMS[this.side][item]));
    const middle = rows.reduce((sum, row) => sum + row[ROW_X], 0) / rows.length;
    const w = Math.min(420, Math.max(190, frame.label.length * 7.4 + 40));
    return {frame, x: middle - w / 2, y: this.top[frame.first], w, h: FOLDED, ops: ops.map(([item]) => item)};
  }

  outline(frame) {
    const depth = this.frames.filter((each) => each.inside === frame.number && !each.folded).length ? EDGE * 2 : EDGE;
    let left = Infinity, right = -Infinity;
    for (const place of frame.boxes) {
      const shape = this.shapes[this.shapeOf[place]];
      left = Math.min(left, shape.x);
      right = Math.max(right, shape.x + shape.w);
    }
    const inner = this.frames.filter((each) => !each.folded && each.first === frame.first && each.number > frame.number).length;
    const below = this.frames.filter((each) => !each.folded && each.last === frame.last && each.number > frame.number).length;
    const top = this.top[frame.first] - HEAD * (inner + 1), end = this.top[frame.last] + this.height[frame.last] + FOOT * (below + 0.8);
    return {frame, x: left - depth, y: top, w: Math.max(right - left + 2 * depth, 160), h: end - top};
  }

  /** Arrows between what is seen: points from above to below. Those between two shapes are one. */
  arrows() {
    const out = [], seen = new Map();
    this.view.arrows.forEach(([tail, head, bends], number) => {
      const from = this.shapeOf[tail], to = this.shapeOf[head];
      if (from === to) return;
      const [one, two] = [this.shapes[from], this.shapes[to]];
      const key = from * this.shapes.length + to;
      if (seen.has(key)) { seen.get(key).arrows.push(number); return; }
      const line = {from, to, arrows: [number], points: null};
      if (bends) {
        const first = this.view.boxes[tail][ROW_ROW] + 1;
        const points = [[one.frame ? one.x + one.w / 2 : this.view.boxes[tail][ROW_X], one.y + one.h]];
        bends.forEach((x, k) => {
          const row = first + k, y = this.top[row], end = y + this.height[row];
          if (y <= one.y || y >= two.y) return;  // inside of a closed band at one of its ends
          const last = points[points.length - 1];
          if (last[1] < y) points.push([x, y], [x, end]);
          else if (last[1] < end) points.push([x, end]);
        });
        points.push([two.frame ? two.x + two.w / 2 : this.view.boxes[head][ROW_X], two.y]);
        line.points = points;
      } else if ((one.frame || two.frame) && Math.abs(two.y - one.y) < 6 * (FOLDED + GAP)) {
        line.points = [[one.x + one.w / 2, one.y + one.h], [two.x + two.w / 2, two.y]];
      }
      seen.set(key, line);
      out.push(line);
    });
    return out;
  }

  /** The shape at a point; bands' names too. */
  at(x, y) {
    for (const shape of this.shapes) if (x >= shape.x && x <= shape.x + shape.w && y >= shape.y && y <= shape.y + shape.h) return shape;
    return this.open.filter((each) => x >= each.x && x <= each.x + each.w && y >= each.y && y <= each.y + HEAD - 2).pop() || null;
  }

  /** The shape in which an item is seen: its own or a closed band's. */
  shape(item) {
    const place = this.boxAt.get(item);
    return place === undefined ? null : this.shapes[this.shapeOf[place]];
  }

  fold(frame, folded) {
    frame.folded = folded;
    this.place();
  }

  foldAll(folded) {
    for (const frame of this.frames) frame.folded = folded && (frame.kind !== "layer" || this.isLeaf(frame));
    this.place();
  }

  /** Open the bands around an item. Whether there was one. */
  show(item) {
    const place = this.boxAt.get(item);
    if (place === undefined) return false;
    const shut = this.around(this.view.boxes[place][ROW_ROW]).filter((frame) => frame.folded);
    for (const frame of shut) frame.folded = false;
    if (shut.length) this.place();
    return shut.length > 0;
  }
}
