// Points: accuracies of clients, bubbles of a split, embeddings.

const quantile = (sorted, share) => {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(sorted.length - 1, low + 1)] - sorted[low]) * (at - low);
};
const scatterOf = (number) => ((number * 0.6180339887) % 1) - 0.5; // the same place in every drawing

// One row a series: a dot for each client, a box for the middle half, the mean as a diamond.
function stripChart(name, label, series) {
  const rowHeight = 64;
  return drawing(name, label, (width) => {
    const values = series.flatMap((one) => one.y);
    const { picture, across } = axes({
      width,
      height: series.length * rowHeight + 46,
      left: 14,
      right: 18,
      top: 4,
      x: { limits: around(values, 0, 100), name: "test accuracy of a client (%)" },
    });
    series.forEach((one, row) => {
      const middle = row * rowHeight + 42;
      const style = `fill:${one.colour}`;
      const sorted = one.y.filter(known).sort((a, b) => a - b);
      if (!sorted.length) return;
      const [q1, q2, q3] = [0.25, 0.5, 0.75].map((share) => quantile(sorted, share));
      const mean = sum(sorted) / sorted.length;
      picture.append(svg("text", { x: 14, y: middle - 21, class: "halo" }, `${shortest(one.label, 40)}`));
      picture.append(
        svg("rect", {
          x: across(q1),
          y: middle - 14,
          width: Math.max(1, across(q3) - across(q1)),
          height: 28,
          style,
          opacity: 0.16,
          rx: 3,
        }),
      );
      picture.append(
        svg("line", {
          x1: across(q2),
          x2: across(q2),
          y1: middle - 14,
          y2: middle + 14,
          style: `stroke:${one.colour}`,
          "stroke-width": 2.5,
        }),
      );
      one.y.forEach((value, i) => {
        if (known(value))
          picture.append(
            mark(
              svg("circle", {
                cx: across(value),
                cy: middle + scatterOf(i + 1) * 24,
                r: 3.2,
                style,
                opacity: 0.6,
              }),
              `${one.label}\nclient ${one.ids[i]}: ${percent(value, 1)}`,
            ),
          );
      });
      picture.append(
        mark(
          shape("diamond", across(mean), middle, 5, { style: "fill:var(--ink);stroke:var(--card)" }),
          `${one.label}\nmean ${percent(mean)}\nmedian ${percent(q2)}\nmiddle half ${percent(q1, 1)} to ${percent(q3, 1)}`,
        ),
      );
    });
    return picture;
  });
}

// rows: [{label, about, dots: [{label, colour, kind, value}]}]
function dotChart(name, label, rows) {
  return drawing(name, label, (width) => {
    const left = 12 + 6.6 * Math.max(...rows.map((row) => row.label.length));
    const values = rows.flatMap((row) => row.dots.map((dot) => dot.value));
    const { picture, across, box } = axes({
      width,
      height: rows.length * 30 + 52,
      left,
      x: { limits: around(values, 0, 100), name: "test accuracy (%)" },
    });
    rows.forEach((row, i) => {
      const y = i * 30 + 25;
      picture.append(
        svg("text", { x: left - 8, y: y + 4, "text-anchor": "end", class: "strong" }, row.label),
      );
      picture.append(svg("line", { class: "grid", x1: box.left, x2: box.right, y1: y, y2: y }));
      for (const [n, dot] of row.dots.entries()) {
        const apart = ((n + 0.5) / row.dots.length - 0.5) * 14; // equal values stay visible
        if (known(dot.value))
          picture.append(
            mark(
              shape(dot.kind, across(dot.value), y + apart, 4.2, {
                style: `fill:${dot.colour};stroke:var(--card)`,
              }),
              `${row.about}\n${dot.label}: ${percent(dot.value, 1)}`,
            ),
          );
      }
    });
    return picture;
  });
}

