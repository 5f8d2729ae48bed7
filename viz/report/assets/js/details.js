// The panel that tells of what is chosen.

let chosen = null;  // {side, item, more}

function select(side, item, move = true, more = []) {
  chosen = side ? {side, item, more} : null;
  if (chosen && mode !== "both" && mode !== side) setMode(side);
  if (chosen && move) panes[side].reveal(item);
  const twin = chosen ? twinOf(side, item) : null;
  if (twin != null) panes[other(side)].reveal(twin, false, move);
  details();
  repaint();
  try { history.replaceState(null, "", chosen ? `#${side}/${item}` : "#"); } catch (error) { /* a file may have no history */ }
}

function typeOf(number, full = false) {
  return el("span", {class: "type"}, typePieces(number).map(([text, size]) =>
    size ? el("span", {style: `color:${colourOfSize(size)}`, title: fullSize(size)}, full ? fullSize(size) : text) : text));
}

const link = (side, item, text) => el("a", {onclick: () => select(side, item)}, text);

const named = Object.fromEntries(SIDES.map((side) => [side, new Map(ITEMS[side].flatMap((item, row) =>
  ["output", "end"].includes(item.kind) ? [] : (item.gives || []).map(([name]) => [name, row])))]));

function linked(text, side) {
  return el("code", {}, text.split(/(%[\w.]+)/).map((part) =>
    part.startsWith("%") && named[side].has(part.slice(1)) ? link(side, named[side].get(part.slice(1)), part) : part));
}

/** A chain of reasons; names of values lead to them. */
function chain(why, side = "before") {
  return el("ol", {class: "why"}, why.map((step) => el("li", {},
    el("div", {}, linked(step.to, side)),
    el("div", {class: "quiet"}, "by ", el("span", {class: "rule"}, step.rule),
      step.from.length ? [" from ", linked(step.from.join("; "), side)] : null,
      step.location ? el("span", {}, ` at ${step.location}`) : null))));
}

const stepOf = (number) => {
  const [rule, to, from, location] = DATA.steps[number];
  return {rule: DATA.texts[rule], to, from, location: DATA.texts[location]};
};

/** The statistics of a constant, and how its values spread. */
function statistics(stats) {
  const many = (count) => count.toLocaleString("en");
  const said = [`${many(stats.size)} values`];
  if ("min" in stats) said.push(`min ${stats.min}`, `max ${stats.max}`, `mean ${stats.mean}`, `σ ${stats.std}`);
  if (stats.zero) said.push(`${many(stats.zero)} zero`);
  const bad = [stats.nan ? `${many(stats.nan)} NaN` : "", stats.inf ? `${many(stats.inf)} infinite` : ""].filter(Boolean);
  return el("div", {class: "stats"},
    stats.bins ? el("span", {class: "spark", title: "how the values spread from min to max"}, stats.bins.map((each) => el("i", {style: `height:${Math.max(4, each)}%`}))) : null,
    el("span", {}, said.join(", "), bad.length ? el("span", {class: "bad"}, `, ${bad.join(", ")}`) : "",
      stats.of ? ` (of a sample of ${many(stats.of)})` : ""));
}

function details() {
  const panel = by("details");
  panel.classList.toggle("open", Boolean(chosen));
  panel.replaceChildren(...(chosen ? told(chosen.side, chosen.item) : welcome()));
  panel.scrollTop = 0;
}

function welcome() {
  const sorts = [...new Set(SIDES.flatMap((side) => ITEMS[side].filter(isOp).map((item) => item.type)))];
  const names = new Map(sorts.filter((sort) => LOOK.sorts[sort]).map((sort) => [LOOK.sorts[sort].name, sort]));
  return [el("h2", {}, "Click a box"), quiet("to see its shapes, what is known of its sizes, its weights, where it comes from and what became of it."),
    el("h3", {}, "What became of ops"), ...became(),
    el("h3", {}, "Colours"), el("div", {class: "legend"}, [...names].map(([name, sort]) =>
      el("span", {}, el("span", {class: "chip", style: `background:${Theme.of(sort)[1]}`}), name))),
    quiet("Equal sizes have one colour; a long one is a number such as #1, told in full under the mouse and in the sheet Sizes."),
    quiet("Wheel or two fingers: zoom. Drag: move. /: search. Keys in a graph: arrows, +, -, 0, n, p.")];
}

function became() {
  const found = ["gone", "changed", "new"].filter((status) => SIDES.some((side) => ITEMS[side].some((item) => item.status === status)));
  const twins = "A twin in the other graph has a violet ring.";
  if (!found.length) return [quiet(`All stand as they were. ${twins}`)];
  return [el("p", {}, found.map((status) => [el("span", {class: `status ${status}`}, status), " "])),
    quiet(`The slider above goes through the rewrites; ↑ ↓ (or p, n) go from change to change. ${twins}`)];
}

