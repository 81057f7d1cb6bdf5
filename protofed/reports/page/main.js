// Sections that need the models, costs and settings; then the page as a whole, once or live.

// Panels side by side; one with `many` bars has the whole row.
function panels(runs, draw, many = () => false) {
  return el("div", { class: "panels" }, ...runs.map((pair) => el("div", { class: many(pair) ? "whole" : null }, el("h4", {}, pair.run.name), draw(pair))));
}

function embeddingsSection(report) {
  const runs = visible(report).filter(({ run }) => run.space);
  if (!runs.length) return [];
  const classes = [...new Set(runs.flatMap(({ run }) => run.space.classes))];
  const kinds = legend([["circle", "test sample"], ["triangle", "local prototype"], ["diamond", "global prototype"]].map(([kind, label]) => ({ label, swatch: svg("svg", { width: 14, height: 14 }, shape(kind, 7, 7, 4.5, { style: "fill:var(--soft)" })) })));
  const by = (name) => el("button", { type: "button", "aria-pressed": String(choice.colour === name), on: { click: () => { choice.colour = name; redrawAll(); } } }, `colour by ${name}`);
  const one = (name, c) => el("button", {
    type: "button", "aria-pressed": String(choice.classes.has(c)), title: "show this class alone",
    on: { click: () => { if (!choice.classes.delete(c)) choice.classes.add(c); redrawAll(); } },
  }, svg("svg", { width: 10, height: 10 }, svg("circle", { cx: 5, cy: 5, r: 5, style: `fill:var(--k${c % 10})` })), name);
  const chips = el("div", { class: "chips" }, by("class"), by("client"), ...classes.map((name, c) => one(shortest(name, 14), c)));
  const rows = () => [["run", "what", "class", "client", "x", "y"], runs.flatMap(({ run }) => ["local", "global"].flatMap((kind) => run.space[kind].xy.map((xy, i) => [run.name, kind, run.space.classes[run.space[kind].cls[i]], run.space[kind].client[i] < 0 ? "server" : run.space[kind].client[i], ...xy])))];
  const text = "t-SNE of test samples with the prototypes, each run for itself: near and far mean something, directions and distances between groups do not. Choose classes to see them alone.";
  return [el("h2", { id: "embeddings" }, "Embeddings"), el("div", { class: "cards" },
    card("space", "Samples and prototypes", text, [kinds, chips, panels(runs, ({ run }) => embeddingChart("space", `t-SNE of ${run.name}`, run.space))], rows, true))];
}

