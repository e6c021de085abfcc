/** Characters of a text that a cell holds; two lines of it are seen. */
const CELL = 2000;
const runs = report.runs;
const scored = report.metrics;
const defaults = {
  find: "", metric: scored.includes(metric) ? metric : scored[0] || "", before: runs[0], after: runs[runs.length - 1],
  columns: runs.length > 2 ? "all" : "two", change: "", score: "", group: "", run: "", sort: "order", down: false,
};
const state = { ...defaults };
const { questions } = data;
for (const [index, row] of questions.entries()) {
  row.index = index;
  row.hay = [row.id, row.question, ...row.answers, ...Object.values(row.runs).map((run) => full(run.prediction))].join("\n").toLowerCase();
}
const answered = questions.some((row) => Object.values(row.runs).some((run) => run.answered));
const hasGold = questions.some((row) => row.answers.length);
const scoreOf = (row, run, name) => (row.runs[run] ? row.runs[run].scores[name] : undefined);
// Marks of full and of no points only make sense where scores lie between 0 and 1 and more is better.
const inRange = (value) => typeof value !== "number" || (value >= 0 && value <= 1);
const graded = new Map(scored.map((name) => [name, isBetterHigh(name) && questions.every((row) => runs.every((run) => inRange(scoreOf(row, run, name))))]));
const MARKS = { full: "full marks", part: "part marks", zero: "zero", none: "no score" };
function markOf(value, name = state.metric) {
  if (typeof value !== "number") return "none";
  return !graded.get(name) ? "" : value >= 1 - 1e-9 ? "full" : value > 0 ? "part" : "zero";
}

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

let order = [];
const scroller = byId("rows"), body = byId("body");

function arrange() {
  const words = state.find.trim().toLowerCase();
  const fitting = questions.filter((row) =>
    (!words || row.hay.includes(words)) &&
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
  body.replaceChildren(...order.map((row) => rowOf(row, columns)));
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

function rowOf(row, columns) {
  const element = node("tr", { class: "row", "data-row": row.line });
  for (const column of columns) {
    const change = column.id === "change" ? ` ${changeOf(row).split(" ")[0]}` : "";
    element.append(node(column.head ? "th" : "td", { class: column.css + change, scope: column.head ? "row" : null, "data-label": column.label }, column.cell(row)));
  }
  return element;
}

/** Moves the focus to the row at a place of the table. */
function goTo(at) {
  const row = body.rows[Math.max(0, Math.min(order.length - 1, at))];
  row?.scrollIntoView({ block: "nearest" });
  row?.querySelector("button.open").focus({ preventScroll: true });
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
    const at = questions[Number(button.dataset.id)].at, page = Math.max(1, Math.floor(scroller.clientHeight / body.rows[0].offsetHeight) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: order.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    goTo(to);
  });
}
