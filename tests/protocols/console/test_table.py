"""Tables of the console: rows stay where they are, and what stays acts on what the row is now."""

from playwright.sync_api import Page

from tests.protocols.console.browser import Console

TABLE = """async ([before, after]) => {
  const { tableOf } = await import("./table.js");
  const { button } = await import("./figures.js");
  const seen = [];
  const columns = [
    { label: "Name", show: (row) => row.name },
    { label: "Actions", show: (row) => button("Act", () => seen.push({ ...row })) },
  ];
  const table = tableOf({ caption: "Trial", columns, key: (row) => row.name, empty: "Nothing." });
  table.update(before);
  const first = table.element.querySelector("button");
  table.update(after);
  table.element.querySelectorAll("button").forEach((each) => each.click());
  return [seen, first === table.element.querySelector("button")];
}"""


def acted_on(page: Page, before: list[dict[str, object]], after: list[dict[str, object]]) -> object:
    return page.evaluate(TABLE, [before, after])


def test_a_button_that_stayed_acts_on_what_the_row_is_now(console: Console) -> None:
    with console.open() as page:
        before: list[dict[str, object]] = [{"name": "a", "value": 1, "gone": True}, {"name": "b", "value": 1}]
        after: list[dict[str, object]] = [{"name": "a", "value": 2}, {"name": "c", "value": 3}]
        assert acted_on(page, before, after) == [after, True]
