// The numbers of a chart as [columns, rows], by what it holds.

function tableOf(charts) {
  const made = charts.map((chart) => numbersOf(chart, chart.series.filter((one) => !known(one.level))));
  if (made.length === 1) return made[0];
  const columns = [...new Set(made.flatMap(([names]) => names))]; // not all charts have all
  const rows = made.flatMap(([names, found], n) =>
    found.map((row) => [charts[n].panel, ...columns.map((name) => row[names.indexOf(name)])]),
  );
  return [["", ...columns], rows];
}

function numbersOf(chart, series) {
  if (series.some((one) => one.box)) return boxTable(series);
  if (chart.x.names) return byName(chart, series, "x", "y");
  if (chart.y.names) return byName(chart, series, "y", "x");
  return series.some((one) => one.fields) ? longTable(chart, series) : byX(chart, series);
}

const boxTable = (series) => [
  ["", ...Object.keys(series[0].box)],
  series.map((one) => [one.label, ...Object.values(one.box).map((value) => rounded(value))]),
];

// A row for each name, with what is known about it.
function byName(chart, series, side, other) {
  const names = chart[side].names;
  const more = Object.keys(Object.assign({}, ...names.map((name) => name.about || {})));
  const value = (one, i) => {
    const at = one[side].findIndex((place) => Math.round(place) === i);
    return one.sizes && at < 0 ? 0 : (one.sizes || one[other])[at];
  };
  const rows = names.map((name, i) => [
    name.label,
    ...series.map((one) => rounded(value(one, i), chart[other].format)),
    ...more.map((key) => (name.about || {})[key]),
  ]);
  return [[chart[side].name || "", ...series.map((one) => one.label), ...more], rows];
}

// A row for each x, a column for each series.
function byX(chart, series) {
  const all = [...new Set(series.flatMap((one) => one.x))].sort((a, b) => a - b);
  const value = (one, x) => rounded(one.y[one.x.indexOf(x)], chart.y.format);
  const rows = all.map((x) => [rounded(x, chart.x.format), ...series.map((one) => value(one, x))]);
  return [[chart.x.name, ...series.map((one) => one.label)], rows];
}

// A row for each mark.
function longTable(chart, series) {
  const fields = Object.keys(series[0].fields);
  const rows = series.flatMap((one) =>
    one.x.map((x, i) => [
      one.label,
      ...fields.map((field) => named(chart, field, one.fields[field][i])),
      rounded(x, chart.x.format),
      rounded(one.y[i], chart.y.format),
    ]),
  );
  return [["", ...fields, chart.x.name || "x", chart.y.name || "y"], rows];
}
