// Bars: grouped and upright (per class, per client), stacked and lying (per run), histograms.

// groups: names on the x axis; bars: [{label, colour, values, opacity}]; lines: [{label, value}]
function groupedBars(name, label, groups, bars, { xName, yName, format, marks = [], level = null }) {
  return drawing(name, label, (room) => {
    const width = Math.max(room, 62 + groups.length * (bars.length * 5 + 5));
    const all = [...bars, ...marks].flatMap((bar) => bar.values);
    const { picture, across, up, box } = axes({
      width,
      height: 235,
      x: { limits: [-0.5, groups.length - 0.5], name: xName, ticks: [] },
      y: { limits: [0, around(all, 0)[1]], name: yName, format },
    });
    const slot = across(1) - across(0);
    const thick = Math.min(26, (slot * 0.76) / bars.length);
    const every = Math.ceil((7 * Math.max(...groups.map((g) => shortest(g, 9).length)) + 6) / slot);
    groups.forEach((group, i) => {
      if (i % every === 0)
        picture.append(
          svg("text", { x: across(i), y: box.bottom + 15, "text-anchor": "middle" }, shortest(group, 9)),
        );
      bars.forEach((bar, b) => {
        if (!known(bar.values[i])) return;
        const x = across(i) + (b - bars.length / 2) * thick;
        const y = up(bar.values[i]);
        picture.append(
          mark(
            svg("rect", {
              x: x + 0.5,
              y,
              width: Math.max(1, thick - 1),
              height: Math.max(0.5, box.bottom - y),
              style: `fill:${bar.colour}`,
              opacity: bar.opacity || 1,
              rx: 1.5,
            }),
            `${xName} ${group}\n${bar.label}: ${format(bar.values[i])}`,
          ),
        );
      });
      for (const dot of marks) {
        if (known(dot.values[i]))
          picture.append(
            mark(
              shape(dot.kind, across(i), up(dot.values[i]), 4, {
                style: `fill:${dot.colour};stroke:var(--card)`,
              }),
              `${xName} ${group}\n${dot.label}: ${format(dot.values[i])}`,
            ),
          );
      }
    });
    if (level) {
      const at = up(level.value);
      picture.append(
        svg("line", {
          x1: box.left,
          x2: box.right,
          y1: at,
          y2: at,
          style: "stroke:var(--ink)",
          "stroke-dasharray": "5 4",
        }),
      );
      picture.append(
        svg("text", { x: box.right, y: at - 5, "text-anchor": "end", class: "halo" }, level.label),
      );
    }
    return picture;
  });
}

// rows: [{label, colour, parts: [{label, value}]}]; later parts are paler.
const PALER = [1, 0.5, 0.25];
function stackedBars(name, label, rows, { xName, format }) {
  return drawing(name, label, (width) => {
    const most = Math.max(...rows.map((row) => sum(row.parts.map((p) => p.value))), 1e-9);
    const height = rows.length * 44 + 50;
    const { picture, across } = axes({
      width,
      height,
      left: 14,
      right: 30,
      x: { limits: [0, most], name: xName, format },
    });
    rows.forEach((row, i) => {
      const y = i * 44 + 28;
      const total = sum(row.parts.map((part) => part.value));
      picture.append(
        svg("text", { x: 14, y: y - 5, class: "halo" }, `${shortest(row.label, 34)}  ${format(total)}`),
      );
      let from = 0;
      row.parts.forEach((part, p) => {
        const [x, end] = [across(from), across(from + part.value)];
        picture.append(
          mark(
            svg("rect", {
              x,
              y,
              width: Math.max(part.value ? 1.2 : 0, end - x - 0.5),
              height: 16,
              rx: 2,
              style: `fill:${row.colour}`,
              opacity: PALER[p],
            }),
            `${row.label}\n${part.label}: ${format(part.value)}`,
          ),
        );
        from += part.value;
      });
    });
    return picture;
  });
}

// series: [{label, colour, dash, values}] over bins of equal width from 0 on, laid over each other.
function histogram(name, label, series, binWidth, { xName, yName }) {
  return drawing(name, label, (width) => {
    const bins = series[0].values.length;
    const { picture, across, up, box } = axes({
      width,
      height: Math.max(230, Math.min(320, width * 0.62)),
      x: { limits: [0, bins * binWidth], name: xName },
      y: { limits: [0, around(series.flatMap((one) => one.values), 0)[1]], name: yName },
    });
    for (const one of series) {
      one.values.forEach((value, bin) => {
        if (!value) return;
        const [left, right] = [across(bin * binWidth), across((bin + 1) * binWidth)];
        const place = { x: left, y: up(value), width: right - left, height: box.bottom - up(value) };
        const range = `${fixed(bin * binWidth, 4)} to ${fixed((bin + 1) * binWidth, 4)}`;
        const style = `fill:${one.colour}`;
        const text = `${one.label}\n${range}: ${percent(value, 1)}`;
        picture.append(mark(svg("rect", { ...place, style, opacity: 0.35 }), text));
      });
      const steps = one.values.flatMap((value, bin) => [
        `${across(bin * binWidth)} ${up(value)}`,
        `${across((bin + 1) * binWidth)} ${up(value)}`,
      ]);
      const style = `stroke:${one.colour}`;
      const outline = { d: `M${steps.join("L")}`, style, fill: "none", "stroke-width": 1.6 };
      picture.append(svg("path", { ...outline, "stroke-dasharray": one.dash }));
    }
    return picture;
  });
}
