// What a run cost, and its settings.

function costSection(report) {
  const runs = visible(report).filter(({ run }) => run.rounds.round.length);
  if (!runs.length) return [];
  const bars = (parts) =>
    runs.map(({ run, i }) => ({ label: run.name, colour: colourOfRun(i), parts: parts(run.rounds) }));
  const sent = bars((r) => [
    { label: "up", value: sum(r.up) },
    { label: "down", value: sum(r.down) },
    { label: "counts and labels", value: sum(r.up_meta) + sum(r.down_meta) },
  ]);
  const time = bars((r) => [
    { label: "rounds", value: sum(r.seconds) },
    { label: "tests", value: sum(r.test_seconds) },
  ]);
  const keys = (...labels) =>
    legend(labels.map((label, i) => ({ label, swatch: key("var(--soft)", PALER[i]) })));
  const each = (values) => sum(values) / values.length;
  const sentRows = () => [
    [
      "run",
      "up, parameters a round",
      "down, parameters a round",
      "up",
      "down",
      "counts and labels",
      "on the wire",
    ],
    runs.map(({ run: { name, rounds: r } }) => [
      name,
      plain(Math.round(each(r.up_params))),
      plain(Math.round(each(r.down_params))),
      bytes(sum(r.up)),
      bytes(sum(r.down)),
      bytes(sum(r.up_meta) + sum(r.down_meta)),
      r.up_wire.some(known) ? bytes(sum(r.up_wire) + sum(r.down_wire)) : "–",
    ]),
  ];
  const timeRows = () => [
    ["run", "rounds", "a round", "slowest round", "tests", "clients left out"],
    runs.map(({ run: { name, rounds: r } }) => [
      name,
      duration(sum(r.seconds)),
      duration(each(r.seconds)),
      duration(Math.max(...r.seconds)),
      duration(sum(r.test_seconds)),
      sum(r.failed),
    ]),
  ];
  const sentParts = [
    keys("parameters up", "parameters down", "counts and class labels"),
    stackedBars("sent", "bytes sent", sent, { xName: "bytes sent", format: bytes }),
  ];
  const timeParts = [
    keys("rounds: training and server", "tests"),
    stackedBars("time", "time", time, { xName: "time", format: duration }),
  ];
  return section("cost", "Cost", [
    card("sent", "Communication", "Sum over rounds and clients.", sentParts, sentRows),
    card("time", "Time", "Wall clock of the run.", timeParts, timeRows),
  ]);
}

function settingsSection(report) {
  const keys = [...new Set(report.runs.flatMap((run) => Object.keys(run.config)))];
  const show = (value) => (value === null || value === undefined ? "–" : String(value));
  const differs = (key) => new Set(report.runs.map((run) => show(run.config[key]))).size > 1;
  const row = (key) => [el("td", {}, key), ...report.runs.map((run) => el("td", {}, show(run.config[key])))];
  const columns = ["setting", ...report.runs.map((run) => run.name)];
  const different = keys.filter(differs);
  const same = keys
    .filter((key) => !differs(key))
    .map((key) => [el("td", {}, key), el("td", {}, show(report.runs[0].config[key]))]);
  const parts = different.length ? [table(columns, different.map(row), "settings")] : [];
  const rest = details(
    "settings-same",
    different.length ? "Settings that are equal in all runs" : "All settings",
    () => table(["setting", "value"], same, "settings"),
  );
  const text = "As resolved when the run began; `protofed run config.json` of a run directory repeats it.";
  const paths = table(
    ["run", "directory"],
    report.runs.map((run) => [el("td", {}, run.name), el("td", {}, run.path)]),
    "settings",
  );
  const all = [...parts, paths, rest];
  return section("settings", "Settings", [card("config", "Configuration", text, all, null, true)]);
}
