// Clients: how they fare, and what data they have.

function clientsSection(report) {
  const found = compared(report).filter((one) => one.run.clients.acc[one.mode]);
  if (!found.length) return [];
  const series = found.map((one) => ({ ...one, y: one.run.clients.acc[one.mode], ids: one.run.clients.ids }));
  const rows = worstClients(series);
  const spread = () => [
    ["run", "clients", "minimum", "lower quartile", "median", "upper quartile", "maximum"],
    series.map((one) => {
      const sorted = one.y.filter(known).sort((a, b) => a - b);
      return [
        one.label,
        sorted.length,
        ...[0, 0.25, 0.5, 0.75, 1].map((share) => fixed(quantile(sorted, share), 1)),
      ];
    }),
  ];
  const accuracyOf = (row, label) => fixed((row.dots.find((dot) => dot.label === label) || {}).value, 1);
  const worst = () => [
    ["client", "what it has", ...series.map((one) => one.label)],
    rows.map((row) => [row.label, row.about, ...series.map((one) => accuracyOf(row, one.label))]),
  ];
  const aboutSpread =
    "A dot is a client, the box the middle half, the line the median, the diamond the mean.";
  const aboutWorst =
    report.runs.length > 1
      ? "Those with the lowest accuracy in each run, and how they fare in the others."
      : "Those with the lowest accuracy under each prediction.";
  const dots = [runLegend(report, found), dotChart("worst", "the worst clients", rows)];
  const strips = [stripChart("spread", "accuracies of the clients", series)];
  return section("clients", "Clients", [
    card("spread", "Accuracy of each client, last test", aboutSpread, strips, spread),
    card("worst", "The worst clients", aboutWorst, dots, worst),
  ]);
}

function worstClients(series) {
  const each = Math.max(3, Math.ceil(12 / series.length));
  const splits = new Set(
    series.map((one) => JSON.stringify(one.run.split ? one.run.split.samples : one.ids)),
  );
  const together = splits.size === 1;
  const rows = new Map();
  for (const one of series) {
    const order = one.ids
      .map((id, i) => i)
      .filter((i) => known(one.y[i]))
      .sort((a, b) => one.y[a] - one.y[b]);
    for (const i of order.slice(0, each)) {
      const id = one.ids[i];
      const others = together ? series : [one];
      const dots = others.map((other) => ({
        label: other.label,
        colour: other.colour,
        kind: other.kind,
        value: other.y[other.ids.indexOf(id)],
      }));
      const label = together ? `client ${id}` : `${one.run.name}: ${id}`;
      rows.set(label, {
        label,
        about: aboutClient(one.run, id),
        dots,
        low: Math.min(...dots.map((d) => d.value).filter(known)),
      });
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
    const some =
      samples.length > counts.length ? `, the first ${counts.length} of ${samples.length} clients` : "";
    const whose =
      kinds.size > 1
        ? `Runs: ${runs.map((run) => run.name).join(", ")}.`
        : runs.length > 1
          ? "The same for all runs."
          : "";
    const text = `Area: training samples of a class at a client${some}. ${whose}`;
    const rows = () => [
      ["client", "training", "test", ...classes],
      counts.map((row, k) => [k, samples[k], tests[k], ...row]),
    ];
    return card(
      `split-${n}`,
      "Samples per client and class",
      text,
      [bubbleChart("split", "samples per client and class", classes, counts)],
      rows,
      true,
    );
  });
  return section("data", "Data", cards);
}
