"use strict";
const DATA = JSON.parse(document.getElementById("data").textContent);
const SIDES = ["before", "after"];
const by = (id) => document.getElementById(id);

/** An element with attributes and children; texts are never parsed as HTML. */
function el(tag, attrs, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attrs || {})) {
    if (key === "onclick") node.addEventListener("click", value);
    else if (key === "style") node.style.cssText = value;
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child != null));
  return node;
}

// -- layout: Graphviz in a worker, or here where a page may have none -------------------------------------------------

const Layout = {
  waiting: new Map(),
  next: 0,
  start() {
    const source = by("renderer").textContent;
    if (!source.trim()) return null;
    const listen = `let engine;
      onmessage = async ({data: [id, dot]}) => {
        try { engine = engine || await EgshapeGraphviz.load(); postMessage([id, engine.layout(dot, "svg", "dot"), null]); }
        catch (error) { engine = null; postMessage([id, null, String(error)]); }
      };`;
    try {
      const url = URL.createObjectURL(new Blob([source, "\n", listen], {type: "text/javascript"}));
      const worker = new Worker(url);
      worker.onmessage = ({data: [id, svg, error]}) => this.done(id, svg, error);
      worker.onerror = () => { this.post = this.inPage(source); for (const [id, job] of this.waiting) this.post(id, job.dot); };
      return (id, dot) => worker.postMessage([id, dot]);
    } catch (error) {
      return this.inPage(source);
    }
  },
  inPage(source) {
    const ready = new Promise((resolve, reject) => {
      const url = URL.createObjectURL(new Blob([source], {type: "text/javascript"}));
      const script = el("script", {src: url});
      script.onload = () => resolve(globalThis.EgshapeGraphviz.load());
      script.onerror = () => reject(new Error("this browser does not run Graphviz"));
      document.head.append(script);
    });
    return (id, dot) => ready.then((engine) => this.done(id, engine.layout(dot, "svg", "dot"), null))
      .catch((error) => this.done(id, null, String(error)));
  },
  done(id, svg, error) {
    const job = this.waiting.get(id);
    this.waiting.delete(id);
    if (job) { if (svg) job.resolve(svg); else job.reject(new Error(error)); }
  },
  get can() { return Boolean(this.post); },
  svg(dot) {
    return new Promise((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, {dot, resolve, reject});
      this.post(id, dot);
    });
  },
};
Layout.post = Layout.start();

/** The DOT text of a graph's pieces; `only` limits it to some nodes. */
function dotOf(pieces, only) {
  const keep = (id) => !only || only.has(id);
  const body = (items) => items.flatMap((item) => {
    if (Array.isArray(item)) return keep(item[0]) ? [item[1]] : [];
    const inner = body(item.body);
    return inner.length ? [item.open, ...inner, "}"] : [];
  });
  const edges = pieces.edges.filter(([tail, head]) => keep(tail) && keep(head)).map((edge) => edge[2]);
  return [pieces.head, ...body(pieces.body), ...edges, "}"].join("\n");
}

/** The nodes at most `hops` arrows away from one. */
function around(pieces, start, hops) {
  const next = new Map();
  for (const [tail, head] of pieces.edges) {
    for (const [a, b] of [[tail, head], [head, tail]]) next.set(a, (next.get(a) || []).concat(b));
  }
  let seen = new Set([start]), edge = [start];
  for (let hop = 0; hop < hops; hop++) {
    edge = edge.flatMap((id) => next.get(id) || []).filter((id) => !seen.has(id) && seen.add(id));
  }
  return seen;
}

// -- a pane: one graph that can be moved and zoomed -----------------------------------------------------------------

class Pane {
  constructor(side) {
    this.side = side;
    this.root = by(side);
    this.root.append(by("pane").content.cloneNode(true));
    this.part = (name) => this.root.querySelector("." + name);
    this.view = this.part("view");
    this.stage = this.part("stage");
    this.part("name").textContent = `${side}: ${DATA.count[side]} ops`;
    this.at = {x: 0, y: 0, k: 1};
    this.focus = null;
    this.nodes = new Map();
    this.part("in").addEventListener("click", () => this.zoom(1.3));
    this.part("out").addEventListener("click", () => this.zoom(1 / 1.3));
    this.part("fit").addEventListener("click", () => this.fit());
    this.part("whole").addEventListener("click", () => this.draw(null));
    this.listen();
  }

