// Curves and histograms.

const banded = (one) => one.spread === "band" || (one.spread === "asked" && choice.spread);

function lines(chart, width) {
  const curves = chart.series.filter((one) => !known(one.level));
  const values = (one) => [...one.y, ...(banded(one) ? [...(one.low || []), ...(one.high || [])] : [])];
  const xs = curves.flatMap((one) => one.x);
  const frame = axes(chart, width, xs, curves.flatMap(values));
  const draw = chart.steps ? histogram : curve;
  for (const one of curves) frame.picture.append(...draw(one, frame, chart.x.log));
  drawLevels(chart, frame);
  frame.picture.append(crosshair(chart, curves, frame));
  return frame.picture;
}

function curve(one, { across, up }, log) {
  const rows = one.x.map((_, i) => i).filter((i) => known(one.y[i]) && (!log || one.x[i] > 0));
  const place = (i, value) => `${across(one.x[i]).toFixed(1)} ${up(value).toFixed(1)}`;
  const at = (values) => rows.filter((i) => known(values[i])).map((i) => place(i, values[i]));
  const parts = [];
  if (banded(one) && rows.length) {
    const outline = [...at(one.high), ...at(one.low).reverse()].join("L");
    parts.push(svg("path", { d: `M${outline}z`, style: fill(one.colour), opacity: 0.13 }));
  }
  if (rows.length > 1) parts.push(mark(outlined(`M${at(one.y).join("L")}`, one)));
  if (one.single) return parts;
  const every = Math.max(1, Math.ceil(rows.length / 8));
  for (const i of rows.filter((_, n) => n % every === 0 || n === rows.length - 1))
    parts.push(mark(shape(one.shape, across(one.x[i]), up(one.y[i]), one.size, { style: fill(one.colour) })));
  return parts;
}

function outlined(d, { colour, dash, single, opacity }) {
  const looks = { style: stroke(colour), fill: "none", "stroke-width": single ? 1 : 2, opacity };
  return svg("path", { d, ...looks, "stroke-dasharray": dash });
}

// x is the middle of a bin; all bins are equally wide.
function histogram(one, { across, up, box }) {
  const half = (across(one.x[1]) - across(one.x[0])) / 2;
  const steps = one.y.map((y, i) => `${across(one.x[i]) - half} ${up(y)}H${across(one.x[i]) + half}`);
  const [first, last] = [across(one.x[0]) - half, across(one.x[one.x.length - 1]) + half];
  const area = `M${first} ${box.bottom}L${steps.join("L")}L${last} ${box.bottom}z`;
  const filled = svg("path", { d: area, style: fill(one.colour), opacity: 0.25 });
  return [filled, mark(outlined(`M${steps.join("L")}`, one))];
}

// The values nearest to the pointer, of every curve.
function crosshair({ x, y }, curves, { across, box }) {
  const line = svg("line", { class: "axis", y1: box.top, y2: box.bottom, visibility: "hidden" });
  const [width, height] = [Math.max(0, box.right - box.left), box.bottom - box.top];
  const move = (event) => {
    const at = event.clientX - area.ownerSVGElement.getBoundingClientRect().left;
    const found = curves.map((one) => nearest(one, across, at)).filter(Boolean);
    if (!found.length) return;
    const lead = found.reduce((a, b) => (b.gap < a.gap ? b : a));
    for (const end of ["x1", "x2"]) line.setAttribute(end, across(lead.x));
    line.setAttribute("visibility", "visible");
    const close = found.filter((one) => Math.abs(across(one.x) - across(lead.x)) < 14);
    const texts = close.sort((a, b) => b.y - a.y).map((one) => `${one.label}: ${rounded(one.y, y.format)}`);
    showTip(event, [`${x.name}: ${rounded(lead.x, x.format)}`, ...texts].join("\n"));
  };
  const leave = () => {
    hideTip();
    line.setAttribute("visibility", "hidden");
  };
  const on = { pointermove: move, pointerdown: move, pointerleave: leave };
  const area = svg("rect", { x: box.left, y: box.top, width, height, fill: "transparent", on });
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
