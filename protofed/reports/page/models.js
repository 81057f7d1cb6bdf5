// What is seen in the models: embeddings, prototype margins.

// Panels side by side; one with `many` bars has the whole row.
function panels(runs, draw, many = () => false) {
  return el(
    "div",
    { class: "panels" },
    ...runs.map((pair) =>
      el("div", { class: many(pair) ? "whole" : null }, el("h4", {}, pair.run.name), draw(pair)),
    ),
  );
}

function embeddingsSection(report) {
  const runs = visible(report).filter(({ run }) => run.space);
  if (!runs.length) return [];
  const classes = [...new Set(runs.flatMap(({ run }) => run.space.classes))];
  const grey = (kind) => key("var(--soft)", 1, kind);
  const kinds = legend([
    { label: "test sample", swatch: grey("circle") },
    { label: "local prototype", swatch: grey("triangle") },
    { label: "global prototype", swatch: grey("diamond") },
  ]);
  const by = (name) => chip(choice.colour === name, "", () => (choice.colour = name), `colour by ${name}`);
  const one = (name, c) => {
    const sign = key(`var(--k${c % 10})`, 1, "circle");
    const alone = () => toggle(choice.classes, name);
    return chip(choice.classes.has(name), "show this class alone", alone, sign, shortest(name, 14));
  };
  const chips = el("div", { class: "chips" }, by("class"), by("client"), ...classes.map(one));
  const rows = () => [
    ["run", "what", "class", "client", "x", "y"],
    runs.flatMap(({ run }) =>
      ["local", "global"].flatMap((kind) =>
        run.space[kind].xy.map((xy, i) => [
          run.name,
          kind,
          run.space.classes[run.space[kind].cls[i]],
          run.space[kind].client[i] < 0 ? "server" : run.space[kind].client[i],
          ...xy,
        ]),
      ),
    ),
  ];
  const text =
    "t-SNE of test samples with the prototypes, each run for itself: near and far mean something, " +
    "directions and distances between groups do not. Choose classes to see them alone.";
  const draw = ({ run }) => embeddingChart("space", `t-SNE of ${run.name}`, run.space, classes);
  const parts = [kinds, chips, panels(runs, draw)];
  return section("embeddings", "Embeddings", [
    card("space", "Samples and prototypes", text, parts, rows, true),
  ]);
}

const short = (value) => plain(Number(value.toPrecision(3)));

function prototypesSection(report) {
  const margins = visible(report).filter(({ run }) => run.margins);
  return margins.length ? section("prototypes", "Prototypes", [marginCard(margins)]) : [];
}

function marginCard(runs) {
  const draw = ({ run, i }) => {
    const { classes, client, global } = run.margins;
    const own = { label: "largest margin at a client", colour: colourOfRun(i), opacity: 0.4, values: client };
    const all = { label: "margin of the global prototypes", colour: colourOfRun(i), values: global };
    const names = { xName: "class", yName: "margin (L2)", format: short };
    return groupedBars("margins", `margins of ${run.name}`, classes, global ? [own, all] : [own], names);
  };
  const row = (run, name, c) => {
    const [own, all] = [run.margins.client[c], run.margins.global && run.margins.global[c]];
    return [run.name, name, fixed(own), fixed(all), known(own) && known(all) ? fixed(all / own, 2) : "–"];
  };
  const rows = () => [
    ["run", "class", "largest at a client", "global", "ratio"],
    runs.flatMap(({ run }) => run.margins.classes.map((name, c) => row(run, name, c))),
  ];
  const text =
    "Distance of a class's prototype to the nearest of another class. At a client: among its own prototypes, " +
    "the largest over clients. Global: among the server's prototypes, where the method has any.";
  const keys = [{ label: "largest at a client", swatch: key("var(--soft)", 0.45) }];
  if (runs.some(({ run }) => run.margins.global))
    keys.push({ label: "global", swatch: key("var(--soft)", 1) });
  const drawn = panels(runs, draw, ({ run }) => run.margins.classes.length > 20);
  return card("margin", "Prototype margins", text, [legend(keys), drawn], rows, true);
}
