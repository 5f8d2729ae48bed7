// A served page: it comes again when the server has written a new one, with what was chosen.

const changes = new EventSource("changes");
changes.addEventListener("report", () => location.reload());
changes.addEventListener("problem", (event) => { by("summary").textContent = event.data; by("summary").classList.add("bad"); });
changes.addEventListener("working", () => { by("summary").textContent = "optimizing again …"; });