  get pieces() {
    const views = DATA.graphs[this.side];
    return (!by("code").checked && views.data) || views.all;
  }

  async draw(focus, hops = 2) {
    this.focus = focus;
    const pieces = this.pieces;
    const mine = this.turn = (this.turn || 0) + 1;
    const prepared = (DATA.svg || {})[this.side];
    this.part("whole").hidden = !focus;
    this.part("note").textContent = focus ? `${hops} arrows around ${labelOf(this.side, focus)}` : pieces.notes.join("; ");
    this.part("note").title = this.part("note").textContent;
    let svg;
    this.say(this.stage.firstChild ? "" : "laying the graph out …");
    try {
      if (Layout.can) svg = await Layout.svg(dotOf(pieces, focus && around(pieces, focus, hops)));
      else if (prepared && !focus) svg = prepared[!by("code").checked && prepared.data ? "data" : "all"];
      else throw new Error(DATA.no_layout);
    } catch (error) {
      if (mine === this.turn && !this.stage.firstChild) this.say(String(error.message || error));
      return;
    }
    if (mine !== this.turn) return;
    this.say("");
    this.show(svg);
    if (focus) this.fit(); else this.start();
    mark();
  }

  say(text) { this.part("message").textContent = text; }

  show(text) {
    const svg = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    const box = svg.viewBox.baseVal;
    this.size = {w: box.width, h: box.height};
    svg.setAttribute("width", box.width);
    svg.setAttribute("height", box.height);
    this.nodes = new Map();
    for (const group of svg.querySelectorAll("g.node")) {
      const title = group.querySelector("title");
      this.nodes.set(title.textContent, group);
      group.dataset.id = title.textContent;
    }
    for (const title of svg.querySelectorAll("title")) title.remove();
    this.stage.replaceChildren(document.importNode(svg, true));
    for (const group of this.stage.querySelectorAll("g.node")) this.nodes.set(group.dataset.id, group);
  }

  listen() {
    const view = this.view;
    view.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = view.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
    }, {passive: false});
    let from = null;
    view.addEventListener("pointerdown", (event) => { from = {x: event.clientX, y: event.clientY, at: {...this.at}, far: false}; });
    view.addEventListener("pointermove", (event) => {
      if (!from || !(event.buttons & 1)) return;
      const dx = event.clientX - from.x, dy = event.clientY - from.y;
      if (!from.far && Math.hypot(dx, dy) < 4) return;
      if (!from.far) { from.far = true; view.setPointerCapture(event.pointerId); view.classList.add("held"); }
      this.move({...from.at, x: from.at.x + dx, y: from.at.y + dy});
    });
    view.addEventListener("pointerup", (event) => {
      view.classList.remove("held");
      const group = from && !from.far && event.target.closest && event.target.closest("g.node");
      if (group && DATA.info[this.side][group.dataset.id]) select(this.side, group.dataset.id, this.side);
      from = null;
    });
    view.addEventListener("keydown", (event) => {
      const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
      if (step) this.move({...this.at, x: this.at.x + step[0], y: this.at.y + step[1]});
      else if (event.key === "+") this.zoom(1.3);
      else if (event.key === "-") this.zoom(1 / 1.3);
      else if (event.key === "0") this.fit();
    });
  }

  move(at) {
    this.at = at;
    this.stage.style.transform = `translate(${at.x}px, ${at.y}px) scale(${at.k})`;
  }

  zoom(factor, x = this.view.clientWidth / 2, y = this.view.clientHeight / 2) {
    const k = Math.min(8, Math.max(0.01, this.at.k * factor)), ratio = k / this.at.k;
    this.move({k, x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio});
  }

  fit() {
    if (!this.size) return;
    const k = Math.min(this.view.clientWidth / this.size.w, this.view.clientHeight / this.size.h, 1.2) * 0.97;
    this.move({k, x: (this.view.clientWidth - this.size.w * k) / 2, y: (this.view.clientHeight - this.size.h * k) / 2});
  }

  /** Where reading begins: as wide as the pane, but not too small to read, at the top. */
  start() {
    const wide = this.view.clientWidth / this.size.w;
    const k = Math.min(1.1, Math.max(0.55, wide));
    this.move({k, x: (this.view.clientWidth - this.size.w * k) / 2, y: 6});
    if (this.size.w * k <= this.view.clientWidth) return;
    const view = this.view.getBoundingClientRect();  // a graph that is too wide: where most of its first boxes are
    const boxes = [...this.nodes.values()].map((group) => group.getBoundingClientRect()).filter((box) => box.top < view.bottom);
    const centers = boxes.map((box) => box.left + box.width / 2).sort((a, b) => a - b);
    if (centers.length) this.move({...this.at, x: this.at.x + view.left + view.width / 2 - centers[centers.length >> 1]});
  }

  /** Bring a node into view, as large as `k` says. */
  center(id, k) {
    const group = this.nodes.get(id);
    if (!group) return;
    if (k) this.zoom(k / this.at.k);
    if (this.at.k < 0.6) this.zoom(0.9 / this.at.k);
    const box = group.getBoundingClientRect(), view = this.view.getBoundingClientRect();
    this.move({k: this.at.k, x: this.at.x + view.left + view.width / 2 - (box.left + box.width / 2),
      y: this.at.y + view.top + view.height / 2 - (box.top + box.height / 2)});
  }
}