function told(side, row) {
  const item = ITEMS[side][row], twin = twinOf(side, row);
  const out = [el("button", {class: "close", onclick: () => select(null)}, "close"),
    el("h2", {}, item.title, " ", item.status ? el("span", {class: `status ${item.status}`}, item.status) : null)];
  const section = (name, ...children) => out.push(el("h3", {}, name), ...children);
  out.push(quiet(item.kind === "op" ? DATA.docs[item.op] || "" : item.kind));
  if (item.gives) section(isOp(item) ? "Gives" : "Type", ...item.gives.map(([name, type]) =>
    el("p", {}, isOp(item) ? el("code", {}, `%${name}: `) : null, typeOf(type, true))));
  if (item.value) out.push(el("p", {}, el("code", {}, item.value)));
  if (item.stats) out.push(statistics(item.stats));
  if (item.why && item.why.length) section("What became of it", chain(item.why.map(stepOf)),
    el("p", {}, el("a", {onclick: () => Rewrites.go(Math.min(...item.why) + 1)}, "show the first of these rewrites")));
  else if (item.status === "gone") section("What became of it", quiet("No node of its own: in the written model those that read it do the same."));
  if (item.stands) section("In the result", el("p", {}, twin != null ? link("after", twin, item.stands) : item.stands));
  else if (twin != null) section(side === "before" ? "In the result" : "In the original", el("p", {}, link(other(side), twin, labelOf(other(side), twin))));
  out.push(...sizesOf(item), ...readsOf(side, item));
  const readers = READERS[side][row].concat(item.end ? READERS[side][item.end] : []);
  if (readers.length) section("Read by", el("p", {}, readers.slice(0, 24).flatMap((reader, place) =>
    [place ? ", " : "", link(side, reader, labelOf(side, reader))]), readers.length > 24 ? ` and ${readers.length - 24} more` : null));
  if (item.attrs) section(item.under ? `Attributes of ${item.under}` : "Attributes", ...item.attrs.map(([key, value]) => el("p", {}, el("code", {}, `${key} = ${value}`))));
  if (item.inside) section("As ops of egshape", el("p", {}, el("code", {}, item.inside.join(", "))));
  const kernel = side === "after" && kernelOf.get(row);
  if (kernel) section("Runs in", el("p", {}, el("a", {onclick: () => selectKernel(kernel)}, `kernel ${kernel}`)));
  if (item.where) section("From", el("p", {}, el("code", {}, item.where)));
  if (isOp(item) && !panes[side].scene.has(row)) out.splice(2, 0, quiet("It only computes sizes, and is drawn with “shape code” ticked."));
  return out;
}

function sizesOf(item) {
  const seen = new Set((item.gives || []).flatMap(([, type]) => DATA.types[type][1] || []).filter((size) => (DATA.sizes[size][4] || []).length));
  if (!seen.size) return [];
  return [el("h3", {}, "Sizes"), ...[...seen].map((number) => {
    const size = DATA.sizes[number], [short, , full, equal, symbols, from] = size;
    return el("p", {}, el("span", {class: "chip", style: `background:${colourOfSize(size)}`}), el("code", {}, full ? `${short} = ${full}` : short),
      equal ? el("span", {}, " equals ", el("code", {}, equal)) : null,
      el("span", {class: "quiet"}, from.length ? ` from ${from.join(", ")}` : ""),
      ...symbols.map((name) => factsOf(name) && el("span", {class: "quiet"}, `; ${name} ${factsOf(name)}`)));
  })];
}

/** What it reads: values first, then constants with their statistics. */
function readsOf(side, item) {
  const values = [], constants = [];
  for (const read of item.reads || []) {
    if (typeof read !== "number") { values.push(el("p", {}, el("code", {}, `%${read}`))); continue; }
    const from = ITEMS[side][read];
    const said = el("p", {}, el("code", {}, link(side, read, from.kind === "op" ? labelOf(side, read) : from.title), ": ", from.gives ? typeOf(from.gives[0][1]) : ""),
      from.value && !from.stats ? el("code", {}, ` = ${from.value}`) : null,
      from.status ? [" ", el("span", {class: `status ${from.status}`}, from.status)] : null);
    if (from.kind === "constant") constants.push(said, ...(from.stats ? [statistics(from.stats)] : []));
    else values.push(said);
  }
  return [...(values.length ? [el("h3", {}, "Reads"), ...values] : []), ...(constants.length ? [el("h3", {}, "Weights and constants"), ...constants] : [])];
}

/** All ops of a kernel of the compiled result. */
function selectKernel(name) {
  const [first, ...rest] = DATA.kernels[name] || [];
  if (first != null) select("after", first, true, rest);
}
