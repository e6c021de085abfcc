const trials = kind("trial");
const metric = report.metric;
const more = isBetterHigh(metric);
const ink = "currentColor", accent = "var(--accent)", soft = "var(--soft)", line = "var(--line)";
const axis = (name) => `${name} (${direction(name)})`;

function spread(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const room = (high - low || Math.abs(high) || 1) * 0.08;
  return [low - room, high + room];
}

const valued = (trial, name = metric) => typeof trial.values[name] === "number";
/** What a dot says of its trial: score, interval, questions and settings. */
function about(trial) {
  const ends = (name) => (name === metric && typeof trial.low === "number" ? ` (95% interval ${figure(trial.low, metric)} to ${figure(trial.high, metric)})` : "");
  const seen = trial.of ? `, ${whole.format(trial.seen)} of ${count(trial.of, "question")}` : "";
  const marks = [trial.chosen ? "chosen" : "", trial.front ? "on the front" : "", trial.complete ? "" : "stopped early"].filter(Boolean).join(", ");
  return `Trial ${trial.number}${marks ? ` (${marks})` : ""}: ${Object.keys(report.objectives).filter((name) => valued(trial, name)).map((name) => `${name} ${figure(trial.values[name], name)}${ends(name)}`).join(", ")}${seen}. ${shorten(trial.choices, 240)}`;
}

const MIN_COMPLETE = 2;
const charts = {
  history(width) {
    const complete = trials.filter((trial) => trial.complete && valued(trial));
    const stopped = trials.filter((trial) => !trial.complete);
    if (complete.length < MIN_COMPLETE) return null;
    const best = complete.filter((trial) => typeof trial.best === "number");
    const y = (trial) => trial.values[metric];
    const ends = complete.flatMap((trial) => [y(trial), ...(typeof trial.low === "number" ? [trial.low, trial.high] : [])]);
    const [low, high] = spread(ends);
    const bottom = stopped.length ? low - (high - low) * 0.14 : low;
    const numbers = trials.map((trial) => trial.number);
    const held = [...complete, ...stopped];
    return {
      width, height: width < 500 ? 280 : 330, marginLeft: 52, marginBottom: 38, marginTop: 28,
      x: { label: "trial", domain: [Math.min(...numbers) - 0.5, Math.max(...numbers) + 0.5], ticks: Math.min(trials.length, Math.floor(width / 60)), tickFormat: (n) => (Number.isInteger(n) ? String(n) : "") },
      y: { label: axis(metric), grid: true, domain: [bottom, high], ticks: 6 },
      marks: [
        stopped.length ? Plot.ruleY([low], { stroke: line }) : null,
        Plot.line(best, { x: "number", y: "best", stroke: accent, strokeWidth: 1.5, curve: "step-after" }),
        Plot.ruleX(complete.filter((trial) => typeof trial.low === "number"), { x: "number", y1: "low", y2: "high", stroke: soft, strokeOpacity: 0.7 }),
        Plot.dot(complete, { x: "number", y, r: 4.5, fill: ink, stroke: "var(--page)" }),
        Plot.dot(complete.filter((trial) => trial.chosen), { x: "number", y, r: 8, stroke: accent, strokeWidth: 2 }),
        Plot.dot(stopped, { x: "number", y: (low + bottom) / 2, r: 3.5, stroke: soft }),
        Plot.dot(held, { className: "hits", x: "number", y: (trial) => (trial.complete ? y(trial) : (low + bottom) / 2), r: 11, fill: "transparent" }),
      ],
      dots: held,
    };
  },
  front(width) {
    const [first, second] = Object.keys(report.objectives);
    const held = trials.filter((trial) => trial.complete && [first, second].every((name) => valued(trial, name)));
    if (held.length < MIN_COMPLETE) return null;
    const x = (trial) => trial.values[first], y = (trial) => trial.values[second];
    const front = held.filter((trial) => trial.front).sort((one, other) => x(one) - x(other));
    return {
      width, height: width < 500 ? 300 : 340, marginLeft: 60, marginBottom: 42, marginTop: 28,
      x: { label: axis(first), grid: true, domain: spread(held.map(x)) },
      y: { label: axis(second), grid: true, domain: spread(held.map(y)) },
      marks: [
        Plot.line(front, { x, y, stroke: accent, strokeWidth: 1.5 }),
        Plot.dot(held.filter((trial) => !trial.front), { x, y, r: 4, stroke: soft }),
        Plot.dot(front, { x, y, r: 5, fill: accent }),
        Plot.dot(held.filter((trial) => trial.chosen), { x, y, r: 9, stroke: accent, strokeWidth: 2 }),
        Plot.dot(held, { className: "hits", x, y, r: 11, fill: "transparent" }),
      ],
      dots: held,
    };
  },
  importance(width) {
    const held = kind("importance").slice(0, 12);
    return {
      width, height: 34 + 26 * held.length, marginLeft: 140, marginBottom: 30,
      x: { label: "share", domain: [0, Math.max(0.01, ...held.map((one) => one.share))], grid: true },
      y: { label: null, domain: held.map((one) => one.dimension), tickFormat: (name) => shorten(name, 20) },
      marks: [Plot.barX(held, { x: "share", y: "dimension", fill: accent, insetTop: 4, insetBottom: 4 })],
    };
  },
  scores(width, id) {
    const split = id.slice("scores-".length);
    const held = kind("score").filter((one) => one.split === split && one.low >= -1e-9 && one.high <= 1 + 1e-9);
    const runs = [...new Set(held.map((one) => one.run))];
    const names = [...new Set(held.map((one) => one.metric))].slice(0, 12);
    if (!held.length || runs.length > 6) return null;
    const shownNames = new Set(names);
    const drawn = held.filter((one) => shownNames.has(one.metric));
    const last = runs[runs.length - 1];
    const colour = (one) => (one.run === last && runs.length > 1 ? accent : soft);
    return {
      width, height: 34 + names.length * (16 * runs.length + 12), marginLeft: 120, marginRight: 110, marginBottom: 30,
      x: { label: null, domain: [0, 1], grid: true },
      y: { label: null, domain: runs, axis: null },
      fy: { label: null, domain: names, axis: "left", tickFormat: (name) => shorten(name, 17) },
      facet: { marginLeft: 120 },
      marks: [
        Plot.ruleY(drawn, { fy: "metric", y: "run", x1: "low", x2: "high", stroke: colour, strokeWidth: 2 }),
        Plot.dot(drawn, { fy: "metric", y: "run", x: "mean", r: 4, fill: colour, stroke: "var(--page)" }),
        Plot.text(drawn, { fy: "metric", y: "run", x: "high", text: (one) => shorten(one.run, 16), textAnchor: "start", dx: 8, fill: colour }),
      ],
    };
  },
};

