const trials = kind("trial");
const metric = report.metric;
const more = data.better[metric] !== false;
const ink = "currentColor", accent = "var(--accent)", soft = "var(--soft)", line = "var(--line)";

function spread(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}

const about = (trial) =>
  `trial ${trial.number}: ${figure(trial.values[metric])}` +
  (trial.complete ? "" : `, stopped after ${trial.seen}`) + `\n${trial.choices.slice(0, 160)}`;

const charts = {
  history(width) {
    const held = trials.filter((trial) => typeof trial.values[metric] === "number");
    const best = held.filter((trial) => typeof trial.best === "number");
    return {
      width, height: 280, marginLeft: 52, marginBottom: 38,
      x: { label: "trial", ticks: Math.min(held.length, Math.floor(width / 60)), tickFormat: (n) => (Number.isInteger(n) ? String(n) : "") },
      y: { label: metric, grid: true, domain: spread(held.map((trial) => trial.values[metric])), nice: true },
      marks: [
        Plot.line(best, { x: "number", y: "best", stroke: accent, strokeWidth: 1.5, curve: "step-after" }),
        Plot.dot(held.filter((trial) => !trial.complete), { x: "number", y: (trial) => trial.values[metric], r: 3.5, stroke: soft, strokeOpacity: 0.8 }),
        Plot.dot(held.filter((trial) => trial.complete), { x: "number", y: (trial) => trial.values[metric], r: 4, fill: ink }),
        Plot.dot(held.filter((trial) => trial.chosen), { x: "number", y: (trial) => trial.values[metric], r: 7, stroke: accent, strokeWidth: 2 }),
        Plot.tip(held, Plot.pointer({ x: "number", y: (trial) => trial.values[metric], title: about })),
      ],
    };
  },
  front(width) {
    const [first, second] = Object.keys(report.objectives);
    const held = trials.filter((trial) => trial.complete && [first, second].every((name) => typeof trial.values[name] === "number"));
    if (!held.length) return null;
    const x = (trial) => trial.values[first], y = (trial) => trial.values[second];
    const front = held.filter((trial) => trial.front).sort((one, other) => x(one) - x(other));
    return {
      width: Math.min(width, 620), height: 340, marginLeft: 60, marginBottom: 42,
      x: { label: `${first} (${report.objectives[first] ? "more" : "less"} is better)`, grid: true, nice: true, domain: spread(held.map(x)) },
      y: { label: `${second} (${report.objectives[second] ? "more" : "less"} is better)`, grid: true, nice: true, domain: spread(held.map(y)) },
      marks: [
        Plot.line(front, { x, y, stroke: accent, strokeWidth: 1.5 }),
        Plot.dot(held.filter((trial) => !trial.front), { x, y, r: 3.5, stroke: soft }),
        Plot.dot(front, { x, y, r: 4.5, fill: accent }),
        Plot.tip(held, Plot.pointer({ x, y, title: (trial) => `trial ${trial.number}: ${figure(x(trial))}, ${figure(y(trial))}\n${trial.choices.slice(0, 160)}` })),
      ],
    };
  },
  importance(width) {
    const held = kind("importance").slice(0, 12);
    return {
      width: Math.min(width, 620), height: 34 + 26 * held.length, marginLeft: 140, marginBottom: 30,
      x: { label: "share", domain: [0, Math.max(0.01, ...held.map((one) => one.share))], grid: true },
      y: { label: null, domain: held.map((one) => one.dimension), tickFormat: (name) => shorten(name, 20) },
      marks: [Plot.barX(held, { x: "share", y: "dimension", fill: accent, insetTop: 4, insetBottom: 4 })],
    };
  },
  scores(width, id) {
    const split = id.slice("scores-".length);
    const held = kind("score").filter((one) => one.split === split && one.low >= -1e-9 && one.high <= 1 + 1e-9);
    const runs = [...new Set(held.map((one) => one.run))];
    const names = [...new Set(held.map((one) => one.metric))];
    if (!held.length || runs.length > 6) return null;
    const last = runs[runs.length - 1];
    const colour = (one) => (one.run === last && runs.length > 1 ? accent : soft);
    return {
      width: Math.min(width, 760), height: 34 + names.length * (16 * runs.length + 12), marginLeft: 120, marginRight: 110, marginBottom: 30,
      x: { label: null, domain: [0, 1], grid: true },
      y: { label: null, domain: runs, axis: null },
      fy: { label: null, domain: names, axis: "left", tickFormat: (name) => shorten(name, 17) },
      facet: { marginLeft: 120 },
      marks: [
        Plot.ruleY(held, { fy: "metric", y: "run", x1: "low", x2: "high", stroke: colour, strokeWidth: 2 }),
        Plot.dot(held, { fy: "metric", y: "run", x: "mean", r: 4, fill: colour, stroke: "var(--page)" }),
        Plot.text(held, { fy: "metric", y: "run", x: "high", text: (one) => shorten(one.run, 16), textAnchor: "start", dx: 8, fill: colour }),
      ],
    };
  },
  threshold(width, id) {
    const one = rows[Number(id.slice("threshold-".length)) - 1];
    const points = one.points.map((x, index) => ({ x, y: one.means[index] }));
    const rule = (x, stroke, dash) => (typeof x === "number" ? [Plot.ruleX([x], { stroke, strokeDasharray: dash, strokeWidth: 1.5 })] : []);
    return {
      width: Math.min(width, 760), height: 240, marginLeft: 52, marginBottom: 38,
      x: { label: one.knob, nice: false },
      y: { label: one.metric, grid: true, nice: true, domain: spread(points.map((point) => point.y)) },
      marks: [
        ...rule(one.present, soft, "3 3"), ...rule(one.chosen, accent, null),
        Plot.line(points, { x: "x", y: "y", stroke: ink, curve: one.exact ? "step" : "linear" }),
        one.exact ? null : Plot.dot(points, { x: "x", y: "y", r: 3, fill: ink }),
        Plot.tip(points, Plot.pointer({ x: "x", y: "y", title: (point) => `${figure(point.x)}: ${figure(point.y)}` })),
      ],
    };
  },
};

