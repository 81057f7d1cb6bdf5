// The page as a whole, drawn once or live.

function header(report, state) {
  const names = report.runs.map((run) => run.name);
  const same = (key) => new Set(report.runs.map((run) => String(run.config[key]))).size === 1;
  const common = ["data", "partition", "models", "clients", "rounds.rounds", "seed"].filter(same);
  const setting = common.map((key) => `${key.split(".").pop()} ${report.runs[0].config[key]}`).join(" · ");
  const links = [...document.querySelectorAll("main h2")].map((h) =>
    el("a", { href: `#${h.id}` }, h.textContent),
  );
  const done = report.runs[0];
  const progress = state
    ? el(
        "p",
        {},
        el("span", { class: state === "live" ? "pill on" : "pill" }, state),
        " ",
        el("progress", { max: done.planned, value: done.rounds.round.length }),
        ` round ${done.rounds.round.length} of ${done.planned}`,
      )
    : null;
  const notes = report.runs.flatMap((run) =>
    run.notes.map((note) => el("p", { class: "note" }, `${run.name}: ${note}`)),
  );
  const half = report.runs
    .filter((run) => run.state !== "finished" && !state)
    .map((run) =>
      el("p", { class: "note" }, `${run.name}: ${run.rounds.round.length} of ${run.planned} rounds done`),
    );
  document
    .getElementById("top")
    .replaceChildren(
      ...[
        el("h1", {}, names.length > 4 ? `${names.length} runs compared` : names.join(" · ")),
        el("p", { class: "soft" }, setting),
        progress,
        ...half,
        ...notes,
        el("nav", {}, ...links),
      ].filter(Boolean),
    );
  document
    .getElementById("end")
    .replaceChildren(el("p", { class: "soft" }, `protofed ${report.version}, ${report.made}`));
}

function drawPage(report, state = "") {
  const y = scrollY;
  hideTip();
  forgetDrawings();
  if (choice.mode !== null && !(choice.mode in report.modes)) choice.mode = null;
  const sections = [
    resultsSection,
    (r) => [modeBar(r)],
    accuracySection,
    clientsSection,
    dataSection,
    embeddingsSection,
    prototypesSection,
    weightsSection,
    costSection,
    settingsSection,
  ];
  document.getElementById("page").replaceChildren(...sections.flatMap((section) => section(report)));
  header(report, state);
  placeDrawings();
  scrollTo(0, y);
  redrawAll = () => drawPage(report, state);
  document.documentElement.dataset.ready = "true";
}

const stateOf = (report) => (report.live ? "live" : "finished");

async function follow(text) {
  let last = text;
  for (;;) {
    await new Promise((wake) => {
      setTimeout(wake, 1000);
    });
    let next;
    try {
      const answer = await fetch("data.json", { cache: "no-store" });
      if (!answer.ok) continue; // a file that is being replaced: ask again
      next = await answer.text();
    } catch {
      drawPage(JSON.parse(last), "server ended");
      return;
    }
    const report = JSON.parse(next);
    if (next !== last) drawPage(report, stateOf(report));
    last = next;
    if (!report.live) return;
  }
}

const embeddedText = document.getElementById("data").textContent;
const live = document.body.dataset.live === "true";
const first = JSON.parse(embeddedText);
drawPage(first, live ? stateOf(first) : "");
if (live && first.live) follow(embeddedText);
