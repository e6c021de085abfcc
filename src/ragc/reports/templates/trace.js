const dialog = byId("trace");
const MOST_WORDS = 600;
/** Characters of a passage that stand in a trace before it is opened. */
const PASSAGE = 320;
let current = null;
/** The runs whose traces are shown; null for the two that are compared. */
let traced = null;

function open(row, isNew = false) {
  const stepping = ["previous", "next"].includes(document.activeElement?.id);
  current = row;
  byId("trace-title").replaceChildren(bdi(full(row.question) || full(row.id)));
  byId("previous").disabled = row.at === 0;
  byId("next").disabled = row.at + 1 >= order.length;
  byId("where").textContent = `${whole.format(row.at + 1)} of ${whole.format(order.length)}${order.length < questions.length ? ", as filtered" : ""}`;
  showDetails(row);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  if (!stepping || document.activeElement.disabled) byId("trace-title").focus({ preventScroll: true });
  writeAddress(isNew);
}
/** Shows the details of a question: at once where they are at hand, else when they are unpacked. */
function showDetails(row) {
  row.details = isDetailed(row) ? detailsNow(row) : null;
  showTrace(row);
  if (row.details || !isDetailed(row)) return;
  detailsLater(row).then((held) => {
    if (current !== row) return;
    row.details = held;
    showTrace(row);
  }).catch((error) => byId("trace-body").append(node("p", { class: "none" }, `The details cannot be unpacked (${error.message}).`)));
}
function step(by) {
  const row = order[current.at + by];
  if (row) open(row);
}

function startTrace() {
  byId("previous").addEventListener("click", () => step(-1));
  byId("next").addEventListener("click", () => step(1));
  byId("close").addEventListener("click", () => dialog.close());
  byId("link").addEventListener("click", () => copy(byId("link"), "Copy link", addressOf()));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    step(by);
  });
  // A dialog prints as one page, the rest cut off; so an open trace is printed in the place of the report.
  addEventListener("beforeprint", () => {
    if (!dialog.open) return;
    const title = node("h2", {}, byId("trace-title").textContent);
    document.body.append(node("div", { id: "printed-trace" }, title, byId("trace-body").cloneNode(true)));
    byId("printed-trace").lastChild.removeAttribute("id");
  });
  addEventListener("afterprint", () => byId("printed-trace")?.remove());
  dialog.addEventListener("close", () => {
    if (!current) return;
    writeAddress();
    goTo(current.at);
  });
}

/** What is known of the answer of a run: all of it, or what the index has while details are unpacked. */
const answerOf = (row, run) => ({ ...row.runs[run], ...(row.details?.runs[run] ?? { counters: {}, trace: null }) });

function showTrace(row) {
  const { question, answers, gold_ids: goldIds } = row.details ?? { ...row, gold_ids: [] };
  byId("trace-title").replaceChildren(bdi(question || row.id));
  const held = runs.filter((run) => row.runs[run]);
  const compared = held.filter((run) => run === state.before || run === state.after);
  const shown = traced ? held.filter((run) => traced.has(run)) : compared;
  const pattern = answerPattern(answers);
  const goldText = answers.join(" | ");
  const [removed, added] = differences(row, compared);
  const parts = [];
  if (answers.length) parts.push(node("p", { class: "gold", ...scrolled("Gold answers", goldText) }, node("span", { class: "label" }, "Gold"), bdi(goldText)));
  if (question) parts.push(node("p", { class: "facts" }, "id ", bdi(row.details?.id ?? row.id)));
  parts.push(node("div", { class: "cards" }, ...held.map((run) => card(row, run, run === state.before && two() ? removed : run === state.after ? added : null, shown.includes(run)))));
  if (removed || added) parts.push(node("p", { class: "quiet" }, "Underlined words are in one answer and not in the other."));
  if (shown.length) parts.push(node("div", { class: "sides" }, ...shown.map((run) => side(row, run, pattern, goldIds))));
  byId("trace-body").replaceChildren(...parts);
}

/** The words of both answers that are compared with whether the other lacks them; nothing where all differ. */
function differences(row, compared) {
  const texts = compared.map((run) => (row.runs[run].answered ? full(answerOf(row, run).prediction) : ""));
  if (texts.length < 2 || texts[0] === texts[1]) return [null, null];
  const [one, other] = texts.map((text) => text.split(/(\s+)/u).filter(Boolean));
  if (Math.max(one.length, other.length) > 2 * MOST_WORDS) return [null, null];
  const common = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      common[i][j] = one[i] === other[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const removed = [], added = [];
  let i = 0, j = 0, same = 0;
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      if (one[i].trim()) same++;
      removed.push([one[i++], false]);
      added.push([other[j++], false]);
    } else if (j >= other.length || (i < one.length && common[i + 1][j] >= common[i][j + 1])) removed.push([one[i++], true]);
    else added.push([other[j++], true]);
  }
  const longest = Math.max(...[one, other].map((words) => words.filter((word) => word.trim()).length));
  return 3 * same >= longest ? [removed, added] : [null, null];
}

