const BEYOND = 8, PRINTED = 1000;
/** Characters of a text that a cell holds; two lines of it are seen. */
const CELL = 2000;
const runs = report.runs;
const scored = report.metrics;
const defaults = {
  find: "", metric: scored.includes(metric) ? metric : scored[0] || "", before: runs[0], after: runs[runs.length - 1],
  columns: runs.length > 2 ? "all" : "two", change: "", score: "", group: "", run: "", sort: "order", down: false,
};
const state = { ...defaults };
const titles = new Map(kind("group").map((one) => [one.group, one.title]));
let questions = [], indexed = { runs: {} }, hay = [], answered = false, hasGold = false;
// Marks of full and of no points only make sense where scores lie between 0 and 1 and more is better.
let graded = new Map();

/** Takes over the index: a question has its texts and per run what the table shows, scores stay in columns. */
function readIndex(text) {
  indexed = JSON.parse(text);
  questions = Array.from({ length: indexed.n }, (_, index) => ({ index, line: data.firstQuestion + index, id: indexed.id[index], question: indexed.question[index], answers: indexed.answers[index] }));
  for (const row of questions) {
    row.runs = Object.fromEntries(runs.filter((run) => indexed.runs[run].answered[row.index] !== null).map((run) => {
      const held = indexed.runs[run], group = held.group[row.index];
      return [run, { answered: held.answered[row.index] === 1, prediction: held.prediction[row.index], failure: held.failure[row.index] || "", group, group_title: titles.get(group) || "" }];
    }));
  }
  hay = questions.map((row) => [row.id, row.question, ...row.answers, ...Object.values(row.runs).map((run) => full(run.prediction))].join("\n").toLowerCase());
  answered = runs.some((run) => indexed.runs[run].answered.includes(1));
  hasGold = questions.some((row) => row.answers.length);
  graded = new Map(scored.map((name, at) => [name, isBetterHigh(name) && runs.every((run) => indexed.runs[run].scores[at].every((value) => value === null || (value >= 0 && value <= 1)))]));
}
const MARKS = { full: "full marks", part: "part marks", zero: "zero", none: "no score" };
function markOf(value, name = state.metric) {
  if (typeof value !== "number") return "none";
  return !graded.get(name) ? "" : value >= 1 - 1e-9 ? "full" : value > 0 ? "part" : "zero";
}

const scoreOf = (row, run, name) => (row.runs[run] ? indexed.runs[run].scores[scored.indexOf(name)]?.[row.index] : undefined);
const score = (row, run) => scoreOf(row, run, state.metric);
function changeOf(row) {
  const before = score(row, state.before), after = score(row, state.after);
  if (typeof before !== "number" || typeof after !== "number") return row.runs[state.before] && row.runs[state.after] ? "unchanged" : "only once";
  if (before === after) return "unchanged";
  return after > before === isBetterHigh(state.metric) ? "gained" : "lost";
}
function answersDiffer(row) {
  const one = row.runs[state.before], other = row.runs[state.after];
  return Boolean(one?.answered && other?.answered) && full(one.prediction).trim() !== full(other.prediction).trim();
}
const CHANGES = [
  ["", "all", () => true],
  ["gained", "gained", (row) => changeOf(row) === "gained"],
  ["lost", "lost", (row) => changeOf(row) === "lost"],
  ["unchanged", "unchanged", (row) => changeOf(row) === "unchanged"],
  ["differ", "answers differ", answersDiffer],
];
const two = () => runs.length > 1;
const everyRun = () => runs.length > 2 && state.columns === "all";
const groupOf = (row, run) => row.runs[run]?.group || "";

const twoLines = (text) => node("span", { class: "two" }, bdi(...marked(text.slice(0, CELL), literal(state.find.trim()))));
const golds = (row) => row.answers.map(full).join(" | ");
const sameRun = (run) => (run === state.before && two() ? "before" : run === state.after ? "after" : `run-${runs.indexOf(run)}`);
const runColumn = (run) => ({
  id: sameRun(run), label: run, css: `c-run${sameRun(run) === "before" && !everyRun() ? " c-before" : ""}`, type: "n",
  value: (row) => score(row, run), cell: (row) => result(row, run),
});
const SIGNS = { gained: "▲ ", lost: "▼ " };
const columnOf = {
  order: { id: "order", label: "#", css: "c-n n", value: (row) => row.index, cell: (row) => whole.format(row.index + 1), type: "n" },
  question: { id: "question", label: "Question", css: "c-q", head: true, value: (row) => full(row.question).toLowerCase(), cell: (row) => opener(row) },
  gold: { id: "gold", label: "Gold", css: "c-gold", value: (row) => golds(row).toLowerCase(), cell: (row) => twoLines(golds(row)) },
  change: {
    id: "change", label: "Change", css: "c-change", type: "n",
    value: (row) => { const a = score(row, state.after), b = score(row, state.before); return typeof a === "number" && typeof b === "number" ? a - b : null; },
    cell: (row) => node("span", {}, node("span", { "aria-hidden": "true" }, SIGNS[changeOf(row)]), changeOf(row)),
  },
  where: { id: "where", label: "Outcome", css: "c-where", value: (row) => row.runs[state.after]?.group_title || "", cell: (row) => twoLines(row.runs[state.after]?.group_title || "–") },
};
function shownColumns() {
  const { order, question, gold, change, where } = columnOf;
  const held = everyRun() ? runs : [...new Set(two() ? [state.before, state.after] : [state.after])];
  return [order, question, hasGold && gold, ...held.map(runColumn), two() && change, answered && { ...where, label: two() ? `Outcome, ${state.after}` : where.label }].filter(Boolean);
}

