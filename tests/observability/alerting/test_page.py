"""docs/alerts.md says what the source says, and its examples do what they say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leveret.observability.alert_rules import RULES, STREAM_RULES
from leveret.observability.alerting import delivery, payloads
from leveret.observability.alerting.figures import FIGURES
from leveret.observability.alerting.receivers import OF_EMAIL, OF_URL
from leveret.observability.alerting.rules import FIELDS
from leveret.observability.alerting.watch import LAG
from tests.cli.shell import Shell
from tests.cli.test_page import examples
from tests.observability.alerting.mail_server import notification
from tests.sources import ROOT
from tests.test_docs import code, table

PAGE = (ROOT / "docs" / "alerts.md").read_text()


def test_every_example_prints_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    shell = Shell(tmp_path, monkeypatch)
    for example in examples(PAGE):
        assert shell.run(example.command)[1] == example.output, example.command


def test_the_rules_that_are_always_there_are_on_the_page() -> None:
    expected = [
        [code(rule.name), code(rule.figure), f"{rule.limit:,} {rule.unit}", f"{rule.for_s} s", rule.severity]
        for rule in (*RULES, *STREAM_RULES)
    ]
    assert table("alerts.md", "default rules") == expected


def test_the_fields_and_figures_are_on_the_page() -> None:
    assert {row[0] for row in table("alerts.md", "rule")} == {code(name) for name in FIELDS}
    assert {row[0] for row in table("alerts.md", "figures")} == {code(name) for name in (*FIGURES, LAG)}
    assert all(code(name) in PAGE for name in (*OF_URL, *OF_EMAIL))


def test_the_body_on_the_page_is_the_one_that_is_sent() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    sent = json.loads(payloads.webhook(notification(url="https://example.org/"), "hare"))
    assert [shape(json.loads(block)) for block in blocks] == [shape(sent)]


def shape(value: Any) -> Any:
    """The names in a value; of a list, those of its first."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    return [shape(value[0])] if isinstance(value, list) else type(value)


def test_the_waits_on_the_page_are_those_of_the_source() -> None:
    *some, last = (f"{wait_s:g}" for wait_s in delivery.WAITS_S)
    assert f"{', '.join(some)} and {last} seconds" in " ".join(PAGE.split())
