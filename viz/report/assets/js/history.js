// What became of each op, rewrite by rewrite.

const Rewrites = {
  at: DATA.steps.length,
  began: ITEMS.before.map((item) => (item.why && item.why.length ? Math.min(...item.why) : DATA.steps.length - 1)),
  rows: DATA.steps.map(() => []),
  timer: null,

  start() {
    ITEMS.before.forEach((item, row) => { for (const step of item.why || []) this.rows[step].push(row); });
    by("slider").max = DATA.steps.length;
    by("slider").addEventListener("input", () => { this.stop(); this.go(Number(by("slider").value)); });
    by("back").addEventListener("click", () => { this.stop(); this.go(this.next(-1)); });
    by("forth").addEventListener("click", () => { this.stop(); this.go(this.next(1)); });
    by("play").addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    by("history").hidden = !DATA.steps.length;
    this.show();
  },

  /** What had become of a row of the original after the rewrites shown. */
  status(row) {
    const item = ITEMS.before[row];
    return item.status && this.began[row] < this.at ? item.status : "";
  },

  /** The rows of the rewrite shown last. */
  get now() {
    return this.at && this.at < DATA.steps.length ? this.rows[this.at - 1] : [];
  },

  /** Whether a rewrite is of something that is drawn. */
  seen(at) { return this.rows[at - 1].some((row) => panes.before.scene.has(row)); },

  /** The next rewrite, on or back, that is of something drawn; else the end. */
  next(way) {
    let at = this.at + way;
    while (at > 0 && at < DATA.steps.length && !this.seen(at)) at += way;
    return at;
  },

  go(at) {
    this.at = Math.max(0, Math.min(DATA.steps.length, at));
    this.show();
    const row = this.now.find((each) => panes.before.scene.has(each)) ?? this.now[0];
    if (row != null) panes.before.reveal(row, false);
    repaint();
  },

  play() {
    if (this.at >= DATA.steps.length) this.at = 0;
    by("play").textContent = "❚❚";
    this.timer = setInterval(() => { this.go(this.next(1)); if (this.at >= DATA.steps.length) this.stop(); }, 700);
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    by("play").textContent = "▶▶";
  },

  show() {
    const total = DATA.steps.length, step = this.at ? DATA.steps[this.at - 1] : null;
    by("slider").value = this.at;
    by("back").disabled = !this.at;
    by("forth").disabled = this.at >= total;
    const said = !step ? ["the original"] : this.at === total ? [el("b", {}, `all ${total} rewrites`)]
      : [`rewrite ${this.at} of ${total}: `, ...this.said(this.at - 1), this.seen(this.at) ? "" : " (not drawn)"];
    by("step").replaceChildren(...said);
    const exact = step && this.at < total ? `\n${DATA.texts[step[0]]}: ${step[1]}${step[2].length ? ` from ${step[2].join("; ")}` : ""}` : "";
    by("step").title = by("step").textContent + exact;
  },

  /** A rewrite as a reader of the model knows it: the op, where it stands, and what the rule states. */
  said(number) {
    const rule = DATA.texts[DATA.steps[number][0]], stated = DATA.about[rule] || rule, item = ITEMS.before[this.subject(number)];
    if (!item) return [stated];
    const name = item.where || (item.gives && item.gives.length ? `%${item.gives[0][0]}` : "");
    return [el("b", {}, item.title), name ? ` ${name}: ` : ": ", stated];
  },

  /** The row of the op that a rewrite is of: the one at its place or that gives its value, of those that name it as a reason. */
  subject(number) {
    const [, , from, location] = DATA.steps[number], rows = this.rows[number], place = DATA.texts[location];
    const value = /^%(\S+) = /.exec(from[0] || "")?.[1];
    const gives = (row) => (ITEMS.before[row].gives || []).some(([name]) => name === value);
    const all = [...rows, ...ITEMS.before.keys()];
    return all.find(gives) ?? all.find((row) => place && ITEMS.before[row].where === place) ?? rows[0];
  },
};

/** What became of a row, as boxes show it. */
const statusOf = (side, row) => (side === "before" ? Rewrites.status(row) : ITEMS.after[row].status || "");
