// What all charts share: what is chosen, the floating text, axes.

const choice = {
  option: "", spread: false, singles: false, colour: "", hidden: new Set(), only: new Set(), open: new Set(),
};
let redrawAll = () => {};

const chosen = (item) => !item.when || item.when.includes(choice.option);
const shown = (item) =>
  chosen(item) && !choice.hidden.has(item.group) && (!item.single || choice.singles);
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

// The size of a chart and the box that its scales fill.
function roomOf({ kind, x, y, row, series }, width) {
  const longest = Math.max(0, ...(y.names || []).map((name) => Math.min(14, name.label.length)));
  const left = !y.names ? 56 : y.over ? 14 : (y.name ? 36 : 12) + 6.6 * longest;
  const least = kind === "bars" ? series.length * 5 + 5 : 12; // of a name on x
  width = Math.max(width, x.names ? left + 14 + x.names.length * least : 0);
  const size = kind === "bars" ? 235 : Math.max(230, Math.min(320, width * 0.62));
  const height = y.names ? y.names.length * row + 50 : size;
  return { width, height, box: { left, right: width - (y.names ? 24 : 14), top: 10, bottom: height - 40 } };
}

function scaleOf(axis, values, range, tight) {
  if (axis.names) return linear([-0.5, axis.names.length - 0.5], range, 44);
  const limits = tight ? ends(values, axis.log) : around(values, axis.low, axis.high);
  if (axis.zero) limits[0] = 0;
  if (axis.log) return logarithmic(limits, range);
  return linear(limits, range, axis.format === "plain" ? 44 : 64, axis.whole);
}

// The picture with grid, ticks and names, and its scales. Values decide the limits.
function axes(chart, width, xs, ys) {
  const { x, y } = chart;
  const { box, ...size } = roomOf(chart, width);
  const picture = svg("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}` });
  const levels = chart.series.map((one) => one.level).filter(known);
  const curves = chart.kind === "lines" && !chart.steps;
  const across = scaleOf(x, [...xs, ...(y.names ? levels : [])], [box.left, box.right], curves);
  const vertical = y.names ? [box.top, box.bottom] : [box.bottom, box.top];
  const inner = scaleOf(y, [...ys, ...levels], vertical);
  const up = (at) => inner(at) + (y.over ? 8 : 0);
  const write = (text, place, kind) => picture.append(svg("text", { ...place, class: kind }, text));
  const below = (at) => ({ x: at, y: box.bottom + 15, "text-anchor": "middle" });
  const beside = (at) => ({ x: box.left - 7, y: at + 4, "text-anchor": "end" });
  const grid = (d) => picture.append(svg("path", { class: "grid", d }));
  for (const tick of x.names ? [] : across.ticks) {
    grid(`M${across(tick)} ${box.top}V${box.bottom}`);
    write(number(tick, x.format), below(across(tick)));
  }
  for (const tick of y.names ? [] : inner.ticks) {
    grid(`M${box.left} ${up(tick)}H${box.right}`);
    write(number(tick, y.format), beside(up(tick)));
  }
  const labels = (x.names || []).map((name) => shortest(name.label, 9));
  const every = Math.ceil((7 * Math.max(0, ...labels.map((l) => l.length)) + 6) / (across(1) - across(0)));
  for (const [i, label] of labels.entries()) if (i % every === 0) write(label, below(across(i)));
  for (const [i, { label }] of (y.names || []).entries()) {
    if (y.over) write(shortest(label, 40), { x: box.left, y: box.top + i * chart.row + 12 }, "halo");
    else write(shortest(label, 14), beside(up(i)));
  }
  picture.append(svg("path", { class: "axis", d: `M${box.left} ${box.bottom}H${box.right}` }));
  const middle = { "text-anchor": "middle" };
  write(x.name, { ...middle, x: (box.left + box.right) / 2, y: size.height - 6 }, "strong");
  const turned = `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`;
  write(y.name || "", { ...middle, transform: turned }, "strong");
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
  for (const [n, one] of chart.series.filter((series) => known(series.level)).entries()) {
    const upright = Boolean(chart.y.names);
    const at = (upright ? across : up)(one.level);
    const d = upright ? `M${at} ${box.top}V${box.bottom}` : `M${box.left} ${at}H${box.right}`;
    const style = stroke(one.colour || "soft");
    picture.append(mark(svg("path", { d, style, "stroke-width": 1.6, "stroke-dasharray": "4 4" })));
    const place = upright ? { x: at + 4, y: box.bottom - 6 - 13 * n } : { x: box.right, y: at - 5, "text-anchor": "end" };
    picture.append(svg("text", { ...place, class: "level" }, one.note || one.label));
  }
}
