"""Every page and file for browsers has the same headers: no page of a stranger may show it in a frame."""

from pathlib import Path
from urllib.request import urlopen

from leveret.protocols.http.response import page_headers
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

PATHS = ("/console/", "/console/app.js", "/console/index.html", "/docs", "/docs/docs.js", "/docs/docs.css")


def test_pages_are_not_shown_in_frames_of_others(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    (reports / "monday").mkdir(parents=True)
    (reports / "monday" / "index.html").write_text("<p>Monday")
    with ServerProcess(tmp_path, "--reports-dir", str(reports)) as server:
        for path in PATHS:
            with urlopen(f"http://127.0.0.1:{server.ports['http']}{path}", timeout=PATIENCE_S) as answer:
                assert dict(page_headers()).items() <= dict(answer.headers).items(), path
        report = Api(server.ports["http"]).call("GET", "/reports/monday/page")
    assert "frame-ancestors 'none'" in dict(page_headers())["Content-Security-Policy"]
    assert "frame-ancestors 'self'" in report.headers["content-security-policy"]
    shared = {"x-frame-options": "SAMEORIGIN", "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
    assert shared.items() <= report.headers.items()
