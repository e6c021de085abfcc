const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
// Lines of the file next to the page, each with its number there.
const { rows } = data;
const kind = (name) => rows.filter((row) => row.row === name);
const report = rows[0];
const whole = new Intl.NumberFormat("en");
const metrics = new Map(Object.entries(data.metrics));
const isBetterHigh = (name) => metrics.get(name)?.better !== false;
const direction = (name) => (isBetterHigh(name) ? "higher is better" : "lower is better");
/** A figure of the metric `name`; without one, with decimals by its own size. */
function figure(value, name) {
  if (typeof value !== "number") return "–";
  const size = Math.abs(value);
  const decimals = metrics.get(name)?.decimals ?? (size >= 10000 ? 0 : size >= 100 ? 1 : size > 0 && size < 0.01 ? Math.min(12, 2 - Math.floor(Math.log10(size))) : 3);
  const text = value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return /[1-9]/.test(text) ? text.replace("-", "\u2212") : text.replace("-", "");
}
const count = (n, one, several = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : several}`;
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

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

/** `value` as a text; "" for none. Rows from elsewhere may hold anything. */
const full = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value));
const listed = (value) => (Array.isArray(value) ? value : []);
const fieldsOf = (value) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : {});

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
  const patterns = [];
  for (const answer of answers) {
    const words = (answer.slice(0, 1000).match(/[\p{L}\p{M}\p{N}]+/gu) || []).filter((word) => !/^(a|an|the)$/iu.test(word));
    const plain = words.join(" ").toLowerCase();
    if (plain.length > 2 && !EVERYWHERE.has(plain)) patterns.push(words.join("[^\\p{L}\\p{M}\\p{N}]+(?:(?:a|an|the)[^\\p{L}\\p{M}\\p{N}]+)?"));
  }
  patterns.sort((one, other) => other.length - one.length);
  return patterns.length ? new RegExp(`(?<![\\p{L}\\p{M}\\p{N}])(?:${patterns.join("|")})(?![\\p{L}\\p{M}\\p{N}])`, "giu") : null;
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
