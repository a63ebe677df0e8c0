// The frame of the console: login, menu, and the page that belongs to the address.

import { ask, isAway, Refused } from "./api.js";
import { h } from "./dom.js";
import { badge } from "./figures.js";
import { firingCount, watchFiring } from "./firing.js";
import { time } from "./format.js";
import { announce, isLive, RETRY_MS } from "./live.js";
import { PAGES } from "./pages.js";
import { showLogin } from "./pages/login.js";
import { here, match } from "./router.js";
import { forget, hasTag, logOut, recall, renew, who } from "./session.js";
import { warn } from "./toast.js";

const RENEW_MS = 600_000; // well within the hour after which an unused session ends
const app = document.getElementById("app");
let leaving = new AbortController(); // from the page
let loggingOut = new AbortController();
let main = null;
let freshAt = Date.now();
let title = "";

/** The entries of the menu that the user may open, by group. */
function groups() {
  const found = new Map();
  for (const page of PAGES.filter((each) => each.group && hasTag(each.tag))) {
    found.set(page.group, [...(found.get(page.group) ?? []), page]);
  }
  return found;
}

function menu() {
  const sections = [...groups()].map(([group, pages]) =>
    h(
      "div",
      { class: "group" },
      h("h2", {}, group),
      h(
        "ul",
        {},
        pages.map((page) => h("li", {}, entry(page))),
      ),
    ),
  );
  return h("nav", { id: "menu", "aria-label": "Main" }, sections);
}

function entry(page) {
  return h("a", { href: `#${page.path}`, "data-path": page.path }, page.name);
}

/** Show how many alerts are firing in the menu and in the title of the window. */
function showFiring() {
  const firing = firingCount();
  const link = app.querySelector('#menu a[data-path="/alerts"]');
  link?.querySelector(".badge")?.remove();
  const mark = firing ? badge(String(firing), "bad") : null;
  mark?.setAttribute("aria-label", `${firing} firing`);
  if (mark) link?.append(" ", mark);
  document.title = `${firing ? `(${firing}) ` : ""}${title} · Leveret`;
}

function topBar() {
  const open = h(
    "button",
    {
      class: "quiet menu-button",
      type: "button",
      "aria-expanded": "false",
      "aria-controls": "menu",
      onclick: toggleMenu,
    },
    "Menu",
  );
  const theme = h(
    "button",
    { class: "quiet", type: "button", onclick: () => globalThis.leveretTheme.toggle() },
    "Theme",
  );
  const leave = h("button", { class: "quiet", type: "button", onclick: logOutHere }, "Log out");
  const brand = h(
    "a",
    { class: "brand", href: "#/" },
    h("img", { src: "icon.svg", alt: "", width: 24, height: 24 }),
    "Leveret",
  );
  const state = h("span", { id: "freshness", class: "soft", role: "status" });
  return h("header", { class: "top" }, open, brand, state, h("span", { class: "user" }, who().user), theme, leave);
}

function toggleMenu(event) {
  const open = app.classList.toggle("menu-open");
  event.currentTarget.setAttribute("aria-expanded", String(open));
}

async function logOutHere() {
  let elsewhere;
  try {
    elsewhere = await logOut();
  } catch (error) {
    return warn(error.message); // the session goes on
  }
  loggingOut.abort();
  if (elsewhere) location.assign(elsewhere);
  else start();
}

function showFrame() {
  main = h("main", { id: "main", tabindex: "-1" });
  const skip = h("a", { class: "skip", href: "#main", onclick: skipToMain }, "Skip to content");
  app.className = "frame";
  app.replaceChildren(skip, topBar(), menu(), main);
  loggingOut.abort();
  loggingOut = new AbortController();
  watchFiring(loggingOut.signal, showFiring, showAgain);
}

/** Show a page again that does not ask by itself, unless the user is about to send something. */
function showAgain() {
  if (isLive()) return;
  announce(null);
  if (!main.querySelector("form:focus-within")) show();
}

