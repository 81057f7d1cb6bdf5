// How much each client weighs in the average: over all rounds, and in the last one.

function weightsSection(report) {
  const told = visible(report).filter(({ run }) => run.average);
  const attention = visible(report).filter(({ run }) => run.attention);
  const cards = told.length ? [histogramCard(told), roundsCard(told)] : [];
  if (attention.length) cards.push(attentionCard(attention));
  return cards.length ? section("weights", "Weights of the clients", cards) : [];
}

const namesOf = (runs) =>
  legend(runs.map(({ run, i }) => ({ label: run.name, swatch: swatch(colourOfRun(i), look(i).kind, look(i).dash) })));

const BINS = 25;
function histogramCard(runs) {
  const all = runs.map(({ run }) => run.average.weights.flat());
  const top = Math.max(...all.map((values) => values.reduce((a, b) => Math.max(a, b), 0)), 1e-9);
  const width = top / BINS;
  const series = runs.map(({ run, i }, n) => {
    const counts = new Array(BINS).fill(0);
    for (const value of all[n]) counts[Math.min(BINS - 1, Math.floor(value / width))] += 1;
    const shares = counts.map((count) => (100 * count) / Math.max(1, all[n].length));
    return { label: run.name, ...look(i), values: shares };
  });
  const rows = () => [
    ["weight from", "to", ...series.map((one) => `${one.label} (%)`)],
    series[0].values.map((_, bin) => [
      fixed(bin * width, 4),
      fixed((bin + 1) * width, 4),
      ...series.map((one) => fixed(one.values[bin], 1)),
    ]),
  ];
  const text = "Of all participants in all rounds: how often a weight between two values occurs.";
  const names = { xName: "weight in the average", yName: "share of the weights (%)" };
  const drawn = histogram("weights-histogram", "weights of the clients", series, width, names);
  return card("weight-values", "Weights in all rounds", text, [namesOf(runs), drawn], rows);
}

function roundsCard(runs) {
  const series = runs.map(({ run, i }) => {
    const sorted = run.average.weights.map((values) => [...values].sort((a, b) => a - b));
    const at = (share) => sorted.map((values) => (values.length ? quantile(values, share) : null));
    return { label: run.name, ...look(i), x: run.average.round, y: at(0.5), low: at(0), high: at(1) };
  });
  const rows = () => [
    ["run", "round", "smallest", "median", "largest"],
    series.flatMap((one) =>
      one.x.map((round, n) => [one.label, round, ...[one.low, one.y, one.high].map((v) => fixed(v[n], 4))]),
    ),
  ];
  const text = "Line: the median over a round's participants; band: from the smallest to the largest.";
  const names = { xName: "round", whole: true, yName: "weight in the average", floor: 0 };
  const drawn = lineChart("weights-rounds", "weights of the clients by round", series, names);
  return card("weight-rounds", "Weights by round", text, [namesOf(runs), drawn], rows);
}

function attentionCard(runs) {
  const draw = ({ run, i }) => {
    const { clients, weights, shares } = run.attention;
    const bars = [{ label: "weight", colour: colourOfRun(i), opacity: 0.75, values: weights }];
    const marks = [{ label: "share of the samples", colour: "var(--ink)", kind: "diamond", values: shares }];
    const level = { value: 1 / clients.length, label: "equal weights" };
    const names = { xName: "client", yName: "weight in the average", format: short };
    const label = `weights of the clients of ${run.name}`;
    return groupedBars("attention", label, clients.map(String), bars, { ...names, marks, level });
  };
  const row = ({ name, attention: { clients, weights, shares } }) =>
    clients.map((client, n) => [name, client, fixed(weights[n], 4), fixed(shares[n], 4)]);
  const rows = () => [
    ["run", "client", "weight", "share of the samples"],
    runs.flatMap(({ run }) => row(run)),
  ];
  const keys = legend([
    { label: "weight", swatch: key("var(--soft)", 0.75) },
    { label: "share of the samples (FedAvg's weight)", swatch: key("var(--ink)", 1, "diamond") },
  ]);
  const text = "Weight of each participant of the last round in the average.";
  return card("attention", "The last round", text, [keys, panels(runs, draw)], rows, true);
}
