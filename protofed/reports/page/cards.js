// Cards: charts with their legend and table, written tables, explained terms.

function table(columns, rows, { words = [0], groups = [], strong } = {}) {
  const kind = (i) => (words.includes(i) ? "text" : null);
  const head = columns.map((name, i) => el("th", { scope: "col", class: kind(i) }, name));
  const cell = (value, i, row) => {
    const group = page.groups[groups[row]];
    const before = group && i === 0 ? sign(group, true) : null;
    return el("td", { class: group && i === strong ? "best" : kind(i) }, before, String(value ?? "–"));
  };
  const body = rows.map((row, n) => el("tr", {}, ...row.map((value, i) => cell(value, i, n))));
  const all = words.length === columns.length ? "settings" : null;
  const inner = el("table", { class: all }, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body));
  return el("div", { class: "scroll" }, inner);
}

// Folded content that is made when it is first opened, and stays open when the page is drawn anew.
function details(id, title, content) {
  const node = el("details", { open: choice.open.has(id) ? "" : null }, el("summary", {}, title));
  const fillIt = () => {
    if (node.children.length === 1) node.append(content());
  };
  if (node.open) fillIt();
  node.addEventListener("toggle", () => {
    if (node.open) fillIt();
    choice.open[node.open ? "add" : "delete"](id);
  });
  return node;
}

const drawings = new Set();
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries)
    if (target.isConnected && target.clientWidth !== target.drawnWidth) target.redraw();
});

// A drawing that is made for the width it has.
function drawing(chart) {
  const node = el("figure", { class: "chart scroll", "data-chart": chart.name });
  node.redraw = () => {
    node.drawnWidth = node.clientWidth;
    const picture = { lines, bars, points }[chart.kind](chart, Math.max(240, node.clientWidth));
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", [chart.title, chart.panel].filter(Boolean).join(", "));
    node.replaceChildren(picture);
    node.dataset.marks = picture.querySelectorAll(".mark").length;
  };
  drawings.add(node);
  return node;
}

function card({ title, text, charts = [], tables = [], terms, wide }) {
  const node = el("section", { class: wide ? "card wide" : "card", "aria-label": title });
  const possible = charts.filter(chosen);
  const drawn = possible.filter(shown).map(current);
  const notes = [text, ...new Set(drawn.map((chart) => chart.note).filter(Boolean))];
  node.append(el("h3", {}, title), ...notes.map((note) => el("p", { class: "soft" }, note)));
  if (charts.length) node.append(legend(possible), ...chips(possible), ...panels(drawn));
  if (drawn.length) node.append(details(`${title} table`, "Table", () => table(...tableOf(drawn))));
  tables.forEach((one, n) => {
    const make = () => table(one.columns, one.rows, one);
    node.append(one.folded ? details(`${title} ${n}`, one.folded, make) : make());
  });
  const explain = ([term, line]) => [el("dt", {}, term), el("dd", {}, line)];
  if (terms) node.append(el("dl", {}, ...Object.entries(terms).flatMap(explain)));
  return node;
}

// Several charts stand side by side under their titles; one with many names has the whole row.
function panels(charts) {
  if (charts.length && !charts[0].panel) return charts.map(drawing);
  const whole = (chart) => (chart.x.names || []).length > 20;
  const panel = (chart) =>
    el("div", { class: whole(chart) ? "whole" : null }, el("h4", {}, chart.panel), drawing(chart));
  return [el("div", { class: "panels" }, ...charts.map(panel))];
}

// A button that changes what is shown.
function chip(pressed, title, change, ...inside) {
  const click = () => {
    change();
    redrawAll();
  };
  return el("button", { type: "button", "aria-pressed": String(pressed), title, on: { click } }, ...inside);
}

// Groups can be hidden, wherever they are; other series are only named.
function legend(charts) {
  const written = (chart) => new Set((chart.y.names || []).map((name) => name.label)); // beside the marks
  const series = charts.flatMap((chart) =>
    chart.series
      .filter((one) => one.label && !one.single && !written(chart).has(one.label))
      .map((one) => ({ ...one, lined: chart.kind === "lines" })),
  );
  const grouped = new Set(series.map((one) => one.group).filter(known));
  const entries = [...grouped].map((number) => {
    const group = page.groups[number];
    const found = series.find((one) => one.group === number && chosen(one));
    const inside = [sign(group, true), found ? found.label : `${group.label} (none)`];
    const change = () => toggle(choice.hidden, number);
    return chip(!choice.hidden.has(number), "show or hide", change, ...inside);
  });
  const plain = series.filter((one) => !known(one.group) && chosen(one));
  const named = new Map(plain.filter((one) => one.shape || !known(one.level)).map((one) => [one.label, one]));
  for (const one of named.values())
    entries.push(el("span", {}, sign({ ...one, colour: one.colour || "soft" }, one.lined), one.label));
  return el("div", { class: "legend" }, ...entries);
}

// Where marks are coloured by a field: which one, and names to see alone.
function chips(charts) {
  const [first] = charts.filter((chart) => chart.colour_by);
  if (!first) return [];
  const fields = first.colour_by;
  const now = fields.includes(choice.colour) ? choice.colour : fields[0];
  const by = (field) => chip(field === now, "", () => (choice.colour = field), `colour by ${field}`);
  const alone = (name, i) => {
    const inside = [sign({ colour: `k${i % 10}`, shape: "circle" }), shortest(name, 14)];
    const change = () => toggle(choice.only, name);
    return chip(choice.only.has(name), `show this ${fields[0]} alone`, change, ...inside);
  };
  return [el("div", { class: "chips" }, ...fields.map(by), ...first.names[fields[0]].map(alone))];
}
