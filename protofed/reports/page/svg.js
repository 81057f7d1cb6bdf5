// Elements, scales, ticks, numbers with units, shapes.

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
const el = (tag, attributes = {}, ...children) => build(document.createElement(tag), attributes, children);
const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, attributes = {}, ...children) =>
  build(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => typeof value === "number" && Number.isFinite(value);
const fill = (colour) => `fill:var(--${colour})`;
const stroke = (colour) => `stroke:var(--${colour})`;
const shortest = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function linear([low, high], [start, end], room, whole) {
  const scale = (value) => start + ((value - low) / (high - low || 1)) * (end - start);
  const ticks = niceTicks(low, high, Math.max(2, Math.abs(end - start) / room));
  scale.ticks = ticks.filter((tick) => !whole || Number.isInteger(tick));
  return scale;
}

function logarithmic([low, high], range) {
  const inner = linear([Math.log10(low), Math.log10(high)], range, 60);
  const scale = (value) => inner(Math.log10(value));
  scale.ticks = logTicks(low, high, Math.max(2, Math.abs(range[1] - range[0]) / 60));
  return scale;
}

function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const by = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / by - 1e-9); i * by <= high + by * 1e-9; i += 1)
    ticks.push(Number((i * by).toPrecision(12)));
  return ticks;
}

function logTicks(low, high, count) {
  const [from, to] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const all = [];
    for (let power = from; power <= to; power += 1) for (const d of digits) all.push(d * 10 ** power);
    const ticks = all.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    if (ticks.length <= count + 1 && ticks.length > 1) return ticks;
    if (digits.length === 1) return ticks.filter((_, i) => i % Math.ceil(ticks.length / (count + 1)) === 0);
  }
  return [low, high];
}

// Limits that hold all values, with a little air, within hard limits if there are any.
function around(values, floor = -Infinity, ceiling = Infinity) {
  const found = values.filter(known);
  if (!found.length) return [0, 1];
  let [low, high] = [Math.min(...found), Math.max(...found)];
  const air = (high - low || Math.abs(high)) * 0.06 || 1; // nothing but zeros: up to 1
  [low, high] = [Math.max(floor, low - air), Math.min(ceiling, high + air)];
  return high > low ? [low, high] : [low - 1, high + 1];
}

const UNITS = {
  plain: (value) => Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6 }),
  bytes: (value) => {
    const power = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.abs(value) * 1.0005 || 1) / 3)));
    return `${Number((value / 1000 ** power).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB"][power]}`;
  },
  seconds: (value) => {
    if (value < 1) return value ? `${Math.round(value * 1000)} ms` : "0 s";
    const [by, unit] = value < 90 ? [1, "s"] : value < 5400 ? [60, "min"] : [3600, "h"];
    return `${(value / by).toFixed(1)} ${unit}`;
  },
};
const number = (value, unit = "plain") => (known(value) ? UNITS[unit](value) : "–");
const rounded = (value, unit) => number(known(value) ? Number(value.toPrecision(4)) : value, unit);

// Shapes around a point, so that colour is never the only difference.
function shape(kind, x, y, s, attributes) {
  const arm = s * 0.58;
  const paths = {
    square: `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}z`,
    triangle: `M${x} ${y - 1.25 * s}L${x + 1.15 * s} ${y + 0.8 * s}H${x - 1.15 * s}z`,
    down: `M${x} ${y + 1.25 * s}L${x + 1.15 * s} ${y - 0.8 * s}H${x - 1.15 * s}z`,
    diamond: `M${x} ${y - 1.35 * s}L${x + 1.35 * s} ${y}L${x} ${y + 1.35 * s}L${x - 1.35 * s} ${y}z`,
    cross:
      `M${x - s} ${y - 0.42 * s}h${arm}v${-arm}h${0.84 * s}v${arm}h${arm}v${0.84 * s}` +
      `h${-arm}v${arm}h${-0.84 * s}v${-arm}h${-arm}z`,
  };
  if (kind === "circle") return svg("circle", { cx: x, cy: y, r: s, ...attributes });
  return svg("path", { d: paths[kind], ...attributes });
}

// The sign of a series in a legend: a line with its shape, or a shape alone.
function sign({ colour, shape: kind, dash, opacity }, lined) {
  const middle = lined ? 11 : 7;
  const style = { width: 2 * middle, height: 14, class: "swatch", "aria-hidden": "true" };
  const path = { d: "M0 7H22", style: stroke(colour), "stroke-width": 2, "stroke-dasharray": dash };
  const inner = shape(kind || "square", middle, 7, lined ? 3.6 : 5, { style: fill(colour), opacity });
  return svg("svg", style, lined ? svg("path", path) : null, inner);
}
