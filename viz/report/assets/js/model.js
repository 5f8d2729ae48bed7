// The data of the report, and what is looked up in it.

const DATA = JSON.parse(by("data").textContent);
const SIDES = ["before", "after"];
const other = (side) => (side === "before" ? "after" : "before");

const ITEMS = Object.fromEntries(SIDES.map((side) => [side, DATA.sides[side].items]));

/** By side and row: the rows that read what it gives. */
const READERS = Object.fromEntries(SIDES.map((side) => {
  const readers = ITEMS[side].map(() => []);
  ITEMS[side].forEach((item, row) => {
    for (const read of item.reads || []) {
      if (typeof read !== "number") continue;
      readers[read].push(row);
    }
  });
  return [side, readers];
}));

/** An op with regions ends in a box of its own: the row of the op for that of its end. */
const OPENER = Object.fromEntries(SIDES.map((side) => [side,
  new Map(ITEMS[side].flatMap((item, row) => (item.end ? [[item.end, row]] : [])))]));

const TWIN = {before: new Map(Object.entries(DATA.twins).map(([old, now]) => [Number(old), now])), after: new Map()};
for (const [old, now] of TWIN.before) if (!TWIN.after.has(now)) TWIN.after.set(now, old);

/** What stands in the other graph for a row: what computes the same, else what the first readers that live on became. */
function twinOf(side, row) {
  if (TWIN[side].has(row)) return TWIN[side].get(row);
  const seen = new Set([row]), queue = [row];
  for (let place = 0; place < queue.length && place < 200; place++) {
    if (TWIN[side].has(queue[place])) return TWIN[side].get(queue[place]);
    for (const reader of READERS[side][queue[place]]) if (!seen.has(reader)) { seen.add(reader); queue.push(reader); }
  }
  return null;
}

const isOp = (item) => item.kind === "op";
const nameOf = (item) => (item.gives && item.kind !== "output" && item.kind !== "end" ? `%${item.gives[0][0]}` : item.title);
const labelOf = (side, row) => {
  const item = ITEMS[side][row];
  return isOp(item) && item.gives ? `${item.title} ${nameOf(item)}` : item.title;
};

/** A type as pieces of text, each with the size that it says. */
function typePieces(number) {
  const [dtype, sizes] = DATA.types[number];
  if (!sizes) return [[`${dtype}[*]`]];
  const dims = sizes.flatMap((size, place) => [...(place ? [[", "]] : []), [DATA.sizes[size][0], DATA.sizes[size]]]);
  return [[`${dtype}[`], ...dims, ["]"]];
}

const fullSize = (size) => size[2] || size[0];
const typeText = (number, full = true) => typePieces(number).map(([text, size]) => (full && size ? fullSize(size) : text)).join("");

/** What is known of a symbol. */
function factsOf(name) {
  const known = DATA.symbols.find((each) => each.name === name);
  if (!known) return null;
  const ranges = known.ranges.map(([low, high]) => high == null ? `>= ${low}` : low === high ? `= ${low}` : `in [${low}, ${high}]`);
  const [divisor, rest] = known.divisor;
  return [ranges.join(" or "), divisor > 1 ? `% ${divisor} == ${rest}` : null,
    known.likely.length ? `likely ${known.likely.join(", ")}` : null].filter(Boolean).join("; ");
}

const kernelOf = new Map(Object.entries(DATA.kernels).flatMap(([name, rows]) => rows.map((row) => [row, name])));
