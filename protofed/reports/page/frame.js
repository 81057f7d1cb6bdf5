// What all charts share: what is chosen, the floating text, axes.

const choice = { option: "", spread: false, hidden: new Set(), colour: "", only: new Set(), open: new Set() };
let redrawAll = () => {};

const chosen = (item) => !item.when || item.when.includes(choice.option);
const shown = (item) => chosen(item) && !choice.hidden.has(item.group);
const toggle = (set, value) => set.delete(value) || set.add(value);

// The chart with what is shown now; where names of an axis are hidden, the others move together.
function current(chart) {
  const result = { ...chart, series: chart.series.filter(shown).map((one) => ({ x: [], y: [], ...one })) };
  for (const side of ["x", "y"]) {
    const names = chart[side].names || [];
    const kept = names.flatMap((name, i) => (shown(name) ? [i] : []));
    if (kept.length === names.length) continue;
    result[side] = { ...chart[side], names: kept.map((i) => names[i]) };
    result.series = result.series.map((one) => moved(one, side, kept));
  }
  return result;
}

function moved(one, side, kept) {
  const rows = one[side].flatMap((place, i) => (kept.includes(Math.round(place)) ? [i] : []));
  const pick = (values) => values && rows.map((i) => values[i]);
  const fields = Object.entries(one.fields || {}).map(([name, values]) => [name, pick(values)]);
  const result = { ...one, x: pick(one.x), y: pick(one.y), fields: Object.fromEntries(fields) };
  const place = (at) => kept.indexOf(Math.round(at)) + at - Math.round(at);
  return { ...result, sizes: pick(one.sizes), [side]: result[side].map(place) };
}

const tip = document.getElementById("tip");
function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 14 : event.clientX + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, Math.min(innerHeight - height - 4, event.clientY + 12))}px`;
}
const hideTip = () => {
  tip.hidden = true;
};

// A mark: something that stands for data. Tests count them.
function mark(node, text) {
  node.classList.add("mark");
  if (!text) return node;
  for (const event of ["pointerenter", "pointermove"])
    node.addEventListener(event, (at) => showTip(at, text));
  node.addEventListener("pointerleave", hideTip);
  return node;
}

// What a field's value stands for.
const named = (chart, field, value) => ((chart.names || {})[field] || [])[value] ?? value;

// The text of one mark: its series, place, value, and further fields.
function about(chart, one, i) {
  const lines = [one.label];
  for (const side of ["x", "y"]) {
    const axis = chart[side];
    const name = axis.names && axis.names[Math.round(one[side][i])];
    if (name && name.label !== one.label) lines.push(`${axis.name || ""} ${name.label}`.trim());
    if (name && chart.kind === "points")
      lines.push(Object.entries(name.about || {}).map(([what, value]) => `${what} ${value}`).join(", "));
    if (!axis.names && axis.name) lines.push(`${axis.name}: ${rounded(one[side][i], axis.format)}`);
  }
  if (one.sizes) lines.push(`${number(one.sizes[i])} ${chart.sized}`);
  for (const [field, values] of Object.entries(one.fields || {}))
    if (values[i] !== null) lines.push(`${field} ${named(chart, field, values[i])}`);
  return lines.filter(Boolean).join("\n");
}

// Room and scales of a chart; draws grid, ticks, names and reference lines. Values decide the limits.
function axes(chart, width, xs, ys) {
  const { x, y } = chart;
  const rows = y.names && y.names.map((name) => shortest(name.label, y.over ? 40 : 14));
  const least = chart.kind === "bars" ? chart.series.length * 5 + 5 : 12;
  const left = !rows ? 56 : y.over ? 14 : (y.name ? 36 : 12) + 6.6 * Math.max(0, ...rows.map((row) => row.length));
  width = Math.max(width, x.names ? left + 14 + x.names.length * least : 0);
  const size = chart.kind === "bars" ? 235 : Math.max(230, Math.min(320, width * 0.62));
  const height = rows ? rows.length * chart.row + 50 : size;
  const box = { left, right: width - (rows ? 24 : 14), top: 10, bottom: height - 40 };
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const write = (text, at, more = {}) => picture.append(svg("text", { ...at, ...more }, text));
  const levels = chart.series.map((one) => one.level).filter(known);
  const numeric = (axis, values, range) => {
    const tight = chart.kind === "lines" && axis === x && !chart.steps;
    const limits = tight ? ends(values, axis.log) : around(values, axis.low, axis.high);
    if (axis.zero) limits[0] = 0;
    const room = axis.format && axis === x ? 64 : 44;
    return axis.log ? logarithmic(limits, range) : linear(limits, range, room, axis.whole);
  };
  const places = (axis, range) => linear([-0.5, axis.names.length - 0.5], range, 44);
  const across = x.names ? places(x, [box.left, box.right]) : numeric(x, xs, [box.left, box.right]);
  const down = rows && places(y, [box.top, box.bottom]);
  const up = rows ? (at) => down(at) + (y.over ? 8 : 0) : numeric(y, [...ys, ...levels], [box.bottom, box.top]);
  for (const tick of x.names ? [] : across.ticks) {
    const at = across(tick);
    picture.append(svg("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }));
    write(number(tick, x.format), { x: at, y: box.bottom + 15, "text-anchor": "middle" });
  }
  for (const tick of rows ? [] : up.ticks) {
    picture.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: up(tick), y2: up(tick) }));
    write(number(tick, y.format), { x: box.left - 7, y: up(tick) + 4, "text-anchor": "end" });
  }
  const labels = (x.names || []).map((name) => shortest(name.label, 9));
  const every = Math.ceil((7 * Math.max(0, ...labels.map((l) => l.length)) + 6) / (across(1) - across(0)));
  for (const [i, label] of labels.entries())
    if (i % every === 0) write(label, { x: across(i), y: box.bottom + 15, "text-anchor": "middle" });
  for (const [i, label] of (rows || []).entries()) {
    if (y.over) write(label, { x: left, y: box.top + i * chart.row + 12, class: "halo" });
    else write(label, { x: left - 8, y: up(i) + 4, "text-anchor": "end" });
  }
  picture.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  const centre = { "text-anchor": "middle", class: "strong" };
  write(x.name, { x: (box.left + box.right) / 2, y: height - 6 }, centre);
  if (y.name) write(y.name, { transform: `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)` }, centre);
  return { picture, across, up, box };
}

function ends(values, log) {
  const found = values.filter((value) => known(value) && (!log || value > 0));
  if (!found.length) return [1, 10];
  const [low, high] = [Math.min(...found), Math.max(...found)];
  if (low < high) return [low, high];
  return log ? [low, low * 10] : [low - 1, high];
}

// Lines across the chart, for comparison; with names along y they stand upright.
function drawLevels(chart, { picture, across, up, box }) {
  for (const one of chart.series.filter((series) => known(series.level))) {
    const upright = Boolean(chart.y.names);
    const at = (upright ? across : up)(one.level);
    const d = upright ? `M${at} ${box.top}V${box.bottom}` : `M${box.left} ${at}H${box.right}`;
    const style = stroke(one.colour || "soft");
    picture.append(mark(svg("path", { d, style, "stroke-width": 1.6, "stroke-dasharray": "4 4" })));
    const place = upright ? { x: at + 4, y: box.top + 8 } : { x: box.right, y: at - 5, "text-anchor": "end" };
    picture.append(svg("text", { ...place, class: "level" }, one.note || one.label));
  }
}