function opener(row) {
  return node("button", { type: "button", class: "open two", "data-id": row.index }, bdi(...marked((full(row.question) || full(row.id)).slice(0, CELL), literal(state.find.trim()))));
}
function pill(value, name) {
  return node("span", { class: `score ${markOf(value, name)}` }, figure(value, name));
}
function result(row, run) {
  return node("span", { class: "result two" }, node("span", {}, pill(score(row, run), state.metric), " ", prediction(row, run)));
}
function prediction(row, run) {
  const held = row.runs[run];
  if (!held) return node("span", { class: "none" }, "not in this run");
  if (!held.answered) return null;
  if (held.prediction === null) return node("span", { class: "none" }, `none: ${full(held.failure)}`);
  return bdi(...marked(full(held.prediction).slice(0, CELL), literal(state.find.trim())));
}

const narrow = matchMedia("(max-width: 44rem)");
/** The height of a row in pixels; on a narrow screen a row is a block with a line for each answer. */
function rowHeight() {
  return narrow.matches && !everyRun() ? 62 + 30 * (new Set(two() ? [state.before, state.after] : [state.after]).size + (two() || answered ? 1 : 0)) : 60;
}
let HEIGHT = 60;
let order = [];
const live = new Map();
const scroller = byId("rows"), body = byId("body");
const above = node("tr", { class: "gap", "aria-hidden": "true" }, node("td")), below = above.cloneNode(true);

function arrange() {
  HEIGHT = rowHeight();
  byId("table").style.setProperty("--row", `${HEIGHT}px`);
  const words = state.find.trim().toLowerCase();
  const fitting = questions.filter((row) =>
    (!words || hay[row.index].includes(words)) &&
    (!state.score || markOf(score(row, state.after)) === state.score) &&
    (!state.group || groupOf(row, state.run || state.after) === state.group));
  const passes = CHANGES.find(([id]) => id === state.change)[2];
  order = fitting.filter(passes);
  const columns = shownColumns();
  const column = columns.find((one) => one.id === state.sort) || columnOf.order;
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
  byId("count").textContent = n === all ? count(all, "question") : n ? `${whole.format(n)} of ${count(all, "question")}` : "No question fits all of these filters";
  byId("reset").hidden = !["find", "change", "score", "group"].some((key) => state[key]);
  chips(fitting);
  heads(columns, column);
  live.clear();
  body.replaceChildren(above, below);
  below.hidden = false;
  below.firstChild.style.height = `${order.length * HEIGHT}px`; // the height of the view depends on it
  byId("table").setAttribute("aria-rowcount", n + 1);
  paint();
}

function chips(fitting) {
  const focused = document.activeElement?.dataset?.change;
  byId("changes").replaceChildren(...CHANGES.filter(([id]) => answered || id !== "differ").map(([id, name, passes]) =>
    node("button", { type: "button", "data-change": id, "aria-pressed": String(state.change === id) },
      SIGNS[id] ? node("span", { class: id, "aria-hidden": "true" }, SIGNS[id]) : null, `${name} ${whole.format(fitting.filter(passes).length)}`)));
  if (focused !== undefined) byId("changes").querySelector(`[data-change="${focused}"]`)?.focus();
}

function heads(columns, sortedBy) {
  const focused = document.activeElement?.dataset?.sort;
  byId("heads").replaceChildren(...columns.map((column) => {
    const sorted = sortedBy.id === column.id ? (state.down ? "descending" : "ascending") : null;
    const button = node("button", { type: "button", "data-sort": column.id, title: column.label }, bdi(column.label));
    return node("th", { scope: "col", class: column.css, "aria-sort": sorted || "none" }, button);
  }));
  byId("table").classList.toggle("matrix", everyRun());
  byId("table").style.minWidth = everyRun() ? `${(hasGold ? 42 : 34) + runs.length * 10}rem` : "";
  if (focused) byId("heads").querySelector(`[data-sort="${focused}"]`)?.focus();
}

