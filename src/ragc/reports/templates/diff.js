// What differs between two programs: their settings, and the prompts that they sent.
const CONTEXT = 3;
/** The most cells of a table of common parts; longer texts are compared by lines alone. */
const MOST_CELLS = 6e6;

/** `one` and `other` as runs of parts: [parts, "same" | "removed" | "added"]. */
function runsOf(one, other) {
  let start = 0;
  while (start < Math.min(one.length, other.length) && one[start] === other[start]) start++;
  let left = one.length, right = other.length;
  while (left > start && right > start && one[left - 1] === other[right - 1]) { left--; right--; }
  const out = [];
  const put = (parts, how) => {
    if (!parts.length) return;
    if (out.length && out.at(-1)[1] === how) out.at(-1)[0].push(...parts);
    else out.push([[...parts], how]);
  };
  put(one.slice(0, start), "same");
  const a = one.slice(start, left), b = other.slice(start, right);
  if (a.length * b.length > MOST_CELLS) {
    put(a, "removed");
    put(b, "added");
  } else {
    const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
    let i = 0, j = 0;
    while (i < a.length || j < b.length) {
      if (i < a.length && j < b.length && a[i] === b[j]) { put([a[i++]], "same"); j++; }
      else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) put([a[i++]], "removed");
      else put([b[j++]], "added");
    }
  }
  put(one.slice(left), "same");
  return out;
}

const MARKED = { removed: "del", added: "ins" };
/** Two texts as one, with what only the first has in del and what only the second has in ins. */
function unified(one, other) {
  const element = node("pre", { class: "diff", tabindex: "0", role: "group", "aria-label": "Differences" });
  const runs = runsOf(one.split(/(?<=\n)/), other.split(/(?<=\n)/));
  for (let at = 0; at < runs.length; at++) {
    const [lines, how] = runs[at];
    if (how === "same") {
      element.append(...same(lines, at === 0, at === runs.length - 1));
      continue;
    }
    const next = runs[at + 1];
    if (how === "removed" && next?.[1] === "added") {
      const words = runsOf(lines.join("").split(/(\s+)/).filter(Boolean), next[0].join("").split(/(\s+)/).filter(Boolean));
      const kept = words.filter(([, one]) => one === "same").flatMap(([parts]) => parts).filter((part) => part.trim()).length;
      if (kept >= 3) {
        element.append(...words.map(([parts, one]) => (one === "same" ? parts.join("") : node(MARKED[one], {}, parts.join("")))));
        at++;
        continue;
      }
    }
    element.append(node(MARKED[how], {}, lines.join("")));
  }
  return element;
}
/** Lines that both have; of many only those beside a difference, and a button that shows the others. */
function same(lines, isFirst, isLast) {
  const before = isFirst ? 0 : CONTEXT, after = isLast ? 0 : CONTEXT;
  if (lines.length <= before + after + 3) return [lines.join("")];
  const hidden = lines.slice(before, lines.length - after);
  const button = node("button", { type: "button", class: "copy" }, `${count(hidden.length, "equal line")}`);
  const holder = node("span", { class: "equal" }, button, "\n");
  button.addEventListener("click", () => holder.replaceWith(hidden.join("")));
  return [lines.slice(0, before).join(""), holder, lines.slice(lines.length - after).join("")];
}

const chosenTrial = trials.find((trial) => trial.chosen);
const callsIn = (row, run) => listed(row.runs[run]?.trace).filter((event) => kindOf(event) === "call" && messagesOf(event).length);
/** The first prompt of each predictor in a run, for one question: the same for all runs if they share one. */
function promptsOf(run) {
  const row = questions.find((one) => runs.every((name) => callsIn(one, name).length)) ?? questions.find((one) => callsIn(one, run).length);
  const prompts = new Map();
  for (const event of row ? callsIn(row, run) : []) {
    const predictor = full(event.call);
    if (!prompts.has(predictor)) prompts.set(predictor, { predictor, question: row.id, messages: messagesOf(event) });
  }
  return [...prompts.values()];
}
function programsToCompare() {
  const named = { baseline: trials[0], compiled: chosenTrial, "best trial": chosenTrial };
  const prompts = new Map(runs.map((run) => [run, promptsOf(run)]));
  const ofRuns = runs.filter((run) => prompts.get(run).length).map((name) => ({ key: `run ${name}`, label: name, params: Object.hasOwn(named, name) ? named[name]?.params : undefined, prompts: prompts.get(name) }));
  const ofTrials = trials.map((trial) => ({
    key: `trial ${trial.number}`, label: `trial ${trial.number}${trial === trials[0] ? " (baseline)" : trial.chosen ? " (chosen)" : ""}`, params: trial.params,
    prompts: prompts.get(trial === trials[0] ? "baseline" : trial.chosen ? "compiled" : "") ?? [],
  }));
  return [...ofRuns, ...ofTrials];
}
const comparable = programsToCompare();

