// Dots of trials say what they are when pointed at or focused, and open the row of their trial. Of the dots of
// a chart one is a tab stop; the arrow keys move to the others.
const tip = node("div", { id: "tip", "aria-hidden": "true", hidden: "" });
document.body.append(tip);

let told = null;  // the dot that the tip is about

function showTip(dot, text) {
  tip.textContent = text;
  tip.hidden = false;
  told = dot;
  placeTip();
}

function placeTip() {
  const box = told.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(innerWidth - own.width - 8, box.left + box.width / 2 - own.width / 2));
  const above = box.top - own.height - 8;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 8}px`;
}
const hideTip = () => { tip.hidden = true; };

function tellDots(svg, dots) {
  const marks = svg.querySelector("g.hits") ?? [...svg.querySelectorAll("g")].at(-1);
  const circles = [...marks.querySelectorAll("circle")];
  const listed = circles.map((circle, index) => [circle, dots[index]]).sort(([, one], [, other]) => one.number - other.number);
  listed.forEach(([circle, trial], at) => {
    const text = about(trial);
    for (const [name, value] of Object.entries({ class: "dot", role: "button", "aria-label": `${text} Opens its row.`, tabindex: at ? "-1" : "0", "data-trial": trial.number })) circle.setAttribute(name, value);
    circle.addEventListener("pointerenter", () => showTip(circle, text));
    circle.addEventListener("pointerleave", hideTip);
    circle.addEventListener("focus", () => showTip(circle, text));
    circle.addEventListener("blur", hideTip);
    circle.addEventListener("click", () => openTrial(trial.number));
    circle.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hideTip();
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        openTrial(trial.number);
        return;
      }
      const to = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: listed.length - 1 }[event.key];
      const next = to === undefined ? null : listed[Math.max(0, Math.min(listed.length - 1, to))][0];
      if (!next) return;
      event.preventDefault();
      circle.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  });
}
// To focus a dot may scroll the page: its tip goes along. One of a dot that is only pointed at is left behind.
addEventListener("scroll", () => {
  if (!tip.hidden && told === document.activeElement) placeTip();
  else hideTip();
}, { passive: true });

/** Opens the table of trials and goes to the row of one. */
function openTrial(number) {
  const row = byId(`trial-${number}`);
  if (!row) return;
  hideTip();
  row.closest("details").open = true;
  for (const other of row.parentElement.querySelectorAll(".opened")) other.classList.remove("opened");
  row.classList.add("opened");
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}
for (const button of document.querySelectorAll("button[data-compare]")) {
  button.addEventListener("click", () => compareTrial(Number(button.dataset.compare)));
}

// Tables whose heads sort their rows, by what `data-value` says or the text of the cells.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0], first = [...body.rows];
  for (const [column, head] of heads.entries()) {
    if (!head.querySelector("button")) continue;
    head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
      const isNumber = first.every((row) => value(row) === "" || Number.isFinite(Number(value(row))));
      const keyed = first.map((row, index) => [value(row), index, row]);
      keyed.sort(([one, at], [other, to]) => {
        if ((one === "") !== (other === "")) return one === "" ? 1 : -1;
        const compared = isNumber ? one - other : one < other ? -1 : one > other ? 1 : 0;
        return (down ? -compared : compared) || at - to;
      });
      body.replaceChildren(...keyed.map(([, , row]) => row));
    });
  }
}
