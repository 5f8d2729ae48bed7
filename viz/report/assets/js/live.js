// A served page: it comes again when the server has written a new one, with what was chosen.

const changes = new EventSource(`changes?seen=${document.documentElement.dataset.number}`);
const newsOf = (text, bad) => { by("summary").textContent = by("summary").title = text; by("summary").classList.toggle("bad", bad); };
changes.addEventListener("report", () => location.reload());
changes.addEventListener("problem", (event) => newsOf(event.data, true));
changes.addEventListener("working", (event) => newsOf(event.data, false));
changes.addEventListener("error", () => newsOf("the server has ended", true));