const LABELS = { demos: "demonstrations", demo_set: "demonstration set" };
function valueOf(params, name) {
  if (!Object.hasOwn(params, name) && name === "demo_set") return "none";
  if (!Object.hasOwn(params, name)) return name === "demos" || name.endsWith(": demos") ? "0" : "as in the program";
  const value = params[name];
  return typeof value === "boolean" ? (value ? "on" : "off") : String(value);
}
function settingsTable(one, other) {
  if (!one.params || !other.params) return node("p", { class: "quiet" }, "The settings of both are not known here; their prompts say what differs.");
  const names = [...new Set([...Object.keys(one.params), ...Object.keys(other.params)])];
  const differing = names.filter((name) => valueOf(one.params, name) !== valueOf(other.params, name));
  if (!differing.length) return node("p", {}, `All ${count(names.length, "setting")} are the same.`);
  return node("table", { class: "small stack" },
    node("thead", {}, node("tr", {}, ...["Setting", one.label, other.label].map((name) => node("th", { scope: "col" }, bdi(name))))),
    node("tbody", {}, ...differing.map((name) => node("tr", {}, node("th", { scope: "row" }, bdi(LABELS[name] || name)),
      node("td", { "data-label": one.label }, bdi(valueOf(one.params, name))), node("td", { "data-label": other.label }, bdi(valueOf(other.params, name)))))));
}
const asText = (prompt) => prompt.messages.map((message) => `[${full(message.role)}]\n${full(message.content)}\n`).join("\n");
function promptParts(one, other) {
  const names = [...new Set([...one.prompts, ...other.prompts].map((prompt) => prompt.predictor))];
  if (!names.length) return [node("p", { class: "quiet" }, "The prompts of these trials are not recorded; those of the baseline and of the compiled program are, where test questions were answered.")];
  return names.flatMap((name) => {
    const [before, after] = [one, other].map((side) => side.prompts.find((prompt) => prompt.predictor === name));
    const title = node("h4", {}, "Prompt of ", bdi(name));
    if (!before || !after) return [title, node("p", { class: "quiet" }, "Only ", bdi((before ? one : other).label), " has a prompt of it here."), unified(before ? asText(before) : "", after ? asText(after) : "")];
    if (asText(before) === asText(after)) return [title, node("p", { class: "quiet" }, "Both sent the same.")];
    const about = before.question === after.question ? `Both for the question ${before.question}.` : `For the questions ${before.question} and ${after.question}.`;
    return [title, node("p", { class: "quiet" }, about), unified(asText(before), asText(after))];
  });
}
function showDifferences() {
  const [one, other] = ["left", "right"].map((id) => comparable.find((side) => side.key === byId(id).value));
  byId("differences").replaceChildren(node("h3", {}, "Settings"), settingsTable(one, other), node("h3", {}, "Prompts"), ...promptParts(one, other));
}
function startDifferences() {
  if (comparable.length < 2) return;
  byId("compare").hidden = false;
  for (const link of document.querySelectorAll("a[href='#compare']")) link.parentElement.hidden = false;
  for (const id of ["left", "right"]) {
    byId(id).append(...comparable.map((one) => node("option", { value: one.key }, one.label)));
    byId(id).addEventListener("change", showDifferences);
  }
  const runKeys = comparable.filter((one) => one.key.startsWith("run "));
  byId("left").value = runKeys.length > 1 ? runKeys[0].key : "trial 0";
  byId("right").value = runKeys.length > 1 ? runKeys.at(-1).key : `trial ${chosenTrial?.number ?? trials.at(-1)?.number}`;
  if (byId("left").selectedIndex < 0) byId("left").selectedIndex = 0;
  if (byId("right").selectedIndex < 0) byId("right").selectedIndex = 1;
  showDifferences();
}
/** Compares a trial with the baseline. */
function compareTrial(number) {
  byId("left").value = `trial ${trials[0].number}`;
  byId("right").value = `trial ${number}`;
  showDifferences();
  byId("compare").scrollIntoView();
  byId("right").focus({ preventScroll: true });
}
startDifferences();
