// Runs before the first paint, so that a chosen theme does not flash.
(() => {
  const chosen = localStorage.getItem("cortex.theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
})();
