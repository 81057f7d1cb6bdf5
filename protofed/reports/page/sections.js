// The sections of the page, from the plain data of the report.

const colourOfRun = (i) => `var(--r${i % 7})`;
const look = (i) => ({ colour: colourOfRun(i), kind: SHAPES[i % SHAPES.length], dash: DASHES[i % DASHES.length] });
const visible = (report) => report.runs.map((run, i) => ({ run, i })).filter(({ i }) => !choice.hidden.has(i));
const modeOf = (run) => (choice.mode === null ? run.main : choice.mode);

// What the charts of accuracy compare: the modes of a single run, or one mode of each run.
function compared(report) {
  if (report.runs.length === 1) {
    const run = report.runs[0];
    const modes = choice.mode === null ? run.modes : run.modes.filter((mode) => mode === choice.mode);
    return modes.map((mode) => ({ run, mode, label: mode, ...look(run.modes.indexOf(mode)) }));
  }
  const shown = visible(report).filter(({ run }) => modeOf(run) && run.modes.includes(modeOf(run)));
  return shown.map(({ run, i }) => ({ run, mode: modeOf(run), label: `${run.name} · ${modeOf(run)}`, ...look(i) }));
}

function runLegend(report, series, modes = true) {
  if (report.runs.length === 1) return legend(series.map((one) => ({ label: one.label, swatch: swatch(one.colour, one.kind, one.dash) })));
  return legend(report.runs.map((run, i) => {
    const mode = modeOf(run);
    const { colour, kind, dash } = look(i);
    const label = run.modes.includes(mode) ? `${run.name} · ${mode}` : `${run.name} (no ${mode || "test"})`;
    return {
      label: modes ? label : run.name,
      swatch: swatch(colour, kind, dash), off: choice.hidden.has(i), title: "show or hide this run",
      toggle: () => { if (!choice.hidden.delete(i)) choice.hidden.add(i); redrawAll(); },
    };
  }));
}

// results

function resultsSection(report) {
  const rows = report.runs.flatMap((run, i) => (run.modes.length ? run.modes : [null]).map((mode) => {
    const first = mode === run.main;
    const result = run.results[mode] || {};
    const costs = first ? [bytes(sum(run.rounds.up)), bytes(sum(run.rounds.down)), duration(sum(run.rounds.seconds) + sum(run.rounds.test_seconds))] : ["", "", ""];
    const name = el("td", {}, swatch(first ? colourOfRun(i) : "transparent", look(i).kind, look(i).dash), first ? run.name : "");
    return [
      name, el("td", { class: "text" }, mode ? `${mode}${first ? " ★" : ""}` : "not tested yet"),
      el("td", { class: first ? "best" : "" }, `${fixed(result.mean, 2)} ± ${fixed(result.std, 2)}`),
      result.best_round ? `${fixed(result.best, 2)} (${result.best_round})` : "–",
      fixed(result.worst, 1), fixed(result.worst10, 1), first ? `${run.rounds.round.length} of ${run.planned}` : "", ...costs,
    ];
  }));
  const columns = ["run", "prediction", "last: mean ± std", "best (round)", "worst client", "worst tenth", "rounds", "sent up", "sent down", "time"];
  const names = Object.entries(report.modes).flatMap(([mode, line]) => [el("dt", {}, mode), el("dd", {}, line)]);
  const text = "Test accuracy over the clients, in percent; std is the spread over clients. ★ marks the prediction that the method's paper reports.";
  return [el("h2", { id: "results" }, "Results"), el("div", { class: "cards" }, card("result", "What the runs reached", text, [table(columns, rows), el("dl", {}, ...names)], null, true))];
}

function modeBar(report) {
  const pick = (mode, label) => el("button", { type: "button", "aria-pressed": String(choice.mode === mode), title: report.modes[mode] || "", on: { click: () => { choice.mode = mode; redrawAll(); } } }, label);
  const first = pick(null, report.runs.length === 1 ? "all" : "each paper's own");
  const band = el("button", { type: "button", "aria-pressed": String(choice.band), on: { click: () => { choice.band = !choice.band; redrawAll(); } } }, "± std");
  return el("div", { class: "bar" }, el("div", { class: "chips" }, el("b", {}, "Prediction"), first, ...Object.keys(report.modes).map((mode) => pick(mode, mode)), band));
}

// accuracy

function accuracySection(report) {
  const found = compared(report);
  const curves = (xOf, stat, band) => found.map((one) => {
    const test = one.run.tests.acc[one.mode];
    const [x, y] = [xOf(one.run), test[stat]];
    const edges = band && choice.band ? { low: y.map((v, i) => v - test.std[i]), high: y.map((v, i) => v + test.std[i]) } : {};
    return { ...one, x, y, ...edges };
  });
  const byBytes = curves((run) => run.tests.bytes, "mean", true).map((one) => (one.x.some((v) => v > 0) || !one.y.length ? one : { ...one, low: undefined, level: one.y[one.y.length - 1] }));
  const losses = visible(report).map(({ run, i }) => ({ label: run.name, ...look(i), x: run.rounds.round, y: run.rounds.loss }));
  const share = { yName: "test accuracy (%)", yFormat: (v) => plain(v), floor: 0, ceiling: 100 };
  const byRound = { ...share, xName: "round", whole: true };
  const names = () => runLegend(report, found);
  const tests = (stat) => () => testTable(found, stat);
  return [el("h2", { id: "accuracy" }, "Accuracy"), el("div", { class: "cards" },
    card("rounds", "Accuracy against rounds", `Mean over the tested clients${choice.band ? ", band: ± std over clients" : ""}.`, [names(), lineChart("rounds", "accuracy against rounds", curves((run) => run.tests.round, "mean", true), byRound)], tests("mean")),
    card("bytes", "Accuracy against bytes sent", "Payload up and down of all clients until the test, four bytes a parameter; logarithmic.", [names(), lineChart("bytes", "accuracy against bytes", byBytes, { ...share, xName: "bytes sent", xFormat: bytes, log: true })], () => bytesTable(found)),
    card("worst10", "The worst tenth of the clients", "Mean accuracy of the tenth of the clients that fare worst in that test.", [names(), lineChart("worst10", "accuracy of the worst tenth", curves((run) => run.tests.round, "worst10", false), byRound)], tests("worst10")),
    card("loss", "Training loss", "Mean over the participants of a round, all terms of the method's loss; not comparable between methods.", [report.runs.length > 1 ? runLegend(report, found, false) : null, lineChart("loss", "training loss", losses, { xName: "round", whole: true, yName: "training loss" })], () => lossTable(losses)),
  )];
}

