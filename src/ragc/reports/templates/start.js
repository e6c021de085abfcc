if (questions.length) {
  startTable();
  startTrace();
  showFields();
  arrange();
  if (location.hash.includes("=")) readAddress();
  addEventListener("hashchange", readAddress);
}
