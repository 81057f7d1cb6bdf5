// What all charts share: cards with a drawing, a legend and a table; axes; the floating text.

const choice = {
  mode: null,
  band: false,
  hidden: new Set(),
  colour: "class",
  classes: new Set(),
  open: new Set(),
};
let redrawAll = () => {};

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
const tells = (text) => ({
  pointerenter: (event) => showTip(event, text),
  pointermove: (event) => showTip(event, text),
  pointerleave: hideTip,
});

// A mark: something that stands for data. Tests count them.
function mark(node, text) {
  node.classList.add("mark");
  if (text) for (const [event, act] of Object.entries(tells(text))) node.addEventListener(event, act);
  return node;
}

function table(columns, rows, kind = "") {
  const text = (i) =>
    rows.length > 0 && rows.every((row) => row[i] instanceof Node && row[i].classList.contains("text"));
  const head = el(
    "tr",
    {},
    ...columns.map((name, i) => el("th", { scope: "col", class: text(i) ? "text" : null }, name)),
  );
  const cell = (value) =>
    value instanceof Node ? value : el("td", {}, value === null || value === undefined ? "–" : String(value));
  const body = rows.map((row) => el("tr", {}, ...row.map(cell)));
  return el(
    "div",
    { class: "scroll" },
    el("table", { class: kind }, el("thead", {}, head), el("tbody", {}, ...body)),
  );
}

function details(id, title, content) {
  const node = el("details", { open: choice.open.has(id) ? "" : null }, el("summary", {}, title));
  const fill = () => {
    if (node.children.length === 1) node.append(content());
  };
  if (node.open) fill();
  node.addEventListener("toggle", () => {
    if (node.open) {
      choice.open.add(id);
      fill();
    } else choice.open.delete(id);
  });
  return node;
}

const drawings = new Set();
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries)
    if (target.isConnected && target.clientWidth !== target.drawnWidth) target.redraw();
});

// A drawing that is made for the width it has: `draw(width)` gives an svg element.
function drawing(name, label, draw) {
  const node = el("figure", { class: "chart scroll", "data-chart": name });
  node.redraw = () => {
    node.drawnWidth = node.clientWidth;
    const picture = draw(Math.max(240, node.clientWidth));
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", label);
    node.replaceChildren(picture);
    node.dataset.marks = picture.querySelectorAll(".mark").length;
  };
  drawings.add(node);
  return node;
}

function placeDrawings() {
  for (const node of drawings) {
    node.redraw();
    watcher.observe(node);
  }
}

function forgetDrawings() {
  watcher.disconnect();
  drawings.clear();
}

// `tableOf` gives [columns, rows].
function card(id, title, text, parts, tableOf, wide = false) {
  const node = el("section", { class: wide ? "card wide" : "card", id, "aria-label": title });
  node.append(el("h3", {}, title), el("p", { class: "soft" }, text), ...parts.filter(Boolean));
  if (tableOf) node.append(details(`${id}-table`, "Table", () => table(...tableOf())));
  return node;
}

const section = (id, title, cards) => [el("h2", { id }, title), el("div", { class: "cards" }, ...cards)];

// A button that changes what is shown.
function chip(pressed, title, change, ...inside) {
  const click = () => {
    change();
    redrawAll();
  };
  return el("button", { type: "button", "aria-pressed": String(pressed), title, on: { click } }, ...inside);
}

const toggle = (set, value) => set.delete(value) || set.add(value);

function legend(items) {
  return el(
    "div",
    { class: "legend" },
    ...items.map((item) => {
      const inside = [item.swatch, item.label];
      return item.change ? chip(!item.off, item.title, item.change, ...inside) : el("span", {}, ...inside);
    }),
  );
}

// The sign of a bar or a point in a legend.
const key = (colour, opacity, kind = "square") =>
  svg(
    "svg",
    { width: 14, height: 14, "aria-hidden": "true" },
    shape(kind, 7, 7, 5, { style: `fill:${colour}`, opacity }),
  );

const shortest = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Axes with grid, ticks and names. Gives the picture and its scales.
function axes({ width, height, left = 56, right = 14, top = 10, bottom = 40, x, y }) {
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const box = { left, right: width - right, top, bottom: height - bottom };
  const across = (x.log ? logarithmic : linear)(x.limits, [box.left, box.right], {
    room: x.format ? 64 : 44,
    whole: x.whole,
  });
  const up = y ? linear(y.limits, [box.bottom, box.top]) : null;
  for (const tick of x.ticks || across.ticks) {
    const at = across(tick);
    picture.append(svg("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: box.bottom }));
    picture.append(
      svg("text", { x: at, y: box.bottom + 15, "text-anchor": "middle" }, (x.format || plain)(tick)),
    );
  }
  for (const tick of up ? y.ticks || up.ticks : []) {
    const at = up(tick);
    picture.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }));
    picture.append(
      svg("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }, (y.format || plain)(tick)),
    );
  }
  picture.append(svg("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  const middle = (box.left + box.right) / 2;
  picture.append(svg("text", { x: middle, y: height - 6, "text-anchor": "middle", class: "strong" }, x.name));
  if (y && y.name) {
    const turn = `translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)`;
    picture.append(svg("text", { transform: turn, "text-anchor": "middle", class: "strong" }, y.name));
  }
  return { picture, across, up, box };
}
