// Light or dark: as the system has it, or as it was chosen here. Runs before anything is drawn: nothing flashes.
(() => {
  const KEY = "leveret-theme";
  const dark = matchMedia("(prefers-color-scheme: dark)");

  /** The theme that is shown. */
  function current() {
    return localStorage.getItem(KEY) ?? (dark.matches ? "dark" : "light");
  }

  /** Show a theme; charts draw themselves again. */
  function apply() {
    document.documentElement.dataset.theme = current();
    dispatchEvent(new Event("theme"));
  }

  /** Change to the other one, and remember it. */
  function toggle() {
    localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
    apply();
  }

  dark.addEventListener("change", apply);
  apply();
  globalThis.leveretTheme = { current, toggle };
})();