function prototypesSection(report) {
  const margins = visible(report).filter(({ run }) => run.margins);
  const attention = visible(report).filter(({ run }) => run.attention);
  const cards = [];
  if (margins.length) {
    const draw = ({ run, i }) => groupedBars("margins", `margins of ${run.name}`, run.margins.classes, [
      { label: "largest margin at a client", colour: colourOfRun(i), opacity: 0.4, values: run.margins.client },
      ...(run.margins.global ? [{ label: "margin of the global prototypes", colour: colourOfRun(i), values: run.margins.global }] : []),
    ], { xName: "class", yName: "margin (L2)", format: (v) => plain(Number(v.toPrecision(3))) });
    const rows = () => [["run", "class", "largest at a client", "global", "ratio"], margins.flatMap(({ run }) => run.margins.classes.map((name, c) => {
      const [own, all] = [run.margins.client[c], run.margins.global && run.margins.global[c]];
      return [run.name, name, fixed(own), fixed(all), known(own) && known(all) ? fixed(all / own, 2) : "–"];
    }))];
    const text = "Distance of a class's prototype to the nearest of another class. At a client: among its own prototypes, the largest over clients. Global: among the server's prototypes, where the method has any.";
    const keys = legend([{ label: "largest at a client", swatch: key("var(--soft)", 0.45) }, { label: "global", swatch: key("var(--soft)", 1) }]);
    cards.push(card("margin", "Prototype margins", text, [keys, panels(margins, draw, ({ run }) => run.margins.classes.length > 20)], rows, true));
  }
  if (attention.length) {
    const draw = ({ run, i }) => groupedBars("attention", `weights of the clients of ${run.name}`, run.attention.clients.map(String), [
      { label: "weight", colour: colourOfRun(i), opacity: 0.75, values: run.attention.weights },
    ], {
      xName: "client", yName: "weight in the average", format: (v) => plain(Number(v.toPrecision(3))),
      marks: [{ label: "share of the samples", colour: "var(--ink)", kind: "diamond", values: run.attention.shares }],
      level: { value: 1 / run.attention.clients.length, label: "equal weights" },
    });
    const rows = () => [["run", "client", "weight", "share of the samples"], attention.flatMap(({ run }) => run.attention.clients.map((k, n) => [run.name, k, fixed(run.attention.weights[n], 4), fixed(run.attention.shares[n], 4)]))];
    const keys = legend([{ label: "weight", swatch: key("var(--soft)", 0.75) }, { label: "share of the samples (FedAvg's weight)", swatch: key("var(--ink)", 1, "diamond") }]);
    cards.push(card("weights", "Attention", "Weight of each participant of the last round in the average.", [keys, panels(attention, draw)], rows, true));
  }
  return cards.length ? [el("h2", { id: "prototypes" }, "Prototypes"), el("div", { class: "cards" }, ...cards)] : [];
}

// cost

function costSection(report) {
  const runs = visible(report).filter(({ run }) => run.rounds.round.length);
  if (!runs.length) return [];
  const bars = (parts) => runs.map(({ run, i }) => ({ label: run.name, colour: colourOfRun(i), parts: parts(run.rounds) }));
  const sent = bars((r) => [{ label: "up", value: sum(r.up) }, { label: "down", value: sum(r.down) }, { label: "counts and labels", value: sum(r.up_meta) + sum(r.down_meta) }]);
  const time = bars((r) => [{ label: "rounds", value: sum(r.seconds) }, { label: "tests", value: sum(r.test_seconds) }]);
  const keys = (...labels) => legend(labels.map((label, i) => ({ label, swatch: key("var(--soft)", PALER[i]) })));
  const each = (values) => sum(values) / values.length;
  const sentRows = () => [["run", "up, parameters a round", "down, parameters a round", "up", "down", "counts and labels", "on the wire"], runs.map(({ run: { name, rounds: r } }) => [name, plain(Math.round(each(r.up_params))), plain(Math.round(each(r.down_params))), bytes(sum(r.up)), bytes(sum(r.down)), bytes(sum(r.up_meta) + sum(r.down_meta)), r.up_wire.some(known) ? bytes(sum(r.up_wire) + sum(r.down_wire)) : "–"])];
  const timeRows = () => [["run", "rounds", "a round", "slowest round", "tests", "clients left out"], runs.map(({ run: { name, rounds: r } }) => [name, duration(sum(r.seconds)), duration(each(r.seconds)), duration(Math.max(...r.seconds)), duration(sum(r.test_seconds)), sum(r.failed)])];
  return [el("h2", { id: "cost" }, "Cost"), el("div", { class: "cards" },
    card("sent", "Communication", "Sum over rounds and clients.", [keys("parameters up", "parameters down", "counts and class labels"), stackedBars("sent", "bytes sent", sent, { xName: "bytes sent", format: bytes })], sentRows),
    card("time", "Time", "Wall clock of the run.", [keys("rounds: training and server", "tests"), stackedBars("time", "time", time, { xName: "time", format: duration })], timeRows),
  )];
}

