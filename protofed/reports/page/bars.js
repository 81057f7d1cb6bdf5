// Bars: upright side by side with marks on them (names on x), lying one after the other (names on y).

function bars(chart, width) {
  const lying = Boolean(chart.y.names);
  const side = lying ? "x" : "y";
  const drawn = chart.series.filter((one) => !known(one.level));
  const totals = (chart.y.names || []).map((_, i) => drawn.reduce((sum, one) => sum + one.x[i], 0));
  const values = lying ? totals : drawn.flatMap((one) => one.y);
  const frame = axes({ ...chart, [side]: { ...chart[side], zero: true } }, width, values, values);
  const put = (node, one, i) => frame.picture.append(mark(node, about(chart, one, i)));
  if (lying) stacked(chart, drawn, frame, put);
  else grouped(chart, drawn, frame, put);
  drawLevels(chart, frame);
  return frame.picture;
}

const barStyle = (chart, one, name) => ({
  style: fill(one.colour || name.colour || chart.colour),
  opacity: one.opacity,
  rx: 1.5,
});

function stacked(chart, series, { across, up }, put) {
  chart.y.names.forEach((name, i) => {
    let from = 0;
    for (const one of series) {
      const [x, end] = [across(from), across(from + one.x[i])];
      const place = { x, y: up(i) - 8, width: Math.max(one.x[i] ? 1.2 : 0, end - x - 0.5), height: 16 };
      put(svg("rect", { ...place, ...barStyle(chart, one, name) }), one, i);
      from += one.x[i];
    }
  });
}

function grouped(chart, series, { across, up, box }, put) {
  const beside = series.filter((one) => !one.shape);
  const thick = Math.min(26, ((across(1) - across(0)) * 0.76) / beside.length);
  for (const one of series) {
    one.y.forEach((value, i) => {
      if (!known(value)) return;
      const place = one.x[i];
      if (one.shape) {
        const style = `${fill(one.colour)};${stroke("card")}`;
        put(shape(one.shape, across(place), up(value), one.size, { style }), one, i);
        return;
      }
      const x = across(place) + (beside.indexOf(one) - beside.length / 2) * thick + 0.5;
      const size = { width: Math.max(1, thick - 1), height: Math.max(0.5, box.bottom - up(value)) };
      put(svg("rect", { x, y: up(value), ...size, ...barStyle(chart, one, chart.x.names[place]) }), one, i);
    });
  }
}
