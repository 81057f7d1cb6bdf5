// Points: on axes of numbers or names, as bubbles, with boxes, or without axes.

function points(chart, width) {
  const values = (side) => chart.series.flatMap((one) => one[side]);
  const frame = chart.bare ? plane(chart, width) : axes(chart, width, values("x"), values("y"));
  const { picture, across, up, box } = frame;
  for (const i of chart.y.names && !chart.y.over && !chart.sized ? chart.y.names.keys() : [])
    picture.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: up(i), y2: up(i) }));
  const cell = chart.sized && Math.min(across(1) - across(0), chart.row);
  const most = Math.max(1, ...chart.series.flatMap((one) => one.sizes || []));
  for (const one of chart.series.filter((series) => !known(series.level))) {
    if (one.box) picture.append(...boxed(one, frame));
    one.x.forEach((x, i) => {
      const size = one.sizes ? Math.max(1, Math.sqrt(one.sizes[i] / most) * cell * 0.62) : one.size;
      const border = one.outline ? `;${stroke("ink")}` : one.opacity === 1 ? `;${stroke("card")}` : "";
      const style = fill(colourOf(chart, one, i)) + border;
      const looks = { style, opacity: one.opacity, "stroke-width": one.outline || 1 };
      const node = shape(one.shape, across(x), up(one.y[i]), size, looks);
      picture.append(faded(chart, one, i, mark(node, about(chart, one, i))));
    });
    if (one.box) picture.append(meanOf(one, frame));
  }
  for (const one of chart.series.filter((series) => series.labels)) written(chart, one, frame);
  drawLevels(chart, frame);
  return picture;
}

// The choice of a field that gives colours; a mark without it has the first field's.
function colourOf(chart, one, i) {
  if (one.colour) return one.colour;
  const fields = [choice.colour, ...chart.colour_by].filter((field) => one.fields[field]);
  const value = fields.map((field) => one.fields[field][i]).find(known);
  return `k${value % 10}`;
}

// Of named things, only those that were chosen are seen well.
function faded(chart, one, i, node) {
  const field = (chart.colour_by || [])[0];
  if (field && choice.only.size && !choice.only.has(named(chart, field, one.fields[field][i])))
    node.classList.add("faded");
  return node;
}

function written(chart, one, { picture, across, up }) {
  if (one.x.length > 24 && !choice.only.size) return; // they would hide each other
  one.x.forEach((x, i) => {
    const text = shortest(String(named(chart, one.labels, one.fields[one.labels][i])), 14);
    const place = { x: across(x) + 11, y: up(one.y[i]) + 4, class: "halo" };
    picture.append(faded(chart, one, i, svg("text", place, text)));
  });
}

// No axes, one scale for both directions.
function plane(chart, width) {
  const size = Math.min(width, 560);
  const picture = svg("svg", { width, height: size, viewBox: `0 0 ${width} ${size}` });
  const [x, y] = ["x", "y"].map((side) => {
    const all = chart.series.flatMap((one) => one[side]);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    return { middle: (low + high) / 2, reach: high - low };
  });
  const scale = (size - 36) / Math.max(x.reach, y.reach, 1e-6);
  const across = (value) => width / 2 + (value - x.middle) * scale;
  return { picture, across, up: (value) => size / 2 - (value - y.middle) * scale };
}

// The middle half as a box, the median as a line.
function boxed(one, { across, up }) {
  const [q1, q2, q3] = ["lower quartile", "median", "upper quartile"].map((name) => across(one.box[name]));
  const top = up(Math.round(one.y[0])) - 14;
  const place = { x: q1, y: top, width: Math.max(1, q3 - q1), height: 28, rx: 3 };
  const median = { d: `M${q2} ${top}v28`, style: stroke(one.colour), "stroke-width": 2.5 };
  return [svg("rect", { ...place, style: fill(one.colour), opacity: 0.16 }), svg("path", median)];
}

function meanOf(one, { across, up }) {
  const text = Object.entries(one.box).map(([name, value]) => `${name}: ${rounded(value)}`);
  const style = { style: `${fill("ink")};${stroke("card")}` };
  const node = shape("diamond", across(one.box.mean), up(Math.round(one.y[0])), 5, style);
  return mark(node, [one.label, ...text].join("\n"));
}