/** What an element needs to be scrolled by keyboard, when `text` is so long that it may scroll. */
const scrolled = (name, text) => (text.length > 300 ? { tabindex: "0", role: "group", "aria-label": name } : {});

const ABOUT = new Map(kind("group").map((one) => [one.group, one.about]));

/** The answer of a run with its scores: what one reads before a trace. */
function card(row, run, words, isShown) {
  const held = answerOf(row, run);
  const element = node("section", { class: "card", "aria-label": `Answer of ${run}` }, node("h3", {}, bdi(run)));
  if (held.answered) {
    const answer = words
      ? words.map(([word, differs]) => (differs && word.trim() ? node(run === state.before ? "del" : "ins", {}, word) : word))
      : [full(held.prediction)];
    element.append(held.prediction === null
      ? node("p", { class: "answer none" }, "No answer: ", bdi(full(held.failure)))
      : node("p", { class: "answer", ...scrolled(`Text of ${run}`, full(held.prediction)) }, bdi(...answer)));
  }
  const scores = node("p", { class: "scores" });
  for (const name of scored) {
    const value = scoreOf(row, run, name);
    if (typeof value === "number") scores.append(node("span", { class: name === state.metric ? "deciding" : null }, bdi(name), " ", pill(value, name)), " ");
  }
  element.append(scores);
  if (held.group_title) element.append(node("p", { class: "facts" }, node("b", {}, held.group_title), ABOUT.get(held.group) ? `: ${ABOUT.get(held.group)}` : ""));
  const amounts = held.counters;
  const spent = [["lm_calls", "call"], ["searches", "search", "searches"]].filter(([name]) => amounts[name]).map(([name, ...words]) => count(amounts[name], ...words));
  if (amounts.prompt_tokens || amounts.completion_tokens) spent.push(tokens(amounts));
  else if (amounts.tokens) spent.push(count(amounts.tokens, "token"));
  if (amounts.seconds) spent.push(`${amounts.seconds.toFixed(1)} s`);
  if (spent.length) element.append(node("p", { class: "facts" }, spent.join(", ")));
  if (runs.length > 2 && held.answered) {
    const button = node("button", { type: "button", "aria-pressed": String(isShown), "aria-label": `Trace of ${run}` }, "Trace");
    button.addEventListener("click", () => {
      traced ??= new Set([state.before, state.after]);
      if (!traced.delete(run)) traced.add(run);
      showTrace(row);
      [...document.querySelectorAll("#trace-body .card button")].find((one) => one.getAttribute("aria-label") === `Trace of ${run}`)?.focus();
    });
    element.append(button);
  }
  return element;
}
const tokens = (amounts) => `${whole.format(amounts.prompt_tokens || 0)} tokens in, ${whole.format(amounts.completion_tokens || 0)} out`;

function side(row, run, pattern, goldIds) {
  const held = answerOf(row, run);
  const element = node("section", { class: "side", "aria-label": `Trace of ${run}` }, node("h3", {}, "Trace", two() ? ", " : "", two() ? bdi(run) : ""));
  if (!held.answered) element.append(node("p", { class: "none" }, "The study keeps the scores of its trials, not their answers."));
  else if (!isDetailed(row)) element.append(node("p", { class: "none" }, "This page has the traces of the first questions only; the rows that the report is about have it."));
  else if (!held.trace) element.append(node("p", { class: "none" }, "Unpacking …"));
  else if (!held.trace.length) element.append(node("p", { class: "none" }, "This row has no trace."));
  else {
    const last = held.trace.findLast((event) => event.kind === "call");
    element.append(node("ol", { class: "events" }, ...held.trace.map((event) => eventOf(event, goldIds, pattern, event === last))));
  }
  return element;
}

function eventOf(event, goldIds, pattern, isLast) {
  const element = node("li", { class: `${event.kind} depth-${Math.min(3, Math.max(0, event.at.length - 1))}` });
  const where = event.at.length ? node("span", { class: "facts" }, `${event.at.join(".")} `) : null;
  if (event.kind === "search") element.append(search(event, goldIds, where, pattern));
  else if (event.kind === "gate") {
    const than = typeof event.threshold === "number" ? ` against ${figure(event.threshold)}` : "";
    element.append(node("div", {}, where, node("b", {}, "threshold "), bdi(full(event.name)), `: ${figure(event.score)}${than}, ${event.passed ? "passes" : "does not pass"}`));
  } else if (event.kind === "note") {
    element.append(node("div", {}, where, node("b", {}, bdi(full(event.name))), ": ", bdi(full(event.outcome))), ...prompt(event, pattern));
  } else if (event.kind === "call") element.append(call(event, where, pattern, isLast));
  else element.append(...block("value", JSON.stringify(event.value, null, 1) ?? "", null));
  return element;
}

