// Curves: a value against rounds or against bytes.

// series: [{label, colour, kind, dash, x: [], y: [], low: [], high: []}]; with `level` a horizontal line.
function lineChart(
  name,
  label,
  series,
  { xName, yName, log = false, whole = false, xFormat, yFormat, floor, ceiling },
) {
  return drawing(name, label, (width) => {
    const height = Math.max(230, Math.min(320, width * 0.62));
    const xs = series
      .flatMap((one) => (one.level === undefined ? one.x : []))
      .filter((v) => known(v) && (!log || v > 0));
    const ys = series.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]);
    const limits = xs.length ? [Math.min(...xs), Math.max(...xs)] : [1, 10];
    if (limits[0] === limits[1]) limits[log ? 1 : 0] = log ? limits[0] * 10 : limits[0] - 1;
    const { picture, across, up, box } = axes({
      width,
      height,
      x: { limits, log, whole, name: xName, format: xFormat },
      y: { limits: around(ys, floor, ceiling), name: yName, format: yFormat },
    });
    for (const one of series) picture.append(...curve(one, across, up, box, log));
    picture.append(crosshair(series, across, up, box, { xName, xFormat, yFormat }));
    return picture;
  });
}

function curve(one, across, up, box, log) {
  const parts = [];
  const style = `stroke:${one.colour}`;
  if (one.level !== undefined) {
    const at = up(one.level);
    parts.push(
      mark(
        svg("line", {
          x1: box.left,
          x2: box.right,
          y1: at,
          y2: at,
          style,
          "stroke-width": 2,
          "stroke-dasharray": "2 4",
        }),
      ),
    );
    parts.push(svg("text", { x: box.right, y: at - 5, "text-anchor": "end" }, `${one.label}: nothing sent`));
    return parts;
  }
  const rows = one.x.map((x, i) => i).filter((i) => known(one.y[i]) && (!log || one.x[i] > 0));
  if (one.low) {
    const edge = (values) =>
      rows.filter((i) => known(values[i])).map((i) => `${across(one.x[i])} ${up(values[i])}`);
    const outline = [...edge(one.high), ...edge(one.low).reverse()];
    if (outline.length)
      parts.push(svg("path", { d: `M${outline.join("L")}z`, style: `fill:${one.colour}`, opacity: 0.13 }));
  }
  const path = rows.map((i) => `${across(one.x[i]).toFixed(1)} ${up(one.y[i]).toFixed(1)}`);
  if (path.length > 1)
    parts.push(
      mark(
        svg("path", {
          d: `M${path.join("L")}`,
          style,
          fill: "none",
          "stroke-width": 2,
          "stroke-dasharray": one.dash,
          "stroke-linejoin": "round",
        }),
      ),
    );
  const every = Math.max(1, Math.ceil(rows.length / 8));
  const shown = rows.filter((_, n) => n % every === 0 || n === rows.length - 1);
  for (const i of shown)
    parts.push(mark(shape(one.kind, across(one.x[i]), up(one.y[i]), 3.4, { style: `fill:${one.colour}` })));
  return parts;
}

// The values nearest to the pointer, of every curve.
function crosshair(series, across, up, box, { xName, xFormat = plain, yFormat = plain }) {
  const line = svg("line", { class: "axis", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const area = svg("rect", {
    x: box.left,
    y: box.top,
    width: Math.max(0, box.right - box.left),
    height: box.bottom - box.top,
    fill: "transparent",
  });
  const move = (event) => {
    const at = event.clientX - area.ownerSVGElement.getBoundingClientRect().left;
    const found = series
      .filter((one) => one.level === undefined)
      .map((one) => nearest(one, across, at))
      .filter(Boolean);
    if (!found.length) return;
    const lead = found.reduce((a, b) => (Math.abs(across(b.x) - at) < Math.abs(across(a.x) - at) ? b : a));
    line.setAttribute("x1", across(lead.x));
    line.setAttribute("x2", across(lead.x));
    line.setAttribute("visibility", "visible");
    const close = found
      .filter((one) => Math.abs(across(one.x) - across(lead.x)) < 14)
      .sort((a, b) => b.y - a.y);
    showTip(
      event,
      [`${xName}: ${xFormat(lead.x)}`, ...close.map((one) => `${one.label}: ${yFormat(one.y)}`)].join("\n"),
    );
  };
  const leave = () => {
    hideTip();
    line.setAttribute("visibility", "hidden");
  };
  for (const [name, act] of [
    ["pointermove", move],
    ["pointerdown", move],
    ["pointerleave", leave],
  ])
    area.addEventListener(name, act);
  return svg("g", {}, line, area);
}

function nearest(one, across, at) {
  let best = null;
  one.x.forEach((x, i) => {
    const gap = Math.abs(across(x) - at);
    if (known(one.y[i]) && Number.isFinite(gap) && (!best || gap < best.gap))
      best = { gap, x, y: one.y[i], label: one.label };
  });
  return best;
}
