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
  showTrace(row);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  if (!stepping || document.activeElement.disabled) byId("trace-title").focus({ preventScroll: true });
  writeAddress(isNew);
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

function showTrace(row) {
  const { question, answers, gold_ids: goldIds } = row;
  byId("trace-title").replaceChildren(bdi(question || row.id));
  const held = runs.filter((run) => row.runs[run]);
  const compared = held.filter((run) => run === state.before || run === state.after);
  const shown = traced ? held.filter((run) => traced.has(run)) : compared;
  const pattern = answerPattern(answers);
  const goldText = answers.join(" | ");
  const [removed, added] = differences(row, compared);
  const parts = [];
  if (answers.length) parts.push(node("p", { class: "gold", ...scrolled("Gold answers", goldText) }, node("span", { class: "label" }, "Gold"), bdi(goldText)));
  if (question) parts.push(node("p", { class: "facts" }, "id ", bdi(row.id)));
  parts.push(node("div", { class: "cards" }, ...held.map((run) => card(row, run, run === state.before && two() ? removed : run === state.after ? added : null, shown.includes(run)))));
  if (removed || added) parts.push(node("p", { class: "quiet" }, "Underlined words are in one answer and not in the other."));
  if (shown.length) parts.push(node("div", { class: "sides" }, ...shown.map((run) => side(row, run, pattern, goldIds))));
  byId("trace-body").replaceChildren(...parts);
}

/** The words of both answers that are compared with whether the other lacks them; nothing where all differ. */
function differences(row, compared) {
  const texts = compared.map((run) => (row.runs[run].answered ? full(row.runs[run].prediction) : ""));
  if (texts.length < 2 || texts[0] === texts[1]) return [null, null];
  const words = texts.map((text) => text.split(/(\s+)/u).filter(Boolean));
  if (Math.max(...words.map((parts) => parts.length)) > 2 * MOST_WORDS) return [null, null];
  const pieces = runsOf(...words);
  const written = (parts) => parts.filter((word) => word.trim()).length;
  const same = pieces.reduce((sum, [parts, how]) => sum + (how === "same" ? written(parts) : 0), 0);
  if (3 * same < Math.max(...words.map(written))) return [null, null];
  return ["added", "removed"].map((lacking) => pieces.filter(([, how]) => how !== lacking).flatMap(([parts, how]) => parts.map((word) => [word, how !== "same"])));
}

/** What an element needs to be scrolled by keyboard, when `text` is so long that it may scroll. */
const scrolled = (name, text) => (text.length > 300 ? { tabindex: "0", role: "group", "aria-label": name } : {});

const ABOUT = new Map(kind("group").map((one) => [one.group, one.about]));