const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function slice(width, name) {
  const held = trials.filter((trial) => trial.complete && typeof trial.values[metric] === "number");
  const value = (trial) => (name in trial.params ? trial.params[name] : "none");
  const numeric = held.every((trial) => typeof value(trial) === "number");
  const x = numeric ? value : (trial) => shorten(String(value(trial)), 14);
  const letters = numeric ? 0 : [...new Set(held.map(x))].join("").length;
  return {
    width, height: 180, marginLeft: 44, marginBottom: letters * 8 > width - 70 ? 56 : 34,
    x: { label: null, tickRotate: letters * 8 > width - 70 ? -35 : 0, ...(numeric ? { nice: true, ticks: 4 } : { type: "point", padding: 0.6 }) },
    y: { label: null, grid: true, domain: spread(held.map((trial) => trial.values[metric])), nice: true, ticks: 4 },
    marks: [
      Plot.dot(held, { x, y: (trial) => trial.values[metric], r: 4, fill: accent, fillOpacity: 0.75 }),
      Plot.tip(held, Plot.pointer({ x, y: (trial) => trial.values[metric], title: about })),
    ],
  };
}

function draw(frame, options) {
  if (!options) {
    frame.hidden = true;
    return;
  }
  const svg = Plot.plot({ style: "", ...options });
  // The whole is one image with a name; names of its parts are not allowed then, and would be read twice.
  for (const part of svg.querySelectorAll("[aria-label], [aria-hidden]")) {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-hidden");
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${frame.dataset.label || frame.id}; the table has the same figures`);
  frame.replaceChildren(svg);
}

function drawChart(frame) {
  const id = frame.dataset.chart, width = Math.max(280, frame.clientWidth);
  try {
    draw(frame, id === "slice" ? slice(Math.min(width, 340), frame.dataset.name) : (charts[id] || charts[id.slice(0, id.indexOf("-"))])(width, id));
  } catch (error) {
    frame.replaceChildren(node("p", { class: "quiet" }, `This chart cannot be drawn (${error.message}); its table has the figures.`));
  }
}

const slices = byId("slices");
if (slices) {
  const rank = new Map(kind("importance").map((one, index) => [one.dimension, index]));
  const names = [...new Set(kind("slice").map((one) => one.dimension))];
  names.sort((one, other) => (rank.get(one) ?? 99) - (rank.get(other) ?? 99));
  slices.append(...names.slice(0, 12).map((name) =>
    node("div", {}, node("h4", {}, bdi(name)), node("div", { class: "chart low", "data-chart": "slice", "data-name": name, "data-label": `${metric} by ${name}` }))));
}

// Charts are drawn when they come near, so that a page opens at once.
const frames = [...document.querySelectorAll("[data-chart]")];
const drawn = new Set();
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      near.unobserve(entry.target);
      drawn.add(entry.target);
      drawChart(entry.target);
    }
  }
}, { rootMargin: "300px" });
frames.forEach((frame) => near.observe(frame));
addEventListener("beforeprint", () => frames.forEach(drawChart));
let last = innerWidth, waiting = 0;
addEventListener("resize", () => {
  if (innerWidth === last) return;
  last = innerWidth;
  clearTimeout(waiting);
  waiting = setTimeout(() => drawn.forEach(drawChart), 120);
});