// -- choosing a node ---------------------------------------------------------------------------------------------------

let chosen = null;
const other = (side) => SIDES[1 - SIDES.indexOf(side)];
const twinsBack = new Map(Object.entries(DATA.twins).reverse().map(([old, now]) => [now, old]));
const twinOf = (side, id) => side === "before" ? DATA.twins[id] : twinsBack.get(id);

function labelOf(side, id) {
  const info = DATA.info[side][id];
  return info.values.length ? (info.kind === "op" ? "%" : "") + info.values[0].name : info.op;
}

/** Choose the ops of a kernel of the compiled result. */
function selectKernel(name) {
  const ids = DATA.kernels[name];
  select("after", ids[ids.length - 1]);
  chosen.more = ids;
  mark();
}

const kernelOf = new Map(Object.entries(DATA.kernels).flatMap(([name, ids]) => ids.map((id) => [id, name])));

/** Choose a node; its pane moves there unless the click was made in it. */
function select(side, id, clicked) {
  chosen = {side, id};
  details();
  mark();
  if (side !== clicked) panes[side].center(id);
  const near = twinOf(side, id) || nearestTwin(side, id);
  if (near) panes[other(side)].center(near, panes[side].at.k);
}

/** What stands for the first op below one that has nothing in the other graph. */
function nearestTwin(side, id) {
  const seen = new Set([id]), queue = [id];
  for (let place = 0; place < queue.length && place < 200; place++) {
    const twin = twinOf(side, queue[place]);
    if (twin) return twin;
    for (const reader of DATA.info[side][queue[place]].readers || []) if (!seen.has(reader)) { seen.add(reader); queue.push(reader); }
  }
  return null;
}

function mark() {
  for (const side of SIDES) {
    for (const group of panes[side].stage.querySelectorAll("g.node.on, g.node.twin")) group.classList.remove("on", "twin");
  }
  if (!chosen) return;
  const twin = twinOf(chosen.side, chosen.id);
  for (const id of [chosen.id, ...(chosen.more || [])]) panes[chosen.side].nodes.get(id)?.classList.add("on");
  if (twin) panes[other(chosen.side)].nodes.get(twin)?.classList.add("twin");
}

function typeOf(value) {
  if (!value.ranked) return el("span", {class: "type"}, `${value.dtype}[*]`);
  const dims = value.dims.flatMap((dim, place) =>
    [place ? ", " : "", el("span", {style: `color:${dim.colour}`, title: dim.from.join(", ")}, dim.size)]);
  return el("span", {class: "type"}, `${value.dtype}[`, ...dims, "]");
}

function link(side, id, text) {
  return id && DATA.info[side][id] ? el("a", {onclick: () => select(side, id)}, text) : text;
}

/** The steps of a chain of reasons; names of values lead to them. */
function chain(why, side = "before") {
  return el("ol", {class: "why"}, why.map((step) => el("li", {},
    el("div", {}, linked(step.to, side)),
    el("div", {class: "quiet"}, "by ", el("span", {class: "rule"}, step.rule),
      step.from.length ? [" from ", linked(step.from.join("; "), side)] : null,
      step.location ? el("span", {}, ` at ${step.location}`) : null))));
}

