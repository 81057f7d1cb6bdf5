// Elements, scales, ticks, numbers with units.

const SVG = "http://www.w3.org/2000/svg";

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
const svg = (tag, attributes = {}, ...children) =>
  build(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
const sum = (values) => values.reduce((total, value) => total + (value || 0), 0);

function linear([low, high], [start, end], { room = 44, whole = false } = {}) {
  const span = high - low || 1;
  const scale = (value) => start + ((value - low) / span) * (end - start);
  scale.ticks = niceTicks(low, high, Math.max(2, Math.abs(end - start) / room)).filter(
    (tick) => !whole || Number.isInteger(tick),
  );
  return scale;
}

function logarithmic([low, high], range) {
  const inner = linear([Math.log10(low), Math.log10(high)], range);
  const scale = (value) => inner(Math.log10(value));
  scale.ticks = logTicks(low, high, Math.max(2, Math.abs(range[1] - range[0]) / 60));
  return scale;
}

function step(span, count) {
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
}

function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const by = step(high - low, count);
  const ticks = [];
  for (let i = Math.ceil(low / by - 1e-9); i * by <= high + by * 1e-9; i += 1)
    ticks.push(Number((i * by).toPrecision(12)));
  return ticks;
}

function logTicks(low, high, count) {
  const from = Math.floor(Math.log10(low));
  const to = Math.ceil(Math.log10(high));
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

const plain = (value) => (known(value) ? Number(value.toPrecision(6)).toLocaleString("en") : "–");
const percent = (value, digits = 2) => (known(value) ? `${value.toFixed(digits)} %` : "–");
const fixed = (value, digits = 3) => (known(value) ? value.toFixed(digits) : "–");

function bytes(value) {
  if (!known(value)) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let power = 0;
  while (Math.abs(value) >= 999.5 && power < units.length - 1) [value, power] = [value / 1000, power + 1];
  return `${Number(value.toPrecision(3))} ${units[power]}`;
}

function duration(seconds) {
  if (!known(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds.toFixed(1)} s`;
  if (seconds < 5400) return `${(seconds / 60).toFixed(1)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// Shapes around a point, so that colour is never the only difference.
const SHAPES = ["circle", "square", "triangle", "diamond", "cross", "down"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2"];

function shape(kind, x, y, size, attributes) {
  const s = size;
  const paths = {
    square: `M${x - s} ${y - s}h${2 * s}v${2 * s}h${-2 * s}z`,
    triangle: `M${x} ${y - 1.25 * s}L${x + 1.15 * s} ${y + 0.8 * s}H${x - 1.15 * s}z`,
    down: `M${x} ${y + 1.25 * s}L${x + 1.15 * s} ${y - 0.8 * s}H${x - 1.15 * s}z`,
    diamond: `M${x} ${y - 1.35 * s}L${x + 1.35 * s} ${y}L${x} ${y + 1.35 * s}L${x - 1.35 * s} ${y}z`,
    cross: `M${x - s} ${y - s / 2.4}h${s * 0.58}v${-s * 0.58}h${s * 0.84}v${s * 0.58}h${s * 0.58}v${s * 0.84}h${-s * 0.58}v${s * 0.58}h${-s * 0.84}v${-s * 0.58}h${-s * 0.58}z`,
  };
  if (kind === "circle") return svg("circle", { cx: x, cy: y, r: s, ...attributes });
  return svg("path", { d: paths[kind], ...attributes });
}

function swatch(colour, kind, dash = "") {
  const line = svg("line", {
    x1: 0,
    x2: 22,
    y1: 6,
    y2: 6,
    style: `stroke:${colour}`,
    "stroke-width": 2,
    "stroke-dasharray": dash,
  });
  return svg(
    "svg",
    { width: 22, height: 12, class: "swatch", "aria-hidden": "true" },
    line,
    shape(kind, 11, 6, 3.6, { style: `fill:${colour}` }),
  );
}