function skipToMain(event) {
  event.preventDefault();
  main.focus();
}

/** The page of an address, and what stands in it. */
function find(path) {
  for (const page of PAGES) {
    const params = match(page.path, path);
    if (params) return { page, params };
  }
  return null;
}

/** Show the page of the address. */
async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { path, query } = here();
  const found = find(path);
  app.classList.remove("menu-open");
  app.querySelector(".menu-button").setAttribute("aria-expanded", "false");
  if (!found || !hasTag(found.page.tag)) return showNothing(found);
  mark(found.page);
  title = Object.values(found.params).at(-1) ?? found.page.name;
  showFiring();
  const fresh = h("div", { class: "page" });
  try {
    const module = await found.page.load().catch(loadAgain);
    await module.show({ root: fresh, params: found.params, query, signal });
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === undefined) throw error;
    if (isAway(error)) later(() => show(), signal);
    fresh.replaceChildren(
      h("h1", { tabindex: "-1" }, found.page.name),
      h("p", { class: "problem", role: "alert" }, error.status === 404 && found.page.under ? gone(found) : error.message),
    );
  }
  if (signal.aborted) return;
  // Only now: the page is there as a whole, and nothing jumps.
  main.replaceChildren(fresh);
  main.scrollTop = 0;
  fresh.querySelector("h1")?.focus({ preventScroll: true });
}

/** A module did not come: browsers remember that, so all are loaded again as soon as the broker answers. */
async function loadAgain(failure) {
  const { signal } = leaving;
  const reload = () =>
    ask("GET", "/console/session", undefined, signal).then(
      () => location.reload(),
      () => later(reload, signal),
    );
  if (!(failure instanceof TypeError)) throw failure; // a fault of the module itself
  later(reload, signal);
  throw new Refused(503, "The broker does not answer: this page is loaded as soon as it does.");
}

/** Do something after a while, unless the page was left. */
function later(action, signal) {
  setTimeout(() => signal.aborted || action(), RETRY_MS);
}

/** What is said about something that is not there, or not any more. */
function gone({ page, params }) {
  const list = h("a", { href: `#${page.under}` }, "See those that are here.");
  return [`Not found: there is no ${page.name.toLowerCase()} “${Object.values(params).at(-1)}”. `, list];
}

function showNothing(found) {
  const text = found ? "Your user may not see this page: ask an administrator." : "There is no such page.";
  main.replaceChildren(h("h1", { tabindex: "-1" }, "Not here"), h("p", {}, text));
}

function mark(page) {
  for (const link of app.querySelectorAll("#menu a")) {
    const current = link.dataset.path === (page.under ?? page.path);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** Ask who is there; show the login or the page. */
async function start() {
  leaving.abort();
  leaving = new AbortController();
  try {
    await recall();
  } catch (error) {
    app.className = "login";
    app.replaceChildren(h("main", {}, h("h1", {}, "Leveret"), h("p", { class: "problem", role: "alert" }, error.message)));
    return later(start, leaving.signal);
  }
  if (who().user) {
    showFrame();
    await show();
  } else showLogin(app, start);
}

addEventListener("hashchange", () => who().user && show());
addEventListener("session-ended", () => {
  if (!who().user) return;
  forget();
  leaving.abort();
  loggingOut.abort();
  showLogin(app, start, "The session has ended: log in again.");
});
addEventListener("freshness", ({ detail }) => {
  const state = document.getElementById("freshness");
  const isStale = Boolean(detail && !detail.partly);
  if (!isStale) freshAt = Date.now();
  if (state) state.textContent = isStale ? `Last updated ${time(freshAt)}. ${detail.message}` : (detail?.message ?? "");
  state?.classList.toggle("bad", Boolean(detail));
  main?.classList.toggle("stale", isStale);
});
setInterval(renew, RENEW_MS);
await start();
