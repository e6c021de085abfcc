// Details of questions stand in parts, a JSON object each: as they are, or compressed in a large page.
const KEPT_PARTS = 12;
const partTexts = [...document.querySelectorAll("script.part")];
const partsRead = new Map();

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** `value` with the texts of its part filled in; what was cut is said behind a text. */
function filled(value, texts) {
  if (Array.isArray(value)) return value.map((item) => filled(item, texts));
  if (value === null || typeof value !== "object") return value;
  if (typeof value.$ === "number") {
    const text = texts[value.$];
    return Array.isArray(text) ? `${text[0]}… (${whole.format(text[1] - text[0].length)} characters more)` : text;
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, filled(inner, texts)]));
}
function readPart(number, text) {
  const part = JSON.parse(text);
  const held = filled(part.questions, part.texts);
  partsRead.delete(number);
  partsRead.set(number, held);
  if (partsRead.size > KEPT_PARTS) partsRead.delete(partsRead.keys().next().value);
  return held;
}
const isDetailed = (row) => row.index < data.detailed;
const partOf = (row) => data.starts.findLastIndex((start) => start <= row.index);

/** The details of a question where they are at hand, else null. */
function detailsNow(row) {
  const number = partOf(row);
  const held = partsRead.get(number) ?? (data.compressed ? null : readPart(number, partTexts[number].textContent));
  return held && held[row.index - data.starts[number]];
}
/** The details of a question, unpacked when they must be. */
async function detailsLater(row) {
  const number = partOf(row);
  const held = readPart(number, await unpack(partTexts[number].textContent));
  return held[row.index - data.starts[number]];
}
