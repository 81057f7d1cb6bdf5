// The table of results, and the choice of a prediction mode.

function resultRow(run, i, mode) {
  const first = mode === run.main;
  const result = run.results[mode] || {};
  const sign = swatch(first ? colourOfRun(i) : "transparent", look(i).kind, look(i).dash);
  const { round, up, down, seconds, test_seconds: tests } = run.rounds;
  const costs = [
    `${round.length} of ${run.planned}`,
    bytes(sum(up)),
    bytes(sum(down)),
    duration(sum(seconds) + sum(tests)),
  ];
  return [
    el("td", {}, sign, first ? run.name : ""),
    el("td", { class: "text" }, mode ? `${mode}${first ? " ★" : ""}` : "not tested yet"),
    el("td", { class: first ? "best" : "" }, `${fixed(result.mean, 2)} ± ${fixed(result.std, 2)}`),
    result.best_round ? `${fixed(result.best, 2)} (${result.best_round})` : "–",
    fixed(result.worst, 1),
    fixed(result.worst10, 1),
    ...costs.map((cost) => (first ? cost : "")),
  ];
}

function resultsSection(report) {
  const modes = (run) => (run.modes.length ? run.modes : [null]);
  const rows = report.runs.flatMap((run, i) => modes(run).map((mode) => resultRow(run, i, mode)));
  const columns = [
    "run",
    "prediction",
    "last: mean ± std",
    "best (round)",
    "worst client",
    "worst tenth",
    "rounds",
    "sent up",
    "sent down",
    "time",
  ];
  const names = Object.entries(report.modes).flatMap(([mode, line]) => [
    el("dt", {}, mode),
    el("dd", {}, line),
  ]);
  const text =
    "Test accuracy over the clients, in percent; std is the spread over clients. " +
    "★ marks the prediction that the method's paper reports.";
  const parts = [table(columns, rows), el("dl", {}, ...names)];
  return section("results", "Results", [card("result", "What the runs reached", text, parts, null, true)]);
}

function modeBar(report) {
  const pick = (mode, label) =>
    chip(choice.mode === mode, report.modes[mode] || "", () => (choice.mode = mode), label);
  const first = pick(null, report.runs.length === 1 ? "all" : "each paper's own");
  const modes = Object.keys(report.modes).map((mode) => pick(mode, mode));
  const band = chip(choice.band, "spread over the clients", () => (choice.band = !choice.band), "± std");
  const chips = el("div", { class: "chips" }, el("b", {}, "Prediction"), first, ...modes, band);
  return el("div", { class: "bar" }, chips);
}
