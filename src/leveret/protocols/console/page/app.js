// The frame of the console: login, menu, and the page that belongs to the address.

import { h } from "./dom.js";
import { PAGES } from "./pages.js";
import { showLogin } from "./pages/login.js";
import { here, match } from "./router.js";
import { forget, hasTag, logOut, recall, renew, who } from "./session.js";
import { warn } from "./toast.js";

const RENEW_MS = 600_000; // well within the hour after which an unused session ends
const app = document.getElementById("app");
let leaving = new AbortController();
let main = null;

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
  const elsewhere = await logOut().catch((error) => warn(error.message));
  if (elsewhere) location.assign(elsewhere);
  else start();
}

function showFrame() {
  main = h("main", { id: "main", tabindex: "-1" });
  const skip = h("a", { class: "skip", href: "#main", onclick: skipToMain }, "Skip to content");
  app.className = "frame";
  app.replaceChildren(skip, topBar(), menu(), main);
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
  document.title = `${Object.values(found.params).at(-1) ?? found.page.name} · Leveret`;
  const fresh = h("div", { class: "page" });
  try {
    const module = await found.page.load();
    await module.show({ root: fresh, params: found.params, query, signal });
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === undefined) throw error;
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
  try {
    await recall();
  } catch (error) {
    warn(error.message);
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
  showLogin(app, start, "The session has ended: log in again.");
});
addEventListener("freshness", ({ detail }) => {
  const state = document.getElementById("freshness");
  const said = detail?.partly ? detail.message : `Not updated: ${detail?.message}`;
  if (state) state.textContent = detail ? said : "";
  state?.classList.toggle("bad", Boolean(detail));
});
setInterval(renew, RENEW_MS);
await start();
