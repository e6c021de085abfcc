if (questions.length) {
  startTable();
  startTrace();
  startSlash();
  showFields();
  arrange();
  if (location.hash.includes("=")) readAddress();
  addEventListener("hashchange", readAddress);
}

// A place that scrolls can be reached by keyboard; one that does not is no stop on the way.
function markScrolling() {
  for (const place of document.querySelectorAll(".scroll:not(#rows)")) {
    if (place.scrollWidth > place.clientWidth + 1) place.setAttribute("tabindex", "0");
    else place.removeAttribute("tabindex");
  }
}
markScrolling();
addEventListener("resize", markScrolling);
addEventListener("toggle", markScrolling, true);

// On paper nothing can be unfolded, so all that is folded is printed open.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("main details:not([open])")];
  for (const one of unfolded) one.open = true;
});
addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });
