// The sheets below: rules, the e-graph, checks, sizes, ops, run time, notes.

function table(heads, rows) {
  const numeric = heads.map((_, place) => rows.length > 0 && rows.every((row) => typeof row[place] === "number"));
  const shown = (cell) => typeof cell === "number" && !Number.isInteger(cell) ? cell.toPrecision(3) : cell == null ? "" : cell;
  return el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, place) => el("th", {class: numeric[place] ? "number" : null}, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, place) =>
      el("td", {class: numeric[place] ? "number" : null}, cell instanceof Node ? cell : String(shown(cell))))))));
}

/** A kernel's name as a link to its ops. */
function kernelLink(cell) {
  return DATA.kernels[cell] ? el("a", {onclick: () => selectKernel(cell)}, cell) : cell;
}

/** Sizes that boxes tell by a number. */
const NUMBERED = DATA.sizes.filter(([short, , full]) => full && short.startsWith("#"));

const SHEETS = {
  Rules: () => [DATA.rules.length ? table(["rule", "matches", "unions", "seconds", "a reason for removed ops", ""], DATA.rules.map((row) =>
    [el("a", {onclick: () => searchFor(row.rule)}, row.rule), row.matches, row.count, row.seconds, row.removed,
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
  Sizes: () => [NUMBERED.length ? table(["number", "size"], NUMBERED.map(([short, , full]) => [el("code", {}, short), el("code", {}, full)])) : null,
    table(["", "size", "also written"], DATA.legend.map(([form, colour, others]) =>
    [el("span", {class: "chip", style: `background:${Theme.size(colour)}`}), el("code", {}, form), el("code", {}, others.join(" = "))])),
  DATA.symbols.length ? table(["symbol", "is", "known"], DATA.symbols.map((each) => [el("code", {}, each.name), each.sources.join(" = "), factsOf(each.name)])) : null,
  DATA.assumed.length ? quiet(`assumed: ${DATA.assumed.join("; ")}`) : null,
  DATA.equalities.length ? table(["found equal", "because"], DATA.equalities.map((each) => [el("code", {}, `${each.a} = ${each.b}`), chain(each.why)])) : null],
  Ops: () => [table([`${DATA.unit} by kind`, "before", "after"], DATA.kinds)],
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
