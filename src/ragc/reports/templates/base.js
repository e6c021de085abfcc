const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const rows = data.rows.map((row, index) => ({ ...row, line: index + 1 }));
const kind = (name) => rows.filter((row) => row.row === name);
const report = rows[0];
const whole = new Intl.NumberFormat("en");
const figure = (value) =>
  typeof value !== "number" ? "–" : Math.abs(value) < 100 ? value.toFixed(3) : whole.format(+value.toFixed(1));
const count = (n, one, several = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : several}`;

// Every text becomes a text node; nothing of the data is ever parsed as HTML.
function node(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
const bdi = (...parts) => node("bdi", {}, ...parts);

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

/** Where `pattern`, a global regular expression, matches in `text`: the first `most` as [start, end]. */
function matches(text, pattern, most = 200) {
  const spans = [];
  if (!pattern) return spans;
  for (const match of text.matchAll(pattern)) {
    if (match[0]) spans.push([match.index, match.index + match[0].length]);
    if (spans.length === most) break;
  }
  return spans;
}
/** `text` as nodes, with what `pattern` matches in marks. */
function marked(text, pattern) {
  const parts = [];
  let at = 0;
  for (const [start, end] of matches(text, pattern)) {
    parts.push(text.slice(at, start), node("mark", {}, text.slice(start, end)));
    at = end;
  }
  return [...parts, text.slice(at)];
}
/** A pattern for `words` as they stand, in upper or lower case; null for none. */
const literal = (words) => (words ? new RegExp(words.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "giu") : null);

const EVERYWHERE = new Set(["yes", "no", "none", "true", "false", "noanswer", "unknown", "invalid question"]);
/**
 * A pattern for any of `answers` as whole words, without regard to case, punctuation and articles; null when
 * none of them tells anything by standing in a text, as "yes" and "3" do not.
 */
function answerPattern(answers) {
  const listed = [];
  for (const answer of answers) {
    const words = (answer.slice(0, 1000).match(/[\p{L}\p{M}\p{N}]+/gu) || []).filter((word) => !/^(a|an|the)$/iu.test(word));
    const plain = words.join(" ").toLowerCase();
    if (plain.length > 2 && !EVERYWHERE.has(plain)) listed.push(words.join("[^\\p{L}\\p{M}\\p{N}]+(?:(?:a|an|the)[^\\p{L}\\p{M}\\p{N}]+)?"));
  }
  listed.sort((one, other) => other.length - one.length);
  return listed.length ? new RegExp(`(?<![\\p{L}\\p{M}\\p{N}])(?:${listed.join("|")})(?![\\p{L}\\p{M}\\p{N}])`, "giu") : null;
}

/** A button that copies what `text` gives; it says whether that succeeded. */
function copier(label, text, attributes = {}) {
  const button = node("button", { type: "button", class: "copy", ...attributes }, label);
  button.addEventListener("click", () => copy(button, label, text()));
  return button;
}
async function copy(button, label, text) {
  let held = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Some browsers have no clipboard for pages that are files.
    const field = node("textarea", { "aria-hidden": "true" });
    field.value = text;
    button.after(field);
    field.focus();
    field.select();
    held = document.execCommand("copy");
    field.remove();
    button.focus();
  }
  const name = button.dataset.name ??= button.getAttribute("aria-label") || label;
  button.textContent = held ? "Copied" : "Not copied";
  button.setAttribute("aria-label", button.textContent);
  setTimeout(() => { button.textContent = label; button.setAttribute("aria-label", name); }, 1500);
}