const named = Object.fromEntries(SIDES.map((side) => [side, new Map(Object.entries(DATA.info[side]).flatMap(
  ([id, info]) => info.kind === "output" ? [] : info.values.map((value) => [value.name, id])))]));

function linked(text, side) {
  return el("code", {}, text.split(/(%[\w.]+)/).map((part) =>
    part.startsWith("%") && named[side].has(part.slice(1)) ? link(side, named[side].get(part.slice(1)), part) : part));
}

const factsOf = (name) => {
  const known = DATA.symbols.find((each) => each.name === name);
  if (!known) return null;
  const ranges = known.ranges.map(([low, high]) => high == null ? `>= ${low}` : low === high ? `= ${low}` : `in [${low}, ${high}]`);
  const [divisor, rest] = known.divisor;
  return [ranges.join(" or "), divisor > 1 ? `% ${divisor} == ${rest}` : null,
    known.likely.length ? `likely ${known.likely.join(", ")}` : null].filter(Boolean).join("; ");
};

function details() {
  const panel = by("details");
  if (!chosen) {
    panel.replaceChildren(el("h2", {}, "Click a box"), el("p", {class: "quiet"},
      "to see its shapes, what is known of its sizes, where it comes from, and why it was removed. ",
      "Struck out on the left: what the optimized graph on the right no longer has. Equal sizes have one colour."),
    el("p", {class: "quiet"}, "Wheel: zoom. Drag: move. / : search. Keys in a graph: arrows, +, -, 0."));
    return;
  }
  const {side, id} = chosen, info = DATA.info[side][id], twin = twinOf(side, id);
  const title = info.kind === "op" ? info.op : labelOf(side, id);
  const sections = [el("h2", {}, title, " ", info.status ? el("span", {class: `status ${info.status}`}, info.status) : null),
    el("p", {class: "quiet"}, info.kind === "op" ? info.doc : info.op)];
  const section = (name, ...children) => sections.push(el("h3", {}, name), ...children);
  if (info.values.length) section(info.kind === "op" ? "Gives" : "Type", ...info.values.map((value) =>
    el("p", {}, info.kind === "op" ? el("code", {}, `%${value.name}: `) : null, typeOf(value))));
  if (info.why && info.why.length) section(info.status === "kept" ? "Reason" : "Why it was removed", chain(info.why));
  if (info.stands) section("In the result", el("p", {}, link("after", twin, info.stands)));
  else if (twin) section(side === "before" ? "In the result" : "In the original",
    el("p", {}, link(other(side), twin, labelOf(other(side), twin) + ` (${DATA.info[other(side)][twin].op})`)));
  const dims = info.values.flatMap((value) => value.dims).filter((dim) => dim.symbols.length);
  const seen = new Set(dims.map((dim) => dim.size));
  if (seen.size) section("Sizes", ...[...seen].map((size) => {
    const dim = dims.find((each) => each.size === size);
    return el("p", {}, el("span", {class: "chip", style: `background:${dim.colour}`}), el("code", {}, size),
      dim.equal ? el("span", {}, " equals ", el("code", {}, dim.equal)) : null,
      el("span", {class: "quiet"}, dim.from.length ? ` from ${dim.from.join(", ")}` : ""),
      ...dim.symbols.map((name) => factsOf(name) && el("span", {class: "quiet"}, `; ${name} ${factsOf(name)}`)));
  }));
  if (info.operands.length) section("Reads", ...info.operands.map((value) => el("p", {}, el("code", {},
    link(side, value.node, `%${value.name}`), `: ${value.type}${value.constant ? ` = ${value.constant}` : ""}`))));
  if (info.readers.length) section("Read by", el("p", {}, info.readers.slice(0, 24).flatMap((reader, place) =>
    [place ? ", " : "", link(side, reader, `${DATA.info[side][reader].op} ${labelOf(side, reader)}`)]),
    info.readers.length > 24 ? ` and ${info.readers.length - 24} more` : null));
  if (info.attrs && info.attrs.length) section("Attributes",
    ...info.attrs.map(([key, value]) => el("p", {}, el("code", {}, `${key} = ${value}`))));
  const kernel = side === "after" && kernelOf.get(id);
  if (kernel) section("Runs in", el("p", {}, el("a", {onclick: () => selectKernel(kernel)},
    `kernel ${kernel}`)));
  if (info.location) section("From", el("p", {}, el("code", {}, info.location)));
  if (Layout.can) section("Draw around it", el("p", {}, [1, 2, 4, 8].flatMap((hops) =>
    [el("button", {onclick: () => panes[side].draw(id, hops)}, `${hops} arrow${hops > 1 ? "s" : ""}`), " "])));
  if (!panes[side].nodes.has(id) && panes[side].nodes.size) sections.splice(1, 0, el("p", {class: "quiet"},
    info.code && !by("code").checked ? "It only computes sizes, and is drawn with “shape code” ticked. "
      : "It has no box of its own in the picture."));
  panel.replaceChildren(...sections);
  panel.scrollTop = 0;
}