function rowOf(row) {
  const element = node("tr", { class: "row", "aria-rowindex": row.at + 2, "data-row": row.line });
  for (const column of shownColumns()) {
    const change = column.id === "change" ? ` ${changeOf(row).split(" ")[0]}` : "";
    element.append(node(column.head ? "th" : "td", { class: column.css + change, scope: column.head ? "row" : null, "data-label": column.label }, column.cell(row)));
  }
  return element;
}

let printing = false;
function paint() {
  const first = printing ? 0 : Math.max(0, Math.floor(scroller.scrollTop / HEIGHT) - BEYOND);
  const end = printing ? Math.min(order.length, PRINTED) : Math.min(order.length, Math.ceil((scroller.scrollTop + scroller.clientHeight) / HEIGHT) + BEYOND);
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
  below.hidden = printing || end >= order.length;
}

function goTo(at) {
  at = Math.max(0, Math.min(order.length - 1, at));
  const top = at * HEIGHT, head = byId("table").tHead.offsetHeight;
  if (top < scroller.scrollTop) scroller.scrollTop = top;
  else if (top + HEIGHT + head > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + HEIGHT + head - scroller.clientHeight;
  paint();
  live.get(at)?.querySelector("button.open")?.focus({ preventScroll: true });
}

/** Sets what `changes` names, shows the rows from the first and writes the address. */
function change(changes) {
  Object.assign(state, changes);
  scroller.scrollTop = 0;
  byId("missing").hidden = true;
  showFields();
  arrange();
  writeAddress();
}

const FIELDS = ["metric", "before", "after", "columns", "score", "group"];
function showFields() {
  for (const id of FIELDS) byId(id).value = state[id];
  if (byId("find").value !== state.find) byId("find").value = state.find;
  const marks = graded.get(state.metric);
  byId("score").parentElement.hidden = !marks && !state.score;
}

/** The slash goes to the search box, wherever one is but in a field or a trace. */
function startSlash() {
  addEventListener("keydown", (event) => {
    const inField = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.key !== "/" || inField || dialog.open || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    byId("find").focus();
    byId("find").select();
    byId("questions").scrollIntoView();
  });
}

function startTable() {
  const options = {
    metric: scored.map((name) => [name, name]), before: runs.map((name) => [name, name]), after: runs.map((name) => [name, name]),
    columns: [], group: [...new Map(kind("group").map((one) => [one.group, one.title]))],
    score: [["", "all"], ...Object.entries(MARKS)],
  };
  for (const id of FIELDS) {
    byId(id).append(...options[id].map(([value, name]) => node("option", { value }, name)));
    byId(id).addEventListener("change", () => change(id === "group" ? { group: byId(id).value, run: "" } : { [id]: byId(id).value }));
  }
  for (const id of ["before", "after", "columns"]) byId(id).parentElement.hidden = runs.length < 3;
  byId("changes").hidden = runs.length < 2;
  byId("group").parentElement.hidden = !answered;
  byId("metric").parentElement.hidden = scored.length < 2;
  let typing = 0;
  byId("find").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ find: event.target.value }), 80);
  });
  byId("changes").addEventListener("click", (event) => {
    const id = event.target.closest("button")?.dataset.change;
    if (id !== undefined) change({ change: id });
  });
  byId("reset").addEventListener("click", () => {
    change({ find: "", change: "", score: "", group: "", run: "" });
    byId("find").focus();
  });
  for (const button of document.querySelectorAll("button[data-group]")) {
    button.addEventListener("click", () => {
      change({ group: button.dataset.group, run: button.dataset.run });
      byId("count").scrollIntoView({ block: "nearest" });
    });
  }
  scroller.addEventListener("scroll", paint, { passive: true });
  addEventListener("resize", () => { if (rowHeight() === HEIGHT) paint(); else arrange(); });
  addEventListener("beforeprint", () => {
    printing = true;
    HEIGHT = 60;
    byId("printed").hidden = order.length <= PRINTED;
    byId("printed").textContent = `The first ${whole.format(PRINTED)} of ${count(order.length, "question")} are printed.`;
    paint();
  });
  addEventListener("afterprint", () => { printing = false; HEIGHT = rowHeight(); byId("printed").hidden = true; paint(); });
  byId("heads").addEventListener("click", (event) => {
    const id = event.target.closest("button")?.dataset.sort;
    if (id) change({ down: state.sort === id ? !state.down : false, sort: id });
  });
  body.addEventListener("click", (event) => {
    const element = event.target.closest("tr.row");
    if (!element || (!event.target.closest("button.open") && String(getSelection()).trim())) return; // a text is being marked
    open(questions[Number(element.querySelector("button.open").dataset.id)], true);
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
}
