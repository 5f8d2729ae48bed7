// A pane: one graph that can be moved and zoomed, with its map.

const THREAD = 0.04;  // a scale at which boxes cannot be told apart

class Pane {
  constructor(side) {
    this.side = side;
    this.root = by(side);
    this.root.append(by("pane").content.cloneNode(true));
    this.part = (name) => this.root.querySelector(`.${name}`);
    [this.view, this.canvas, this.map] = [this.part("view"), this.part("graph"), this.part("map")];
    this.part("name").textContent = `${side}: ${DATA.count[side]} ${DATA.unit}`;
    this.at = {x: 0, y: 0, k: 1};
    this.scenes = {};
    this.hits = new Set();
    this.listen();
    new ResizeObserver(() => this.resized()).observe(this.view);
  }

  get scene() {
    const views = DATA.sides[this.side].views, name = !by("code").checked && views.data ? "data" : "all";
    if (!this.scenes[name]) this.scenes[name] = new Scene(this.side, views[name]);
    return this.scenes[name];
  }

  /** Say what is shown and what is not. */
  note() {
    const {all} = DATA.sides[this.side].views, hidden = all.boxes.length - this.scene.view.boxes.length;
    const shut = this.scene.frames.filter((frame) => frame.folded).length;
    const told = (one, two) => [hidden ? `${hidden} ${one}` : "", shut ? `${shut} ${two}` : ""].filter(Boolean).join("; ");
    this.part("note").textContent = told("hidden", "closed");
    this.part("note").title = told("that only compute sizes are not shown", "layers or regions are closed: click one to open it");
    for (const name of ["fold", "unfold"]) this.part(name).hidden = !this.scene.frames.length;
    this.changes = this.scene.view.boxes.map(([item]) => item).filter((item) => this.hasChanged(item));
    for (const name of ["previous", "next"]) this.part(name).hidden = !this.changes.length;
  }

  hasChanged(item) { return Boolean(ITEMS[this.side][item].status); }

  resized() {
    const first = !this.size;
    this.size = {w: this.view.clientWidth, h: this.view.clientHeight};
    if (!this.size.w) { this.size = null; return; }
    const ratio = this.ratio = window.devicePixelRatio || 1;
    this.canvas.width = this.size.w * ratio;
    this.canvas.height = this.size.h * ratio;
    if (first) this.start();
    this.paint();
  }

  // -- moving ------------------------------------------------------------------------------------------------------

  move(at) {
    this.at = at;
    this.repaint();
  }

  zoom(factor, x = this.size.w / 2, y = this.size.h / 2) {
    const k = Math.min(6, Math.max(0.004, this.at.k * factor)), ratio = k / this.at.k;
    this.move({k, x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio});
  }

  /** All of it; the layers of a graph of which nothing could be seen then are closed. */
  fit() {
    const scale = () => Math.min(this.size.w / this.scene.box.w, this.size.h / this.scene.box.h, 1.2);
    if (scale() < THREAD && this.scene.open.length) { this.scene.foldAll(true); this.note(); }
    const {box} = this.scene, k = scale();
    this.move({k, x: (this.size.w - box.w * k) / 2 - box.x * k, y: (this.size.h - box.h * k) / 2 - box.y * k});
  }

  /** Where reading begins: as wide as the pane, but not too small to read, at the top. */
  start() {
    const {box} = this.scene, w = this.free(), k = Math.min(1, Math.max(isPhone() ? 0.7 : 0.62, w / box.w));
    this.at = {k, x: (w - box.w * k) / 2 - box.x * k, y: 4 - box.y * k};
    if (box.w * k <= w) return;
    const top = this.scene.shapes.filter((shape) => shape.y * k < this.size.h).map((shape) => shape.x + shape.w / 2).sort((a, b) => a - b);
    if (top.length) this.at.x = w / 2 - top[top.length >> 1] * k;
  }

  /** The width that the map leaves. */
  free() { return this.size.w - (this.size.w < 240 ? 0 : mapOf(this).w + 12); }

  /** Bring an item into view; the bands around it open if `open`; it can be read if `near`. */
  reveal(item, open = true, near = open) {
    if (!this.size) return;
    if (open && this.scene.show(item)) this.note();
    const shape = this.scene.shape(item) || this.scene.shape(this.nearest(item));
    if (!shape) return;
    const k = this.at.k < 0.5 && near ? 0.85 : this.at.k, w = this.free();
    const x = shape.x + shape.w / 2, y = shape.y + shape.h / 2;
    const seen = [x * this.at.k + this.at.x, y * this.at.k + this.at.y];
    const inside = seen[0] > 60 && seen[0] < w - 60 && seen[1] > 40 && seen[1] < this.size.h - (isPhone() ? this.size.h / 2 : 40);
    if (inside && k === this.at.k) { this.repaint(); return; }
    this.move({k, x: w / 2 - x * k, y: this.size.h * (isPhone() ? 0.3 : 0.45) - y * k});
  }

