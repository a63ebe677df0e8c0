"""What keyboards and screen readers need of every page: landmarks, names, labels, and a focus that gets everywhere."""

import json

import pytest
from playwright.sync_api import expect

from tests.protocols.console.browser import Console
from tests.sources import ROOT

# Every complaint names the element that it is about.
CHECK = """() => {
  const wrong = [];
  const seen = (element) => element.checkVisibility();
  const told = (element) => element.outerHTML.slice(0, 120);
  const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
  const named = (element) => element.textContent.trim() || element.getAttribute("aria-label")
    || element.getAttribute("aria-labelledby") || element.querySelector("title, img[alt]:not([alt=''])");
  for (const [selector, count] of [["main", 1], ["h1", 1], ["header.top", 1], ["nav[aria-label=Main]", 1]]) {
    if (all(selector).length !== count) wrong.push(`${all(selector).length} of ${selector}`);
  }
  const about = (selector, text, fits) => wrong.push(
    ...all(selector).filter((element) => !fits(element)).map((element) => `${text}: ${told(element)}`));
  about("a, button, [role=tab]", "without a name", named);
  about("input, select, textarea", "without a label", (each) => each.labels.length || each.ariaLabel);
  about("table", "without a caption", (each) => each.caption);
  about("th", "without a scope", (each) => each.scope);
  about("nav, [role=region], section, iframe, [role=img], [role=meter]", "without a name",
    (each) => each.ariaLabel || each.getAttribute("aria-labelledby") || each.title);
  about("img", "without an alternative", (each) => each.hasAttribute("alt"));
  about("[tabindex]", "out of the order of the page", (each) => each.tabIndex <= 0);
  for (const name of ["aria-labelledby", "aria-describedby", "aria-controls"]) {
    about(`[${name}]`, "tied to what is not there", (each) => document.getElementById(each.getAttribute(name)));
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  wrong.push(...ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `two of the id ${id}`));
  const levels = all("h1, h2, h3").map((each) => Number(each.tagName[1]));
  levels.forEach((level, index) => {
    if (index && level > levels[index - 1] + 1) wrong.push(`a heading of level ${level} after ${levels[index - 1]}`);
  });
  return wrong;
}"""
REACHABLE = """() => {
  const selector = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  return [...document.querySelectorAll(`main :is(${selector})`)]
    .filter((each) => each.checkVisibility() && !each.disabled && each.tabIndex >= 0).length;
}"""
VISIBLE = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return [document.querySelector("main").contains(document.activeElement), outlineStyle !== "none" && outlineWidth];
}"""
INSIDE = "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
PLACES = {
    ":queue": "orders",
    ":exchange": "shop",
    ":user": "visitor",
    ":report": "monday",
    "/vhosts/:vhost": "/vhosts/%2F",
    ":vhost": "%2F",
}
UNSTEADY = {":connection", ":node", ":stream"}
"""What has no name that is known here."""


def addresses() -> list[str]:
    """Every page of the console."""
    text = (ROOT / "src/leveret/protocols/console/page/pages.js").read_text()
    found = [line.split('"')[1] for line in text.replace("{ path", "{\n path").splitlines() if " path: " in line]
    steady = [path for path in found if not any(each in path for each in UNSTEADY)]
    for name, place in PLACES.items():
        steady = [path.replace(name, place) for path in steady]
    return steady


@pytest.mark.parametrize("path", addresses())
def test_a_page_has_landmarks_names_and_labels(console: Console, path: str) -> None:
    with console.open(path) as page:
        assert json.dumps(page.evaluate(CHECK)) == "[]"


def test_a_dialog_has_a_name_and_keeps_the_focus(console: Console) -> None:
    with console.open("/queues/%2F/orders") as page:
        publish = page.get_by_role("button", name="Publish")
        publish.focus()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Publish to orders")
        expect(dialog).to_be_visible()
        assert json.dumps(page.evaluate(CHECK)) == "[]"
        for _ in range(12):
            page.keyboard.press("Tab")
            assert page.evaluate(
                "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(publish).to_be_focused()


@pytest.mark.parametrize("path", ["/dead-letters", "/users/visitor", "/routing", "/queues/%2F/orders?tab=messages"])
def test_the_keyboard_reaches_everything_and_shows_where_it_is(console: Console, path: str) -> None:
    with console.open(path) as page:
        wanted = page.evaluate(REACHABLE)
        assert wanted > 2
        page.get_by_role("main").focus()
        reached = 0
        for _ in range(wanted + 1):
            page.keyboard.press("Tab")
            inside, outline = page.evaluate(VISIBLE)
            if not inside:
                break
            assert outline, page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
            reached += 1
        assert reached == wanted