function slice(width, name) {
  const enough = new Set(kind("slice").filter((one) => one.dimension === name && one.trials >= 3).map((one) => one.value));
  const shownValue = (trial) => (name in trial.params ? String(trial.params[name]).replace(/^(true|false)$/, (word) => word[0].toUpperCase() + word.slice(1)) : "none");
  const held = trials.filter((trial) => trial.complete && valued(trial) && enough.has(shownValue(trial)));
  if (held.length < 2 * 3) return null;
  const value = (trial) => (name in trial.params ? trial.params[name] : "none");
  const numeric = held.every((trial) => typeof value(trial) === "number");
  const x = numeric ? value : (trial) => shorten(String(value(trial)), 14);
  const letters = numeric ? 0 : [...new Set(held.map(x))].join("").length;
  return {
    width, height: 180, marginLeft: 44, marginBottom: letters * 8 > width - 70 ? 56 : 34,
    x: { label: null, tickRotate: letters * 8 > width - 70 ? -35 : 0, ...(numeric ? { nice: true, ticks: 4, ...(held.every((trial) => Number.isInteger(value(trial))) ? { tickFormat: (n) => (Number.isInteger(n) ? String(n) : "") } : {}) } : { type: "point", padding: 0.6 }) },
    y: { label: null, grid: true, domain: spread(held.map((trial) => trial.values[metric])), nice: true, ticks: 4 },
    marks: [
      Plot.dot(held, { x, y: (trial) => trial.values[metric], r: 4, fill: accent, fillOpacity: 0.75 }),
      Plot.dot(held, { className: "hits", x, y: (trial) => trial.values[metric], r: 10, fill: "transparent" }),
    ],
    dots: held,
  };
}

function draw(frame, options) {
  frame.hidden = !options;
  if (!options) return;
  const { dots, ...plot } = options;
  const svg = Plot.plot({ style: "", ...plot });
  // The whole is one image with a name; names of its parts are not allowed then, and would be read twice.
  for (const part of svg.querySelectorAll("[aria-label], [aria-hidden]")) {
    part.removeAttribute("aria-label");
    part.removeAttribute("aria-hidden");
  }
  svg.setAttribute("role", dots ? "group" : "img");
  svg.setAttribute("aria-label", `${frame.dataset.label || frame.id}; the table has the same figures`);
  frame.replaceChildren(svg);
  if (dots) tellDots(svg, dots);
}

function drawChart(frame) {
  const id = frame.dataset.chart, width = Math.max(280, frame.clientWidth);
  if (frame.drawnWidth === width) return; // drawn again, a chart would lose the focus of its dots
  frame.drawnWidth = width;
  try {
    draw(frame, id === "slice" ? slice(Math.min(width, 340), frame.dataset.name) : (charts[id] || charts.scores)(width, id));
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