// -- search ------------------------------------------------------------------------------------------------------------

const INDEX = SIDES.flatMap((side) => Object.entries(DATA.info[side]).map(([id, info]) => {
  const names = info.values.map((value) => (info.kind === "op" ? "%" : "") + value.name);
  const types = info.values.map((value) => `${value.dtype}[${value.ranked ? value.dims.map((dim) => dim.size).join(", ") : "*"}]`);
  const rules = (info.why || []).map((step) => step.rule);
  return {side, id, names, types, op: info.op, location: info.location || "", status: info.status || "",
    text: [...names, info.op, ...types, info.location, info.status, ...rules].join(" ").toLowerCase()};
}));

function find(words) {
  const exact = words.trim().replace(/^%/, "");
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = INDEX.filter((row) => wanted.every((word) => row.text.includes(word)));
  const rank = (row) => (row.names.some((name) => name.replace(/^%/, "") === exact) ? 0 : row.op === exact ? 1 : 2);
  return hits.sort((a, b) => rank(a) - rank(b));
}

function search() {
  const list = by("found"), words = by("search").value;
  const hits = words.trim() ? find(words) : [];
  list.hidden = !words.trim();
  list.replaceChildren(...hits.slice(0, 60).map((row, place) => el("li", {class: place ? null : "on", onclick: () => take(row)},
    el("b", {}, row.names.join(", ") || row.op), ` ${row.op} `, el("code", {}, row.types.join(", ")),
    el("span", {class: "where"}, ` ${row.side}${row.status && row.status !== "kept" ? `, ${row.status}` : ""} ${row.location}`))),
  ...(hits.length > 60 ? [el("li", {class: "where"}, `and ${hits.length - 60} more`)] : []),
  ...(hits.length || !words.trim() ? [] : [el("li", {class: "where"}, "nothing")]));
}

function take(row) {
  by("found").hidden = true;
  select(row.side, row.id);
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

// -- sheets below ------------------------------------------------------------------------------------------------------

function table(heads, rows) {
  const numeric = heads.map((_, place) => rows.length > 0 && rows.every((row) => typeof row[place] === "number"));
  const shown = (cell) => typeof cell === "number" && !Number.isInteger(cell) ? cell.toPrecision(3) : cell == null ? "" : cell;
  return el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, place) => el("th", {class: numeric[place] ? "number" : null}, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, place) =>
      el("td", {class: numeric[place] ? "number" : null}, cell instanceof Node ? cell : String(shown(cell))))))));
}

const quiet = (text) => el("p", {class: "quiet"}, text);

/** A kernel's name as a link to its ops. */
function kernelLink(cell) {
  return DATA.kernels[cell] ? el("a", {onclick: () => selectKernel(cell)}, cell) : cell;
}