  /** For what has no box of its own (a constant): what reads it. */
  nearest(item) { return READERS[this.side][item].find((reader) => this.scene.has(reader)); }

  step(way) {
    const now = chosen && chosen.side === this.side ? this.changes.indexOf(chosen.item) : -1;
    const to = now < 0 ? (way > 0 ? 0 : this.changes.length - 1) : (now + way + this.changes.length) % this.changes.length;
    if (this.changes.length) select(this.side, this.changes[to]);
  }

  foldAll(folded) {
    this.scene.foldAll(folded);
    this.note();
    if (folded) this.start();
    this.repaint();
  }

  /** Open or close a band; its name stays where it was on the screen. */
  fold(frame, folded) {
    const before = this.placeOf(frame);
    this.scene.fold(frame, folded);
    const after = this.placeOf(frame), {k} = this.at;
    this.move({k, x: this.at.x + (before.x - after.x) * k, y: this.at.y + (before.y - after.y) * k});
    this.note();
  }

  placeOf(frame) {
    const shut = this.scene.shapes.find((shape) => shape.frame === frame);
    const open = this.scene.open.find((each) => each.frame === frame);
    return shut ? {x: shut.x + shut.w / 2, y: shut.y} : {x: open.x + open.w / 2, y: open.y};
  }

  // -- painting ----------------------------------------------------------------------------------------------------

  repaint() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.paint(); });
  }

  paint() {
    if (!this.size) return;
    paint(this.canvas.getContext("2d"), this.scene, this.at, this.size, this.look());
    paintMap(this);
  }

  /** What is marked: the chosen box and its twin, what was found, the rewrite shown, arrows of the chosen box. */
  look() {
    const {scene} = this, rings = [], near = new Set();
    for (const item of this.hits) rings.push([scene.shape(item), Theme.ink.hit, 2]);
    if (this.side === "before") for (const item of Rewrites.now) rings.push([scene.shape(item), Theme.ink.changed, 4]);
    if (chosen) {
      const twin = chosen.side === this.side ? null : twinOf(chosen.side, chosen.item);
      if (twin != null) rings.push([scene.shape(twin), Theme.ink.twin, 3]);
      if (chosen.side === this.side) {
        const shapes = [chosen.item, ...(chosen.more || [])].map((item) => scene.shape(item) || scene.shape(this.nearest(item)));
        for (const shape of shapes) rings.push([shape, Theme.ink.mark, 3]);
        const boxes = new Set([chosen.item, OPENER[this.side].get(chosen.item)].map((item) => scene.boxAt.get(item)));
        const own = (number) => scene.view.arrows[number].slice(0, 2).some((box) => boxes.has(box));
        for (const line of scene.lines) if (line.arrows.some(own)) near.add(line);
      }
    }
    return {rings, near, far: this.far(), ratio: this.ratio};
  }

  /** Items that read what stands too far above for an arrow. */
  far() {
    const {scene} = this;
    if (!scene.far) scene.far = new Set(scene.view.arrows.filter((arrow) => arrow.length === 2).map(([, head]) => scene.view.boxes[head][0]));
    return scene.far;
  }

  // -- acting ------------------------------------------------------------------------------------------------------

  listen() {
    const {view} = this, on = (name, act) => this.part(name).addEventListener("click", act);
    on("in", () => this.zoom(1.3));
    on("out", () => this.zoom(1 / 1.3));
    on("fit", () => this.fit());
    on("fold", () => this.foldAll(true));
    on("unfold", () => this.foldAll(false));
    on("previous", () => this.step(-1));
    on("next", () => this.step(1));
    view.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = view.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
    }, {passive: false});
    listenToFingers(this);
    view.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
      if (step) { event.preventDefault(); this.move({...this.at, x: this.at.x + step[0], y: this.at.y + step[1]}); }
      else if (event.key === "+") this.zoom(1.3);
      else if (event.key === "-") this.zoom(1 / 1.3);
      else if (event.key === "0") this.fit();
      else if (event.key === "n") this.step(1);
      else if (event.key === "p") this.step(-1);
    });
  }

  /** The shape under a place on the screen. */
  under(event) {
    const box = this.view.getBoundingClientRect(), {x, y, k} = this.at;
    return this.scene.at((event.clientX - box.left - x) / k, (event.clientY - box.top - y) / k);
  }

  click(event) {
    const shape = this.under(event);
    if (!shape) { select(null); return; }
    if (shape.frame) this.fold(shape.frame, !shape.frame.folded);
    else select(this.side, shape.item, false);
  }
}
