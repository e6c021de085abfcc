// The part of the address after # holds the filters and the open question, as far as they differ from what a
// page opens with: #change=lost&find=paris&q=q17. Without "=" it names a section.

const LONGEST_ID = 120;

/** The address of what is shown now. */
function addressOf() {
  const held = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (value !== defaults[key]) held.set(key, value === true ? "1" : value);
  if (current && dialog.open) {
    if (current.id.length <= LONGEST_ID) held.set("q", current.id);
    else held.set("row", current.line);
  }
  return `${location.href.split("#")[0]}#${String(held) || "questions"}`;
}
function writeAddress(isNew = false) {
  const address = addressOf();
  if (address === location.href) return;
  try {
    history[isNew ? "pushState" : "replaceState"](null, "", address);
  } catch {
    // A page inside another may have no history; it works without.
  }
}

/** Closes the trace for an address without one. The close event, which comes later, must not write over a newer address. */
function leave() {
  if (!dialog.open) return;
  const { at } = current;
  current = null;
  dialog.close();
  goTo(at);
}

/** Shows what the address names; values that this report does not have are left out. */
function readAddress() {
  const text = location.hash.slice(1);
  if (text && !text.includes("=")) {
    leave();
    return;
  }
  const held = new URLSearchParams(text);
  const allowed = {
    metric: scored, before: runs, after: runs, columns: ["all", "two"], change: CHANGES.map(([id]) => id), run: runs,
    score: Object.keys(MARKS), group: kind("group").map((one) => one.group),
  };
  Object.assign(state, defaults);
  for (const key of Object.keys(defaults)) {
    const value = held.get(key);
    if (value === null) continue;
    if (key === "down") state.down = value === "1";
    else if (!allowed[key] || allowed[key].includes(value)) state[key] = value;
  }
  showFields();
  arrange();
  const id = held.get("q"), line = Number(held.get("row"));
  const row = questions.find((one) => (id !== null ? one.id === id : one.line === line));
  byId("missing").hidden = row || (id === null && !line);
  byId("missing").textContent = "The address names a question that is not in this report.";
  if (row) {
    if (!order.includes(row)) {
      Object.assign(state, { find: "", change: "", score: "", group: "", run: "" });
      showFields();
      arrange();
    }
    open(row);
  } else {
    leave();
    if (text) byId("questions").scrollIntoView();
  }
}
