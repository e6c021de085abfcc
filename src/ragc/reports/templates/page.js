"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const rows = data.rows.map((row, index) => ({ ...row, line: index + 1 }));
  const kind = (name) => rows.filter((row) => row.row === name);
  const report = rows[0];
  const whole = new Intl.NumberFormat("en");
  const figure = (value) =>
    typeof value !== "number" ? "–" : Math.abs(value) < 100 ? value.toFixed(3) : whole.format(+value.toFixed(1));

  // Every text becomes a text node; nothing of the data is ever parsed as HTML.
  function node(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }
  const bdi = (text) => node("bdi", {}, text);

  /** The text that `value` stands for: itself, or one of the table, with what was cut said behind it. */
  function full(value) {
    if (value !== null && typeof value === "object" && typeof value.$ === "number") {
      const text = data.texts[value.$];
      return Array.isArray(text) ? `${text[0]}… (${whole.format(text[1] - text[0].length)} characters more)` : text;
    }
    return typeof value === "string" ? value : value === null || value === undefined ? "" : String(value);
  }
  /** `value` with its texts filled in, for showing as JSON. */
  function filled(value) {
    if (Array.isArray(value)) return value.map(filled);
    if (value === null || typeof value !== "object") return value;
    if (typeof value.$ === "number") return full(value);
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner)]));
  }

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

  const questions = kind("question");
  if (!questions.length) return;
  const HEIGHT = 60, BEYOND = 8;
  const runs = report.runs;
  const scored = [...new Set(questions.flatMap((row) => Object.values(row.runs).flatMap((run) => Object.keys(run.scores))))];
  const answered = questions.some((row) => Object.values(row.runs).some((run) => run.answered));
  const state = {
    metric: scored.includes(metric) ? metric : scored[0] || "", before: runs[0], after: runs[runs.length - 1],
    sort: "order", down: false, find: "", change: "", group: "", groupRun: "",
  };
  const hay = questions.map((row) =>
    [row.id, full(row.question), ...row.answers.map(full), ...Object.values(row.runs).map((run) => full(run.prediction))].join("\n").toLowerCase());

  const score = (row, run) => row.runs[run]?.scores?.[state.metric];
  function changeOf(row) {
    const before = score(row, state.before), after = score(row, state.after);
    if (typeof before !== "number" || typeof after !== "number") return row.runs[state.before] && row.runs[state.after] ? "unchanged" : "only once";
    if (before === after) return "unchanged";
    return after > before === (data.better[state.metric] !== false) ? "gained" : "lost";
  }
  const two = () => runs.length > 1;
  const groupOf = (row, run = state.after) => row.runs[run]?.group || "";

  const text = (value) => node("span", { class: "two" }, bdi(value));
  const columns = [
    { id: "order", label: "#", css: "c-n n", value: (row) => row.index, cell: (row) => whole.format(row.index + 1), type: "n" },
    { id: "question", label: "Question", css: "c-q", head: true, value: (row) => full(row.question).toLowerCase(), cell: (row) => opener(row) },
    { id: "gold", label: "Gold", css: "c-gold", show: () => answered, value: (row) => row.answers.map(full).join(" | ").toLowerCase(), cell: (row) => text(row.answers.map(full).join(" | ")) },
    { id: "before", label: () => state.before, css: "c-run c-before", show: two, type: "n", value: (row) => score(row, state.before), cell: (row) => result(row, state.before) },
    { id: "after", label: () => state.after, css: "c-run", type: "n", value: (row) => score(row, state.after), cell: (row) => result(row, state.after) },
    { id: "change", label: "Change", css: "c-change", show: two, value: (row) => { const a = score(row, state.after), b = score(row, state.before); return typeof a === "number" && typeof b === "number" ? a - b : null; }, type: "n", cell: (row) => changeOf(row) },
    { id: "where", label: () => (two() ? `Outcome, ${state.after}` : "Outcome"), css: "c-where", show: () => answered, value: (row) => row.runs[state.after]?.group_title || "", cell: (row) => text(row.runs[state.after]?.group_title || "–") },
  ];
  questions.forEach((row, index) => { row.index = index; });
  const shownColumns = () => columns.filter((column) => !column.show || column.show());
  const label = (column) => (typeof column.label === "function" ? column.label() : column.label);

  function opener(row) {
    const button = node("button", { type: "button", class: "open two", "data-id": row.index }, bdi(full(row.question) || row.id));
    return button;
  }
  function result(row, run) {
    return node("span", { class: "result" }, node("span", { class: "score" }, figure(score(row, run))), prediction(row, run));
  }
  function prediction(row, run) {
    const held = row.runs[run];
    if (!held) return node("span", { class: "none" }, "not in this run");
    if (!held.answered) return null;
    return held.prediction === null ? node("span", { class: "none two" }, `none: ${full(held.failure)}`) : text(full(held.prediction));
  }

  let order = [];
  const live = new Map();
  const scroller = byId("rows"), body = byId("body");
  const above = node("tr", { class: "gap", "aria-hidden": "true" }, node("td")), below = above.cloneNode(true);

  function arrange() {
    const words = state.find.trim().toLowerCase();
    order = questions.filter((row) =>
      (!words || hay[row.index].includes(words)) &&
      (!state.change || changeOf(row) === state.change) &&
      (!state.group || groupOf(row, state.groupRun || state.after) === state.group));
    const column = columns.find((one) => one.id === state.sort);
    const keyed = order.map((row) => [column.value(row), row]);
    const sign = state.down ? -1 : 1;
    keyed.sort(([one, first], [other, second]) => {
      const absent = (one === null || one === undefined) - (other === null || other === undefined);
      if (absent) return absent;
      const compared = column.type === "n" ? one - other : one < other ? -1 : one > other ? 1 : 0;
      return sign * compared || first.index - second.index;
    });
    order = keyed.map(([, row]) => row);
    order.forEach((row, at) => { row.at = at; });
    const n = order.length, all = questions.length;
    byId("count").textContent = n === all ? `${whole.format(all)} question${all === 1 ? "" : "s"}` : `${whole.format(n)} of ${whole.format(all)} questions`;
    heads();
    live.clear();
    body.replaceChildren(above, below);
    below.hidden = false;
    below.firstChild.style.height = `${order.length * HEIGHT}px`; // the height of the view depends on it
    byId("table").setAttribute("aria-rowcount", n + 1);
    paint();
  }

  function heads() {
    const focused = document.activeElement?.dataset?.sort;
    byId("heads").replaceChildren(...shownColumns().map((column) => {
      const sorted = state.sort === column.id ? (state.down ? "descending" : "ascending") : null;
      const button = node("button", { type: "button", "data-sort": column.id, title: label(column) }, bdi(label(column)));
      return node("th", { scope: "col", class: column.css, "aria-sort": sorted || "none" }, button);
    }));
    if (focused) byId("heads").querySelector(`[data-sort="${focused}"]`)?.focus();
  }

  function rowOf(row) {
    const element = node("tr", { class: "row", "aria-rowindex": row.at + 2, "data-row": row.line });
    for (const column of shownColumns()) {
      const change = column.id === "change" ? ` ${changeOf(row).split(" ")[0]}` : "";
      element.append(node(column.head ? "th" : "td", { class: column.css + change, scope: column.head ? "row" : null }, column.cell(row)));
    }
    return element;
  }

  function paint() {
    const first = Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - BEYOND);
    const end = Math.min(order.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / HEIGHT) + BEYOND);
    const held = document.activeElement?.closest?.("tr.row");
    for (const [at, element] of live) {
      if ((at < first || at >= end) && element !== held) { element.remove(); live.delete(at); }
    }
    // A focused row that was scrolled away stays in the table, so that the keyboard is not lost.
    const apart = [...live.keys()].filter((at) => at < first || at >= end);
    const visible = [...new Set([...apart, ...Array.from({ length: Math.max(0, end - first) }, (_, at) => first + at)])].sort((a, b) => a - b);
    let previous = above;
    for (const at of visible) {
      let element = live.get(at);
      if (!element) { element = rowOf(order[at]); live.set(at, element); }
      if (previous.nextSibling !== element) previous.after(element);
      previous = element;
    }
    const outside = apart.length * HEIGHT;
    const early = apart.some((at) => at < first) ? outside : 0;
    above.firstChild.style.height = `${Math.max(0, first * HEIGHT - early)}px`;
    below.firstChild.style.height = `${Math.max(0, (order.length - end) * HEIGHT - (outside - early))}px`;
    above.hidden = first === 0;
    below.hidden = end >= order.length;
  }

  function goTo(at) {
    at = Math.max(0, Math.min(order.length - 1, at));
    const top = at * HEIGHT, head = byId("table").tHead.offsetHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + HEIGHT + head > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + HEIGHT + head - scroller.clientHeight;
    paint();
    live.get(at)?.querySelector("button.open")?.focus({ preventScroll: true });
  }

  scroller.addEventListener("scroll", paint, { passive: true });
  addEventListener("resize", paint);
  byId("heads").addEventListener("click", (event) => {
    const id = event.target.closest("button")?.dataset.sort;
    if (!id) return;
    state.down = state.sort === id ? !state.down : false;
    state.sort = id;
    scroller.scrollTop = 0;
    arrange();
  });
  body.addEventListener("click", (event) => {
    const button = event.target.closest("button.open");
    if (button) open(questions[Number(button.dataset.id)]);
  });
  body.addEventListener("keydown", (event) => {
    const button = event.target.closest?.("button.open");
    if (!button || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = questions[Number(button.dataset.id)].at, page = Math.max(1, Math.floor(scroller.clientHeight / HEIGHT) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: order.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    goTo(to);
  });

  function choose(id, options, key) {
    const select = byId(id);
    select.append(...options.map(([value, name]) => node("option", { value }, name)));
    select.value = state[key];
    select.addEventListener("change", () => { state[key] = select.value; if (key === "group") state.groupRun = ""; scroller.scrollTop = 0; arrange(); });
  }
  choose("metric", scored.map((name) => [name, name]), "metric");
  choose("before", runs.map((name) => [name, name]), "before");
  choose("after", runs.map((name) => [name, name]), "after");
  choose("change", [], "change");
  choose("group", [...new Map(kind("group").map((one) => [one.group, one.title]))], "group");
  byId("l-before").hidden = byId("l-after").hidden = runs.length < 3;
  byId("l-change").hidden = runs.length < 2;
  byId("l-group").hidden = !answered;
  byId("metric").parentElement.hidden = scored.length < 2;
  let typing = 0;
  byId("find").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => { state.find = event.target.value; scroller.scrollTop = 0; arrange(); }, 80);
  });
  for (const button of document.querySelectorAll("button[data-group]")) {
    button.addEventListener("click", () => {
      state.group = byId("group").value = button.dataset.group;
      state.groupRun = button.dataset.run;
      scroller.scrollTop = 0;
      arrange();
      byId("count").scrollIntoView({ block: "nearest" });
    });
  }

  const dialog = byId("trace");
  let current = null;

  function open(row) {
    current = row;
    byId("trace-title").replaceChildren(bdi(full(row.question) || row.id));
    byId("trace-body").replaceChildren(...traceOf(row));
    byId("where").textContent = `${whole.format(row.at + 1)} of ${whole.format(order.length)}`;
    byId("previous").disabled = row.at === 0;
    byId("next").disabled = row.at + 1 >= order.length;
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    byId("trace-title").focus({ preventScroll: true });
  }
  function step(by) {
    const row = order[current.at + by];
    if (row) open(row);
  }
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => { if (current) goTo(current.at); });

  function* traceOf(row) {
    yield node("p", { class: "facts" }, "id ", bdi(row.id), row.answers.length ? " · gold: " : "", bdi(row.answers.map(full).join(" | ")));
    const sides = runs.filter((run) => row.runs[run]);
    yield node("div", { class: "sides" }, ...sides.map((run) => side(row, run)));
  }

  function side(row, run) {
    const held = row.runs[run];
    const element = node("section", { class: "side", "aria-label": run }, node("h3", {}, bdi(run)));
    if (held.answered) {
      element.append(held.prediction === null
        ? node("p", { class: "answer none" }, "No answer: ", bdi(full(held.failure)))
        : node("p", { class: "answer" }, bdi(full(held.prediction))));
    }
    const parts = Object.entries(held.scores).filter(([, value]) => value !== null).map(([name, value]) => `${name} ${figure(value)}`);
    const facts = node("p", { class: "facts" });
    if (held.group_title) facts.append(node("span", { class: "badge" }, held.group_title), " ");
    facts.append(bdi(parts.join(", ")));
    element.append(facts);
    const spent = [["lm_calls", "call", "calls"], ["tokens", "token", "tokens"], ["searches", "search", "searches"]].filter(([name]) => held.counters[name]).map(([name, one, several]) => `${whole.format(held.counters[name])} ${held.counters[name] === 1 ? one : several}`);
    if (spent.length) element.append(node("p", { class: "facts" }, spent.join(", ")));
    if (!held.answered) element.append(node("p", { class: "none" }, "The study keeps the scores of its trials, not their answers."));
    else if (!held.trace.length) element.append(node("p", { class: "none" }, "This row has no trace."));
    else element.append(node("ol", { class: "events" }, ...held.trace.map((event) => eventOf(event, row))));
    return element;
  }

  function eventOf(event, row) {
    const element = node("li", { class: `${event.kind} depth-${Math.min(3, Math.max(0, event.at.length - 1))}` });
    const where = event.at.length ? node("span", { class: "facts" }, `${event.at.join(".")} `) : null;
    if (event.kind === "search") element.append(search(event, row, where));
    else if (event.kind === "gate") {
      const than = typeof event.threshold === "number" ? ` against ${figure(event.threshold)}` : "";
      element.append(node("div", {}, where, node("b", {}, "threshold "), bdi(full(event.name)), `: ${figure(event.score)}${than}, ${event.passed ? "passes" : "does not pass"}`));
    } else if (event.kind === "note") {
      element.append(node("div", {}, where, node("b", {}, bdi(full(event.name))), ": ", bdi(full(event.outcome))), ...prompt(event));
    } else if (event.kind === "call") element.append(call(event, where));
    else element.append(json(event.value));
    return element;
  }

  const block = (value, name) => node("pre", { tabindex: "0", role: "group", "aria-label": name }, value);
  const json = (value) => block(JSON.stringify(filled(value), null, 1) ?? "", "value");

  function search(event, row, where) {
    const gold = new Set(row.gold_ids.map(full));
    const isGold = (id) => gold.has(id) || gold.has(id.replace(/#\d+$/, ""));
    const hits = event.hits.map((hit) => {
      const id = full(hit.id), title = full(hit.title);
      const item = node("li", {}, bdi(title || id), " ", node("span", { class: "facts" }, title ? bdi(id) : "", typeof hit.score === "number" ? ` ${figure(hit.score)}` : ""));
      if (isGold(id)) item.append(" ", node("span", { class: "badge" }, "gold"));
      if (hit.text) item.append(node("p", {}, bdi(full(hit.text))));
      return item;
    });
    return node("details", { open: "" },
      node("summary", {}, where, node("b", {}, "search "), bdi(full(event.name)), ": ", bdi(full(event.query)), node("span", { class: "facts" }, ` · ${whole.format(event.n)} ${event.n === 1 ? "hit" : "hits"}`)),
      hits.length ? node("ol", { class: "hits" }, ...hits) : node("p", { class: "facts" }, event.n ? "Which ones is not in this row." : "Nothing was retrieved."));
  }

  function call(event, where) {
    const marks = [`${whole.format(event.prompt_tokens || 0)} + ${whole.format(event.completion_tokens || 0)} tokens`];
    if (event.truncated) marks.push("cut by the token limit");
    if (event.repaired) marks.push("asked twice");
    if (event.mended) marks.push(`${event.mended} values mended`);
    const outputs = Object.entries(event.outputs);
    const element = node("details", {},
      node("summary", {}, where, node("b", {}, "call "), bdi(full(event.name)), event.role === "main" ? "" : ` on ${full(event.role)}`, node("span", { class: "facts" }, ` · ${marks.join(" · ")}`)));
    element.append(...prompt(event));
    if (event.inputs && Object.keys(event.inputs).length) {
      element.append(node("h4", {}, "Inputs; this row was written without its prompts"), json(event.inputs));
    }
    if (outputs.length) element.append(node("h4", {}, "Read as"), json(event.outputs));
    return element;
  }

  function* prompt(event) {
    for (const message of event.messages || []) {
      const role = full(message.role);
      yield node("h4", {}, "sent as ", bdi(role));
      yield block(full(message.content), `sent as ${role}`);
    }
    for (const reply of event.replies || []) {
      yield node("h4", {}, "reply");
      yield block(full(reply), "reply");
    }
  }

  arrange();
})();