/** A text under its name, with a button that copies it. */
function block(name, text, pattern, role = "") {
  return [
    node("div", { class: "head" }, node("h4", {}, bdi(name)), copier("Copy", () => text, { "aria-label": `Copy ${name}` })),
    node("pre", { tabindex: "0", role: "group", "aria-label": name, class: role || null }, ...marked(text, pattern)),
  ];
}

function search(event, goldIds, where, pattern) {
  const gold = new Set(goldIds);
  const isGold = (id) => gold.has(id) || gold.has(id.replace(/#\d+$/, ""));
  const hits = event.hits.map((hit) => {
    const id = full(hit.id), title = full(hit.title), text = full(hit.text);
    const item = node("li", {}, bdi(title || id), " ", node("span", { class: "facts" }, title ? bdi(id) : "", typeof hit.score === "number" ? ` ${figure(hit.score)}` : ""));
    if (isGold(id)) item.append(" ", node("span", { class: "badge" }, "gold passage"));
    const [first] = matches(text, pattern, 1);
    if (first) item.append(" ", node("span", { class: "badge holds" }, "holds the answer"));
    if (text) item.append(passage(text, pattern, first ? first[0] : 0));
    return item;
  });
  return node("details", { open: "" },
    node("summary", {}, where, node("b", {}, "search "), bdi(full(event.name)), ": ", bdi(full(event.query)), node("span", { class: "facts" }, ` · ${count(event.n, "hit")}`)),
    hits.length ? node("ol", { class: "hits" }, ...hits) : node("p", { class: "facts" }, event.n ? "This row does not say which passages." : "Nothing was retrieved."));
}

/** A passage: a long one around the answer in it, with a button that shows all of it. */
function passage(text, pattern, at) {
  const element = node("p", {}, bdi(...marked(text, pattern)));
  if (text.length <= PASSAGE * 1.3) return element;
  const from = Math.max(0, Math.min(at - PASSAGE / 3, text.length - PASSAGE));
  const part = () => [from ? "…" : "", ...marked(text.slice(from, from + PASSAGE), pattern), from + PASSAGE < text.length ? "…" : ""];
  const button = node("button", { type: "button", class: "copy", "aria-expanded": "false" }, "Show all");
  const show = (all) => {
    element.replaceChildren(bdi(...(all ? marked(text, pattern) : part())), " ", button);
    button.setAttribute("aria-expanded", String(all));
    button.textContent = all ? "Show less" : "Show all";
  };
  button.addEventListener("click", () => { show(button.getAttribute("aria-expanded") === "false"); button.focus(); });
  show(false);
  return element;
}

function call(event, where, pattern, isLast) {
  const marks = [tokens(event)];
  if (event.truncated) marks.push("cut by the token limit");
  if (event.repaired) marks.push(event.raised_limit ? `asked again with room for ${count(event.raised_limit, "token")}` : "asked twice");
  if (event.mended) marks.push(`${count(event.mended, "value")} mended`);
  const element = node("details", { open: isLast },
    node("summary", {}, where, node("b", {}, "call "), bdi(full(event.name)), event.role === "main" ? "" : ` on ${full(event.role)}`, node("span", { class: "facts" }, ` · ${marks.join(" · ")}`)));
  element.append(...prompt(event, pattern));
  if (event.messages?.length) element.append(copier("Copy prompt as JSON", () => JSON.stringify(event.messages, null, 2)));
  const inputs = Object.entries(event.inputs || {});
  if (inputs.length) {
    element.append(node("p", { class: "quiet" }, "This row was written without its prompts. These are the inputs of the call."));
    for (const [name, value] of inputs) element.append(...block(name, readable(value), pattern));
  }
  const outputs = Object.entries(event.outputs);
  if (outputs.length) element.append(...block("Read as", JSON.stringify(event.outputs, null, 1), null));
  return element;
}
/** An input as text: a list of texts numbered, anything else than text as JSON. */
function readable(value) {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.map((item, index) => `[${index + 1}] ${item}`).join("\n\n");
  return JSON.stringify(value, null, 1) ?? "";
}

const ROLES = new Set(["system", "user", "assistant"]);
function* prompt(event, pattern) {
  for (const message of event.messages || []) {
    const role = full(message.role);
    yield* block(`sent as ${role}`, full(message.content), pattern, ROLES.has(role) ? role : "");
  }
  for (const [index, reply] of (event.replies || []).entries()) {
    const thoughts = full(event.thoughts?.[index] || "");
    if (thoughts) yield node("details", {}, node("summary", {}, "thoughts", node("span", { class: "facts" }, ` · ${count(thoughts.length, "character")}`)), ...block("thoughts", thoughts, null));
    yield* block("reply", full(reply), pattern, "assistant reply");
  }
}