function testTable(found, stat) {
  const rounds = [...new Set(found.flatMap((one) => one.run.tests.round))].sort((a, b) => a - b);
  const value = (one, round) => fixed(one.run.tests.acc[one.mode][stat][one.run.tests.round.indexOf(round)], 2);
  return [["round", ...found.map((one) => one.label)], rounds.map((round) => [round, ...found.map((one) => value(one, round))])];
}

const bytesTable = (found) => [["run", "round", "bytes", "accuracy (%)"], found.flatMap((one) => one.run.tests.round.map((round, i) => [one.label, round, plain(one.run.tests.bytes[i]), fixed(one.run.tests.acc[one.mode].mean[i], 2)]))];
const lossTable = (losses) => {
  const rounds = [...new Set(losses.flatMap((one) => one.x))].sort((a, b) => a - b);
  return [["round", ...losses.map((one) => one.label)], rounds.map((round) => [round, ...losses.map((one) => fixed(one.y[one.x.indexOf(round)], 4))])];
};

// clients

function clientsSection(report) {
  const found = compared(report).filter((one) => one.run.clients.acc[one.mode]);
  if (!found.length) return [];
  const series = found.map((one) => ({ ...one, y: one.run.clients.acc[one.mode], ids: one.run.clients.ids }));
  const rows = worstClients(series);
  const spread = () => [["run", "clients", "minimum", "lower quartile", "median", "upper quartile", "maximum"], series.map((one) => {
    const sorted = one.y.filter(known).sort((a, b) => a - b);
    return [one.label, sorted.length, ...[0, 0.25, 0.5, 0.75, 1].map((share) => fixed(quantile(sorted, share), 1))];
  })];
  const worst = () => [["client", "what it has", ...series.map((one) => one.label)], rows.map((row) => [row.label, row.about, ...row.dots.map((dot) => fixed(dot.value, 1))])];
  return [el("h2", { id: "clients" }, "Clients"), el("div", { class: "cards" },
    card("spread", "Accuracy of each client, last test", "A dot is a client, the box the middle half, the line the median, the diamond the mean.", [stripChart("spread", "accuracies of the clients", series)], spread),
    card("worst", "The worst clients", report.runs.length > 1 ? "Those with the lowest accuracy in each run, and how they fare in the others." : "Those with the lowest accuracy under each prediction.", [runLegend(report, found), dotChart("worst", "the worst clients", rows)], worst),
  )];
}

function worstClients(series) {
  const each = Math.max(3, Math.ceil(12 / series.length));
  const splits = new Set(series.map((one) => JSON.stringify(one.run.split ? one.run.split.samples : one.ids)));
  const together = splits.size === 1;
  const rows = new Map();
  for (const one of series) {
    const order = one.ids.map((id, i) => i).filter((i) => known(one.y[i])).sort((a, b) => one.y[a] - one.y[b]);
    for (const i of order.slice(0, each)) {
      const id = one.ids[i];
      const others = together ? series : [one];
      const dots = others.map((other) => ({ label: other.label, colour: other.colour, kind: other.kind, value: other.y[other.ids.indexOf(id)] }));
      const label = together ? `client ${id}` : `${one.run.name}: ${id}`;
      rows.set(label, { label, about: aboutClient(one.run, id), dots, low: Math.min(...dots.map((d) => d.value).filter(known)) });
    }
  }
  return [...rows.values()].sort((a, b) => a.low - b.low).slice(0, 15);
}

function aboutClient(run, id) {
  const parts = [`client ${id}`];
  if (run.split) parts.push(`${run.split.samples[id]} samples of ${run.split.held[id]} classes`);
  if (run.models) parts.push(run.models[id]);
  return parts.join(", ");
}

// data

function dataSection(report) {
  const kinds = new Map();
  for (const { run } of visible(report)) {
    if (!run.split) continue;
    const key = JSON.stringify([run.split.classes, run.split.counts]);
    kinds.set(key, [...(kinds.get(key) || []), run]);
  }
  if (!kinds.size) return [];
  const cards = [...kinds.values()].map((runs, n) => {
    const { classes, counts, samples, test_samples: tests } = runs[0].split;
    const some = samples.length > counts.length ? `, the first ${counts.length} of ${samples.length} clients` : "";
    const whose = kinds.size > 1 ? `Runs: ${runs.map((run) => run.name).join(", ")}.` : runs.length > 1 ? "The same for all runs." : "";
    const text = `Area: training samples of a class at a client${some}. ${whose}`;
    const rows = () => [["client", "training", "test", ...classes], counts.map((row, k) => [k, samples[k], tests[k], ...row])];
    return card(`split-${n}`, "Samples per client and class", text, [bubbleChart("split", "samples per client and class", classes, counts)], rows, true);
  });
  return [el("h2", { id: "data" }, "Data"), el("div", { class: "cards" }, ...cards)];
}
