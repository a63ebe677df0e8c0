"""Reports of the pipeline over HTTP: those in their directory, and nothing else of the disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

PAGE = "<!doctype html><title>Report</title>"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A server with a report, and with what is none."""
    folder: Path = tmp_path_factory.mktemp("reports")
    (folder / "secret").mkdir()
    (folder / "secret" / "index.html").write_text("secret")
    reports = folder / "reports"
    for name in ("monday", "empty", ".hidden"):
        (reports / name).mkdir(parents=True)
    for name in ("monday", ".hidden"):
        (reports / name / "index.html").write_text(PAGE)
    (reports / "monday" / "summary.txt").write_text("all is well")
    (reports / "link").symlink_to(folder / "secret")
    with ServerProcess(folder, "--reports-dir", str(reports)) as server:
        yield Api(server.ports["http"])


def test_reports_are_listed_and_shown(api: Api) -> None:
    (row,) = api.get("/reports")
    assert (row["name"], row["bytes"]) == ("monday", len(PAGE))
    assert api.get("/reports/monday") == {"name": "monday", "summary": "all is well"}


def test_browsers_run_nothing_of_a_page(api: Api) -> None:
    answer = api.call("GET", "/reports/monday/page")
    assert (answer.status, answer.body) == (200, PAGE.encode())
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", ["link", "empty", ".hidden", "..", "..%2Fsecret", "%2e%2e%2fsecret", "a" * 200])
def test_nothing_else_of_the_disk_is_told(api: Api, name: str) -> None:
    for path in (f"/reports/{name}", f"/reports/{name}/page"):
        assert api.call("GET", path).status in (400, 404)


def test_only_monitors_see_them(api: Api) -> None:
    api.put("/users/visitor", {"password": "wonderland", "tags": "management"})
    assert Api(api.port, "visitor", "wonderland").call("GET", "/reports").status == 401