function settingsSection(report) {
  const keys = [...new Set(report.runs.flatMap((run) => Object.keys(run.config)))];
  const show = (value) => (value === null || value === undefined ? "–" : String(value));
  const differs = (key) => new Set(report.runs.map((run) => show(run.config[key]))).size > 1;
  const row = (key) => [el("td", {}, key), ...report.runs.map((run) => el("td", {}, show(run.config[key])))];
  const columns = ["setting", ...report.runs.map((run) => run.name)];
  const different = keys.filter(differs);
  const same = keys.filter((key) => !differs(key)).map((key) => [el("td", {}, key), el("td", {}, show(report.runs[0].config[key]))]);
  const parts = different.length ? [table(columns, different.map(row), "settings")] : [];
  const rest = details("settings-same", different.length ? "Settings that are equal in all runs" : "All settings", () => table(["setting", "value"], same, "settings"));
  const text = "As resolved when the run began; `protofed run config.json` of a run directory repeats it.";
  const paths = table(["run", "directory"], report.runs.map((run) => [el("td", {}, run.name), el("td", {}, run.path)]), "settings");
  return [el("h2", { id: "settings" }, "Settings"), el("div", { class: "cards" }, card("config", "Configuration", text, [...parts, paths, rest], null, true))];
}

// the page

function header(report, state) {
  const names = report.runs.map((run) => run.name);
  const same = (key) => new Set(report.runs.map((run) => String(run.config[key]))).size === 1;
  const common = ["data", "partition", "models", "clients", "rounds.rounds", "seed"].filter(same);
  const setting = common.map((key) => `${key.split(".").pop()} ${report.runs[0].config[key]}`).join(" · ");
  const links = [...document.querySelectorAll("main h2")].map((h) => el("a", { href: `#${h.id}` }, h.textContent));
  const done = report.runs[0];
  const progress = state ? el("p", {}, el("span", { class: state === "live" ? "pill on" : "pill" }, state), " ", el("progress", { max: done.planned, value: done.rounds.round.length }), ` round ${done.rounds.round.length} of ${done.planned}`) : null;
  const notes = report.runs.flatMap((run) => run.notes.map((note) => el("p", { class: "note" }, `${run.name}: ${note}`)));
  const half = report.runs.filter((run) => run.state !== "finished" && !state).map((run) => el("p", { class: "note" }, `${run.name}: ${run.rounds.round.length} of ${run.planned} rounds done`));
  document.getElementById("top").replaceChildren(...[el("h1", {}, names.length > 4 ? `${names.length} runs compared` : names.join(" · ")), el("p", { class: "soft" }, setting), progress, ...half, ...notes, el("nav", {}, ...links)].filter(Boolean));
  document.getElementById("end").replaceChildren(el("p", { class: "soft" }, `protofed ${report.version}, ${report.made}`));
}

function drawPage(report, state = "") {
  const y = scrollY;
  hideTip();
  forgetDrawings();
  if (choice.mode !== null && !(choice.mode in report.modes)) choice.mode = null;
  const sections = [resultsSection, (r) => [modeBar(r)], accuracySection, clientsSection, dataSection, embeddingsSection, prototypesSection, costSection, settingsSection];
  document.getElementById("page").replaceChildren(...sections.flatMap((section) => section(report)));
  header(report, state);
  placeDrawings();
  scrollTo(0, y);
  redrawAll = () => drawPage(report, state);
  document.documentElement.dataset.ready = "true";
}

const stateOf = (report) => (report.live ? "live" : "finished");

async function follow(text) {
  let last = text;
  for (;;) {
    await new Promise((wake) => { setTimeout(wake, 1000); });
    let next;
    try {
      next = await (await fetch("data.json", { cache: "no-store" })).text();
    } catch {
      drawPage(JSON.parse(last), "server ended");
      return;
    }
    const report = JSON.parse(next);
    if (next !== last) drawPage(report, stateOf(report));
    last = next;
    if (!report.live) return;
  }
}

const embeddedText = document.getElementById("data").textContent;
const live = document.body.dataset.live === "true";
const first = JSON.parse(embeddedText);
drawPage(first, live ? stateOf(first) : "");
if (live && first.live) follow(embeddedText);
