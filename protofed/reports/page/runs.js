// What the charts compare, and how a run looks in all of them.

const colourOfRun = (i) => `var(--r${i % 7})`;
const look = (i) => ({
  colour: colourOfRun(i),
  kind: SHAPES[i % SHAPES.length],
  dash: DASHES[i % DASHES.length],
});
const visible = (report) =>
  report.runs.map((run, i) => ({ run, i })).filter(({ i }) => !choice.hidden.has(i));
const modeOf = (run) => (choice.mode === null ? run.main : choice.mode);

// What the charts of accuracy compare: the modes of a single run, or one mode of each run.
function compared(report) {
  if (report.runs.length === 1) {
    const run = report.runs[0];
    const modes = choice.mode === null ? run.modes : run.modes.filter((mode) => mode === choice.mode);
    return modes.map((mode) => ({ run, mode, label: mode, ...look(run.modes.indexOf(mode)) }));
  }
  const shown = visible(report).filter(({ run }) => modeOf(run) && run.modes.includes(modeOf(run)));
  return shown.map(({ run, i }) => ({
    run,
    mode: modeOf(run),
    label: `${run.name} · ${modeOf(run)}`,
    ...look(i),
  }));
}

function runLegend(report, series, modes = true) {
  if (report.runs.length === 1)
    return legend(
      series.map((one) => ({ label: one.label, swatch: swatch(one.colour, one.kind, one.dash) })),
    );
  return legend(
    report.runs.map((run, i) => {
      const mode = modeOf(run);
      const { colour, kind, dash } = look(i);
      const label = run.modes.includes(mode) ? `${run.name} · ${mode}` : `${run.name} (no ${mode || "test"})`;
      return {
        label: modes ? label : run.name,
        swatch: swatch(colour, kind, dash),
        off: choice.hidden.has(i),
        title: "show or hide this run",
        change: () => toggle(choice.hidden, i),
      };
    }),
  );
}
