// The page at `/`. What comes from the server, passages and replies above all, is put on the page as text.
"use strict";

const MOST = 20000; // characters of a text that are shown before somebody asks for all of it
const at = (id) => document.getElementById(id);
let running = null; // the AbortController of the question that is being answered
let sources = [];

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function say(text, wrong = false) {
  at("status").textContent = text;
  at("status").className = wrong ? "wrong" : "";
}

const text = (value) => (typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value, null, 2));
const list = (value) => (Array.isArray(value) ? value : []);
const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

// A text in a box. Of a long one the beginning is shown, and a button shows the rest.
function box(value) {
  const whole = text(value), held = document.createDocumentFragment();
  const shown = element("pre", whole.slice(0, MOST));
  shown.tabIndex = 0;
  shown.dir = "auto";
  held.append(shown);
  if (whole.length > MOST) {
    const more = element("button", `Show all ${whole.length.toLocaleString("en")} characters`);
    more.type = "button";
    more.addEventListener("click", () => { shown.textContent = whole; more.remove(); shown.focus(); });
    held.append(more);
  }
  return held;
}

// A part that is filled when it is first opened, as most never are.
function part(title, fill) {
  const made = element("details"), head = element("summary", title.slice(0, 300));
  head.dir = "auto";
  made.append(head);
  made.addEventListener("toggle", () => { if (made.open && made.children.length === 1) made.append(fill()); });
  return made;
}

function headers() {
  const key = at("key").value.trim();
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

async function problemOf(reply) {
  const body = await reply.json().catch(() => ({}));
  if (reply.status === 401) { at("access").open = true; at("key").focus(); }
  return new Error(text(body?.error?.message) || `The server answers with status ${reply.status}.`);
}

async function readModels() {
  try {
    const reply = await fetch("/v1/models", { headers: headers() });
    if (!reply.ok) throw await problemOf(reply);
    at("model").replaceChildren(...list((await reply.json()).data).map((one) => new Option(one.id, one.id)));
    say("");
  } catch (error) { say(error.message, true); }
}

// The server's events, one JSON value after another.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (held + value).split("\n");
    held = lines.pop();
    for (const line of lines) if (line.startsWith("data: {")) yield JSON.parse(line.slice(6));
  }
}

function stepText(step) {
  if ("search" in step) return `Search in ${text(step.search)}: ${text(step.query)} (${count(list(step.hits).length, "passage")})`;
  if ("call" in step) return `Call ${text(step.call)} (${count((step.prompt_tokens ?? 0) + (step.completion_tokens ?? 0), "token")})`;
  if ("gate" in step) return `${text(step.gate)}: ${text(step.score)}, ${step.passed ? "passed" : "not passed"}`;
  return `${text(step.note)}: ${text(step.outcome)}`;
}

function addStep(step) {
  at("seen").hidden = false;
  const item = element("li", stepText(step).slice(0, 500));
  item.dir = "auto";
  at("steps").append(item);
}

// The answer, its marks [n] as buttons that open the passage.
function showAnswer(answer) {
  at("answered").hidden = false;
  const parts = answer.split(/(\[\d{1,3}\])/).map((piece) => {
    const number = /^\[(\d+)\]$/.exec(piece)?.[1];
    if (!number || !sources[number - 1]) return piece;
    const mark = element("button", piece, "mark");
    mark.type = "button";
    mark.setAttribute("aria-label", `Open source ${number}`);
    mark.addEventListener("click", () => openSource(number - 1));
    return mark;
  });
  at("answer").replaceChildren(...parts);
}

function openSource(number) {
  const made = at("sources").children[number];
  made.open = true;
  made.querySelector("summary").focus();
  made.scrollIntoView({ block: "nearest" });
}

function showSources(passages) {
  sources = passages;
  at("shown").hidden = !passages.length;
  at("sources").replaceChildren(...passages.map((passage, n) => {
    const title = text(passage.title) || text(passage.id);
    return part(`[${n + 1}] ${title}`, () => {
      const held = document.createDocumentFragment();
      held.append(element("p", text(passage.id), "note"), box(passage.text));
      return held;
    });
  }));
}

function showPrompts(trace) {
  const calls = trace.filter((event) => event && event.sent);
  at("sent").hidden = !calls.length;
  at("prompts").replaceChildren(...calls.map((call) => part(`${text(call.call ?? call.note)}, ${text(call.role)}`, () => {
    const held = document.createDocumentFragment();
    for (const message of list(call.sent.messages)) held.append(element("p", text(message.role), "note"), box(message.content));
    for (const thought of list(call.sent.thoughts)) if (thought) held.append(element("p", "thoughts", "note"), box(thought));
    for (const reply of list(call.sent.replies)) held.append(element("p", "reply", "note"), box(reply));
    return held;
  })));
}

function showEnd(own, usage, shown) {
  showSources(list(own.passages));
  showAnswer(text(own.text ?? shown));
  showPrompts(list(own.trace));
  const money = own.usd ? `, $${Number(own.usd).toPrecision(3)}` : "";
  const replayed = own.replayed ? ", replayed" : "";
  const tokens = count(usage?.total_tokens ?? 0, "token");
  at("cost").textContent = `${count(own.calls ?? 0, "call")}, ${count(own.searches ?? 0, "search").replace(/hs$/, "hes")}, ${tokens}${money}${replayed}`;
}

function clear() {
  sources = [];
  for (const id of ["answered", "seen", "shown", "sent"]) at(id).hidden = true;
  for (const id of ["answer", "steps", "sources", "prompts", "cost"]) at(id).replaceChildren();
}

async function answer(signal) {
  const body = {
    model: at("model").value, stream: true, stream_options: { include_usage: true },
    messages: [{ role: "user", content: at("question").value }], ragc: { steps: true, trace: true },
  };
  const reply = await fetch("/v1/chat/completions", { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!reply.ok) throw await problemOf(reply);
  let shown = "", own = null, usage = null;
  for await (const event of events(reply.body)) {
    if (event.error) throw new Error(text(event.error.message));
    if (event.ragc?.step) addStep(event.ragc.step); else if (event.ragc) own = event.ragc;
    usage = event.usage ?? usage;
    const more = event.choices?.[0]?.delta?.content;
    if (more) { shown += more; at("answered").hidden = false; at("answer").textContent = shown; }
  }
  if (!own) throw new Error("The connection ended before the answer was whole.");
  showEnd(own, usage, shown);
}

async function ask() {
  if (running || !at("question").value.trim()) return;
  running = new AbortController();
  clear();
  at("ask").disabled = true;
  at("stop").disabled = false;
  say("Working …");
  try {
    if (!at("model").value) await readModels();
    await answer(running.signal);
    say("Done.");
  } catch (error) {
    if (error.name === "AbortError") say("Stopped."); else say(error.message, true);
  } finally {
    running = null;
    at("ask").disabled = false;
    at("stop").disabled = true;
  }
}

const stop = () => running?.abort();

at("form").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
at("stop").addEventListener("click", stop);
at("key").addEventListener("change", readModels);
at("unlock").addEventListener("submit", (event) => { event.preventDefault(); readModels(); });
at("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); ask(); }
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); at("question").focus(); }
});
at("question").focus();
readModels();
