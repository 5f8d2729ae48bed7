// Colours: of the theme, of the sorts of ops, of sizes; LOOK is viz/report/theme.py.

const Theme = {
  choices: ["auto", "light", "dark"],
  choice: "auto",
  dark: false,
  ink: {},
  set(choice) {
    this.choice = choice;
    this.dark = choice === "dark" || (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
    document.documentElement.toggleAttribute("data-dark", this.dark);
    this.ink = LOOK[this.dark ? "dark" : "light"];
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
      const {hue, strong} = LOOK.sorts[sort] || {hue: 0, strong: 0}, {shade} = this.ink;
      this.fills.set(sort, [
        `hsl(${hue} ${strong * shade.fill_strong}% ${shade.fill_light}%)`,
        `hsl(${hue} ${strong * shade.edge_strong}% ${shade.edge_light}%)`,
      ]);
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