// Area of a bubble: number of samples.
function bubbleChart(name, label, classes, counts) {
  return drawing(name, label, (room) => {
    const names = classes.map((one) => shortest(one, 12));
    const left = 30 + 6.4 * Math.max(...names.map((one) => one.length));
    const width = Math.max(room, left + 14 + counts.length * 12);
    const rowHeight = classes.length > 30 ? 13 : 20;
    const { picture, across, up } = axes({
      width,
      height: classes.length * rowHeight + 56,
      left,
      x: { limits: [-0.7, counts.length - 0.3], name: "client", ticks: [] },
      y: { limits: [-0.7, classes.length - 0.3], name: "class", ticks: [] },
    });
    const cell = Math.min(across(1) - across(0), rowHeight);
    const most = Math.max(...counts.flat(), 1);
    const every = Math.ceil(22 / (across(1) - across(0)));
    names.forEach((one, c) =>
      picture.append(svg("text", { x: left - 7, y: up(c) + 4, "text-anchor": "end" }, one)),
    );
    counts.forEach((row, client) => {
      if (client % every === 0)
        picture.append(
          svg("text", { x: across(client), y: up(-0.7) + 15, "text-anchor": "middle" }, String(client)),
        );
      row.forEach((count, c) => {
        if (count)
          picture.append(
            mark(
              svg("circle", {
                cx: across(client),
                cy: up(c),
                r: Math.max(1, Math.sqrt(count / most) * cell * 0.62),
                style: "fill:var(--r0)",
                opacity: 0.75,
              }),
              `client ${client}, class ${classes[c]}\n${plain(count)} training samples`,
            ),
          );
      });
    });
    return picture;
  });
}

// classes: the names of all runs, which have one colour each. Samples as dots, local prototypes as triangles, global ones as labelled diamonds.
function embeddingChart(name, label, space, classes) {
  const number = space.classes.map((one) => classes.indexOf(one)); // runs may have other classes
  const colourOf = (set, i) =>
    `var(--k${(choice.colour === "class" || set.client[i] < 0 ? number[set.cls[i]] : set.client[i]) % 10})`;
  const hidden = (cls) => choice.classes.size > 0 && !choice.classes.has(space.classes[cls]);
  return drawing(name, label, (width) => {
    const size = Math.min(width, 560);
    const picture = svg("svg", { width, height: size, viewBox: `0 0 ${width} ${size}` });
    const sets = [space.samples, space.local, space.global];
    const [xs, ys] = [0, 1].map((axis) => sets.flatMap((set) => set.xy.map((point) => point[axis])));
    const middle = [xs, ys].map((values) => (Math.min(...values) + Math.max(...values)) / 2);
    const reach = Math.max(...[xs, ys].map((values) => Math.max(...values) - Math.min(...values)), 1e-6);
    const scale = (size - 36) / reach;
    const at = (point) => [
      width / 2 + (point[0] - middle[0]) * scale,
      size / 2 - (point[1] - middle[1]) * scale,
    ];
    const put = (set, draw) =>
      set.xy.forEach((point, i) => {
        const node = draw(...at(point), i);
        if (hidden(set.cls[i])) node.classList.add("faded");
        picture.append(node);
      });
    const about = (set, i, what) =>
      `${what}\nclass ${space.classes[set.cls[i]]}${set.client[i] >= 0 ? `, client ${set.client[i]}` : ""}`;
    put(space.samples, (x, y, i) =>
      mark(
        svg("circle", { cx: x, cy: y, r: 2.4, style: `fill:${colourOf(space.samples, i)}`, opacity: 0.6 }),
        about(space.samples, i, "test sample"),
      ),
    );
    put(space.local, (x, y, i) =>
      mark(
        shape("triangle", x, y, 4.6, {
          style: `fill:${colourOf(space.local, i)};stroke:var(--ink)`,
          "stroke-width": 0.9,
        }),
        about(space.local, i, "local prototype"),
      ),
    );
    put(space.global, (x, y, i) =>
      mark(
        shape("diamond", x, y, 7, {
          style: `fill:${colourOf(space.global, i)};stroke:var(--ink)`,
          "stroke-width": 2,
        }),
        about(space.global, i, "global prototype"),
      ),
    );
    const crowded = space.global.cls.length > 24 && !choice.classes.size;
    if (!crowded)
      put(space.global, (x, y, i) =>
        svg("text", { x: x + 11, y: y + 4, class: "halo" }, shortest(space.classes[space.global.cls[i]], 14)),
      );
    return picture;
  });
}