/** The answer of a run with its scores: what one reads before a trace. */
function card(row, run, words, isShown) {
  const held = row.runs[run];
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
const tokens = (amounts) => `${whole.format(Number(amounts.prompt_tokens) || 0)} tokens in, ${whole.format(Number(amounts.completion_tokens) || 0)} out`;

function side(row, run, pattern, goldIds) {
  const held = row.runs[run];
  const element = node("section", { class: "side", "aria-label": `Trace of ${run}` }, node("h3", {}, "Trace", two() ? ", " : "", two() ? bdi(run) : ""));
  if (!held.answered) element.append(node("p", { class: "none" }, "The study keeps the scores of its trials, not their answers."));
  else if (!held.trace.length) element.append(node("p", { class: "none" }, "This row has no trace."));
  else {
    const last = held.trace.findLast((event) => kindOf(event) === "call");
    element.append(node("ol", { class: "events" }, ...held.trace.map((event) => eventOf(event, goldIds, pattern, event === last))));
  }
  return element;
}

/** The kind of an event is the key that has its name. */
const EVENTS = ["call", "search", "gate", "note"];
const kindOf = (event) => EVENTS.find((name) => Object.hasOwn(fieldsOf(event), name)) || "other";

function eventOf(event, goldIds, pattern, isLast) {
  const what = kindOf(event), at = listed(event?.at).slice(0, 6);
  const element = node("li", { class: `${what} depth-${Math.min(3, Math.max(0, at.length - 1))}` });
  const where = at.length ? node("span", { class: "facts" }, `${at.map(full).join(".")} `) : null;
  if (what === "search") element.append(search(event, goldIds, where, pattern));
  else if (what === "gate") {
    const than = typeof event.threshold === "number" ? ` against ${figure(event.threshold)}` : "";
    element.append(node("div", {}, where, node("b", {}, "threshold "), bdi(full(event.gate)), `: ${figure(event.score)}${than}, ${event.passed === true ? "passes" : "does not pass"}`));
  } else if (what === "note") {
    element.append(node("div", {}, where, node("b", {}, bdi(full(event.note))), ": ", bdi(full(event.outcome))), ...prompt(event, pattern));
  } else if (what === "call") element.append(call(event, where, pattern, isLast));
  else element.append(...block("value", JSON.stringify(event, null, 1) ?? "", null));
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
  const hits = listed(event.hits).map(fieldsOf).map((hit) => {
    const id = full(hit.id), title = full(hit.title), text = full(hit.text);
    const item = node("li", {}, bdi(title || id), " ", node("span", { class: "facts" }, title ? bdi(id) : "", typeof hit.score === "number" ? ` ${figure(hit.score)}` : ""));
    if (isGold(id)) item.append(" ", node("span", { class: "badge" }, "gold passage"));
    const [first] = matches(text, pattern, 1);
    if (first) item.append(" ", node("span", { class: "badge holds" }, "holds the answer"));
    if (text) item.append(passage(text, pattern, first ? first[0] : 0));
    return item;
  });
  return node("details", { open: "" },
    node("summary", {}, where, node("b", {}, "search "), bdi(full(event.search)), ": ", bdi(full(event.query)), node("span", { class: "facts" }, ` · ${count(hits.length, "hit")}`)),
    hits.length ? node("ol", { class: "hits" }, ...hits) : node("p", { class: "facts" }, "Nothing was retrieved."));
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
    node("summary", {}, where, node("b", {}, "call "), bdi(full(event.call)), (event.role ?? "main") === "main" ? "" : ` on ${full(event.role)}`, node("span", { class: "facts" }, ` · ${marks.join(" · ")}`)));
  element.append(...prompt(event, pattern));
  const messages = messagesOf(event), inputs = messages.length ? [] : Object.entries(fieldsOf(event.inputs));
  if (messages.length) element.append(copier("Copy prompt as JSON", () => JSON.stringify(messages, null, 2)));
  if (inputs.length) {
    element.append(node("p", { class: "quiet" }, "This row was written without its prompts. These are the inputs of the call."));
    for (const [name, value] of inputs) element.append(...block(name, readable(value), pattern));
  }
  if (Object.keys(fieldsOf(event.outputs)).length) element.append(...block("Read as", JSON.stringify(event.outputs, null, 1), null));
  return element;
}
/** An input as text: a list of texts numbered, anything else than text as JSON. */
function readable(value) {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value.map((item, index) => `[${index + 1}] ${item}`).join("\n\n");
  return JSON.stringify(value, null, 1) ?? "";
}

const messagesOf = (event) => listed(fieldsOf(event.sent).messages).map(fieldsOf);
const ROLES = new Set(["system", "user", "assistant"]);
function* prompt(event, pattern) {
  for (const message of messagesOf(event)) {
    const role = full(message.role);
    yield* block(`sent as ${role}`, full(message.content), pattern, ROLES.has(role) ? role : "");
  }
  const { replies, thoughts: thoughtsOf } = fieldsOf(event.sent);
  for (const [index, reply] of listed(replies).entries()) {
    const thoughts = full(listed(thoughtsOf)[index]);
    if (thoughts) yield node("details", {}, node("summary", {}, "thoughts", node("span", { class: "facts" }, ` · ${count(thoughts.length, "character")}`)), ...block("thoughts", thoughts, null));
    yield* block("reply", full(reply), pattern, "assistant reply");
  }
}
