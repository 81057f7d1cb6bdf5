// Curves of accuracy and loss.

function accuracySection(report) {
  const found = compared(report);
  const curves = (xOf, stat, band) =>
    found.map((one) => {
      const test = one.run.tests.acc[one.mode];
      const [x, y] = [xOf(one.run), test[stat]];
      const edges =
        band && choice.band
          ? { low: y.map((v, i) => v - test.std[i]), high: y.map((v, i) => v + test.std[i]) }
          : {};
      return { ...one, x, y, ...edges };
    });
  const byBytes = curves((run) => run.tests.bytes, "mean", true).map((one) =>
    one.x.some((v) => v > 0) || !one.y.length
      ? one
      : { ...one, low: undefined, level: one.y[one.y.length - 1] },
  );
  const losses = visible(report).map(({ run, i }) => ({
    label: run.name,
    ...look(i),
    x: run.rounds.round,
    y: run.rounds.loss,
  }));
  const share = { yName: "test accuracy (%)", yFormat: (v) => plain(v), floor: 0, ceiling: 100 };
  const byRound = { ...share, xName: "round", whole: true };
  const names = () => runLegend(report, found);
  const tests = (stat) => () => testTable(found, stat);
  const byBytesSent = { ...share, xName: "bytes sent", xFormat: bytes, log: true };
  const ofRounds = (run) => run.tests.round;
  const mean = lineChart("rounds", "accuracy against rounds", curves(ofRounds, "mean", true), byRound);
  const cost = lineChart("bytes", "accuracy against bytes", byBytes, byBytesSent);
  const worst = lineChart(
    "worst10",
    "accuracy of the worst tenth",
    curves(ofRounds, "worst10", false),
    byRound,
  );
  const loss = lineChart("loss", "training loss", losses, {
    xName: "round",
    whole: true,
    yName: "training loss",
  });
  const lossNames = report.runs.length > 1 ? runLegend(report, found, false) : null;
  const about = {
    mean: `Mean over the tested clients${choice.band ? ", band: ± std over clients" : ""}.`,
    cost: "Payload up and down of all clients until the test, four bytes a parameter; logarithmic.",
    worst: "Mean accuracy of the tenth of the clients that fare worst in that test.",
    loss: "Mean over a round's participants of all terms of the method's loss; methods are not comparable.",
  };
  return section("accuracy", "Accuracy", [
    card("rounds", "Accuracy against rounds", about.mean, [names(), mean], tests("mean")),
    card("bytes", "Accuracy against bytes sent", about.cost, [names(), cost], () => bytesTable(found)),
    card("worst10", "The worst tenth of the clients", about.worst, [names(), worst], tests("worst10")),
    card("loss", "Training loss", about.loss, [lossNames, loss], () => lossTable(losses)),
  ]);
}

function testTable(found, stat) {
  const rounds = [...new Set(found.flatMap((one) => one.run.tests.round))].sort((a, b) => a - b);
  const value = (one, round) =>
    fixed(one.run.tests.acc[one.mode][stat][one.run.tests.round.indexOf(round)], 2);
  return [
    ["round", ...found.map((one) => one.label)],
    rounds.map((round) => [round, ...found.map((one) => value(one, round))]),
  ];
}

const bytesTable = (found) => [
  ["run", "round", "bytes", "accuracy (%)"],
  found.flatMap((one) =>
    one.run.tests.round.map((round, i) => [
      one.label,
      round,
      plain(one.run.tests.bytes[i]),
      fixed(one.run.tests.acc[one.mode].mean[i], 2),
    ]),
  ),
];
const lossTable = (losses) => {
  const rounds = [...new Set(losses.flatMap((one) => one.x))].sort((a, b) => a - b);
  return [
    ["round", ...losses.map((one) => one.label)],
    rounds.map((round) => [round, ...losses.map((one) => fixed(one.y[one.x.indexOf(round)], 4))]),
  ];
};