const SHEETS = {
  Rules: () => [DATA.rules.length ? table(["rule", "matches", "unions", "seconds", "a reason for removed ops", ""], DATA.rules.map((row) =>
    [el("a", {onclick: () => { by("search").value = row.rule; by("search").focus(); search(); }}, row.rule), row.matches, row.count, row.seconds, row.removed,
      el("span", {class: "bars", style: `width:${140 * row.removed / Math.max(1, ...DATA.rules.map((each) => each.removed))}px`})]))
    : quiet("no rule united two values"),
  quiet(`stages: ${DATA.stages.map(([name, seconds]) => `${name} ${seconds.toFixed(3)} s`).join(", ")}`)],
  "E-graph": () => DATA.growth.length ? [quiet("The steps that changed the e-graph, in order: of each block the rules over sizes, then those over tensors."),
    table(["ruleset", "nodes before", "nodes after", "", "matched most", "seconds"], DATA.growth.map(([ruleset, before, nodes, rule, seconds]) =>
      [ruleset, before, nodes, el("span", {class: "bars", style: `width:${160 * nodes / Math.max(1, ...DATA.growth.map((step) => step[2]))}px`}), rule, seconds]))] : null,
  Checks: () => {
    const facts = (text) => (DATA.advice ? DATA.advice.advice : []).filter((each) => each.checks.includes(text)).map((each) => each.fact);
    const row = (each) => [each.status, el("code", {}, each.text),
      each.status !== "kept" ? "" : facts(each.text).length ? el("code", {}, facts(each.text).join(" or "))
        : DATA.advice ? quiet(each.text.startsWith("a condition") ? "no fact about sizes" : "only what it says itself") : "", each.why.length ? chain(each.why) : each.message, each.location];
    const kept = DATA.checks.filter((each) => each.status === "kept"), rest = DATA.checks.filter((each) => each.status !== "kept");
    const advice = DATA.advice ? (DATA.advice.advice.length ? table(["this fact", "removes ops", "removes checks", "saves bytes", "option"],
      DATA.advice.advice.map((each) => [el("code", {}, each.fact), each.ops_removed, each.checks_removed, each.bytes_saved, el("code", {}, each.flag)]))
      : quiet(`none of ${DATA.advice.tried} tried facts would help`)) : quiet("not looked for");
    return [el("h4", {}, "Facts that would remove checks or ops if they hold"), advice,
      el("h4", {}, `${kept.length} checks kept, ${rest.length} proved`),
      DATA.checks.length ? table(["", "check", "would go with", "says, or follows from", "at"], [...kept, ...rest].map(row)) : quiet("none")];
  },
  Sizes: () => [table(["", "size", "also written"], DATA.legend.map(([form, colour, others]) =>
    [el("span", {class: "chip", style: `background:${colour}`}), el("code", {}, form), el("code", {}, others.join(" = "))])),
  DATA.symbols.length ? table(["symbol", "is", "known"], DATA.symbols.map((each) => [el("code", {}, each.name), each.sources.join(" = "), factsOf(each.name)])) : null,
  DATA.assumed.length ? quiet(`assumed: ${DATA.assumed.join("; ")}`) : null,
  DATA.equalities.length ? table(["found equal", "because"], DATA.equalities.map((each) => [el("code", {}, `${each.a} = ${each.b}`), chain(each.why)])) : null],
  Ops: () => [table(["op", "before", "after"], DATA.kinds)],
  "Run time": () => DATA.profile && [DATA.profile.length ? table(Object.keys(DATA.profile[0]), DATA.profile.map((row) => Object.values(row).map(kernelLink))) : quiet("no rows")],
  Notes: () => DATA.notes.length ? DATA.notes.map(quiet) : null,
};

function sheets() {
  const made = Object.entries(SHEETS).map(([name, make]) => [name, make()]).filter(([, content]) => content);
  const buttons = made.map(([name, content]) => el("button", {role: "tab", "aria-selected": "false", onclick: () => {
    const open = buttons.find((each) => each.textContent === name);
    const closing = open.getAttribute("aria-selected") === "true";
    for (const each of buttons) each.setAttribute("aria-selected", String(each === open && !closing));
    by("sheet").replaceChildren(...(closing ? [] : content.filter(Boolean)));
  }}, name));
  by("tabs").append(...buttons);
}

// -- begin -------------------------------------------------------------------------------------------------------------

by("model").textContent = DATA.model;
by("summary").textContent = `${DATA.count.before} ops → ${DATA.count.after} ops, ${DATA.status}`;
const panes = Object.fromEntries(SIDES.map((side) => [side, new Pane(side)]));
by("code").parentElement.hidden = !SIDES.some((side) => DATA.graphs[side].data);
by("code").addEventListener("change", () => Promise.all(SIDES.map((side) => panes[side].draw(null)))
  .then(() => { details(); if (chosen) panes[chosen.side].center(chosen.id); }));
by("code").checked = DATA.count.before <= 60;
details();
sheets();
document.body.dataset.state = "drawing";
Promise.all(SIDES.map((side) => panes[side].draw(null))).then(() => { document.body.dataset.state = "ready"; });
