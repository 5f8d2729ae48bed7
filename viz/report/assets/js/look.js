// Colours: of the theme, of the sorts of ops, of sizes.

const SORTS = {  // a hue, and how strong it is
  contraction: [214, 70, "products and convolutions"], reduce: [276, 50, "reductions and windows"],
  unary: [160, 52, "functions of one number"], binary: [188, 48, "arithmetic"], ternary: [188, 48, "arithmetic"],
  movement: [228, 16, "moves"], indexing: [322, 45, "look-ups"], control: [40, 55, "control"],
  host: [12, 55, "other code"], custom: [12, 55, "other code"], creation: [54, 40, "constants"],
  input: [46, 80, "inputs"], argument: [46, 45, "arguments"], output: [120, 45, "outputs"], end: [40, 25, "results of regions"],
  check: [28, 90, "checks"], checks: [28, 90, "checks"], code: [220, 8, "shape code"],
};

const Theme = {
  choices: ["auto", "light", "dark"],
  choice: "auto",
  dark: false,
  ink: {},
  set(choice) {
    this.choice = choice;
    this.dark = choice === "dark" || (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.toggleAttribute("data-dark", this.dark);
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "soft", "line", "ink", "quiet", "gone", "changed", "new", "mark", "twin", "hit", "arrow"]) {
      this.ink[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.fills = new Map();
    by("theme").replaceChildren({auto: "◐", light: "☀", dark: "☾"}[choice], el("span", {}, ` ${choice}`));
  },
  start() {
    let kept = "auto";
    try { kept = localStorage.getItem("egshape.theme") || "auto"; } catch (error) { /* a file may have no storage */ }
    this.set(this.choices.includes(kept) ? kept : "auto");
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.turn(this.choice));
    by("theme").addEventListener("click", () => {
      this.turn(this.choices[(this.choices.indexOf(this.choice) + 1) % this.choices.length]);
      try { localStorage.setItem("egshape.theme", this.choice); } catch (error) { /* nor now */ }
    });
  },
  /** Another theme for all that is shown. */
  turn(choice) {
    this.set(choice);
    details();
    repaint();
  },
  /** Fill and edge of a sort of op. */
  of(sort) {
    if (!this.fills.has(sort)) {
      const [hue, strong] = SORTS[sort] || [0, 0];
      this.fills.set(sort, this.dark
        ? [`hsl(${hue} ${strong * 0.55}% 22%)`, `hsl(${hue} ${strong * 0.7}% 58%)`]
        : [`hsl(${hue} ${strong}% 93%)`, `hsl(${hue} ${strong * 0.8}% 46%)`]);
    }
    return this.fills.get(sort);
  },
  /** The colour of a size, lighter on dark paper. */
  size(colour) {
    if (!this.dark) return colour;
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    return `rgb(${parts.map((part) => Math.round(part + (255 - part) * 0.55)).join(" ")})`;
  },
};

const colourOfSize = (size) => Theme.size(size[1]);
