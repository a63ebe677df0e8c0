"""What is published: the sdist has every source, and wheels work outside of the repository."""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy import dist
from deploy.release import Refused, bill, checksums, numbers, plain, release, rewritten, version_of
from tests.server_process import ServerProcess
from tests.sources import ROOT, files
from tests.test_tidy import requirements

CLIENT = re.compile(r"^```python\n(import leveret\n.*?connect\(.*?)^```$", re.MULTILINE | re.DOTALL)
"""The example of the README that is a program with our client."""
PIKA = re.compile(r"^```python\n(import pika\n.*?)^```$", re.MULTILINE | re.DOTALL)
LOCKED = re.compile(r"^([\w.-]+)==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", re.MULTILINE)
COMMANDS = re.compile(r"^    (leveret (?:queues|publish|consume).*)$", re.MULTILINE)


def example(pattern: re.Pattern[str]) -> str:
    found = pattern.search((ROOT / "README.md").read_text())
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dist")


@pytest.fixture(scope="module")
def archive(work: Path) -> Path:
    return dist.sdist(work / "out", work)


def installed(work: Path, name: str, *wheels: str) -> Path:
    """The Python of an empty environment with wheels."""
    return dist.environment(work / name, sys.executable, wheels)


def test_the_sdist_has_every_source_and_nothing_that_is_generated(archive: Path) -> None:
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in files(".py", ".pyx", ".pxd", ".h", under="src")} | {"stubs.py"}
    assert not sources - names
    assert not [name for name in names if name.endswith((".c", ".so", ".pyi"))]


def test_a_wheel_without_compiled_modules_is_a_client(archive: Path, work: Path) -> None:
    made = dist.wheel(dist.unpacked(archive, work), work / "out", work, pure=True)
    assert made.name.endswith("-py3-none-any.whl")
    assert {"leveret/py.typed", "leveret/core/queue.pyi"} < set(zipfile.ZipFile(made).namelist())
    python = installed(work, "pure", str(made))
    with ServerProcess(work) as server:
        text = example(CLIENT).replace("127.0.0.1:15672", f"127.0.0.1:{server.ports['http']}")
        dist.run([python, "-c", text], work)
        with server.client() as broker:
            stats = broker.queue("orders").stats()
            assert (stats.published, stats.acked) == (1, 1)


@pytest.mark.slow
def test_a_compiled_wheel_serves_the_first_example_where_there_is_no_compiler(archive: Path, work: Path) -> None:
    made = dist.wheel(dist.unpacked(archive, work), work / "out", work)
    python = installed(work, "compiled", f"{made}[server]", "pika")
    no_compiler = {"PATH": str(python.parent), "PYTHONPATH": ""}
    with ServerProcess(work, environ=no_compiler, python=str(python)) as server:
        flags = f" --url {server.http_url}"
        for line in COMMANDS.findall((ROOT / "README.md").read_text()):
            done = dist.run(["sh", "-c", line + flags], work, {"PATH": f"{python.parent}:/bin"})
        assert "first order" in done
        port = f"import pika; pika.connection.Parameters.DEFAULT_PORT = {server.port}\n"
        assert "Hello, world!" in dist.run([python, "-c", port + example(PIKA)], work)
        text = example(CLIENT).replace("127.0.0.1:15672", f"127.0.0.1:{server.ports['http']}")
        dist.run([python, "-c", text], work)


def test_the_lock_file_has_a_hash_for_each_dependency_and_no_address() -> None:
    text = (ROOT / "requirements-dev.lock").read_text()
    locked = {plain(match[1]) for match in LOCKED.finditer(text)}
    assert len(locked) == len(re.findall(r"^[\w.-]+==", text, re.MULTILINE))
    assert "://" not in text
    assert not {plain(name) for name in requirements()} - locked


# Releases


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A clone of this one with its changelog as users find it."""
    tree = tmp_path / "repository"
    dist.run(["git", "clone", "--quiet", "--local", "--depth", "1", f"file://{ROOT}", tree])
    return tree


def test_a_release_has_its_version_everywhere(repository: Path) -> None:
    changed = {str(path.relative_to(repository)) for path in rewritten(repository, "7.8.9", "2030-01-02")}
    assert {"pyproject.toml", "CHANGELOG.md", "deploy/compose/compose.yaml", "docs/runbook.md"} <= changed
    assert version_of(repository) == "7.8.9"
    assert "## [Unreleased]\n\n## [7.8.9] - 2030-01-02\n" in (repository / "CHANGELOG.md").read_text()
    with pytest.raises(Refused, match=r"does not come after 7\.8\.9"):
        rewritten(repository, "7.8.9", "2030-01-02")
    with pytest.raises(Refused, match="nothing under Unreleased"):
        rewritten(repository, "8.0.0", "2030-01-02")


@pytest.mark.parametrize("version", ["1", "v1.2.3", "1.2.3rc1"])
def test_a_version_has_three_numbers(version: str) -> None:
    with pytest.raises(Refused, match="is no version"):
        numbers(version)


def test_a_release_is_refused_before_anything_is_made(repository: Path) -> None:
    (repository / "README.md").write_text("other")
    with pytest.raises(Refused, match="not committed"):
        release("7.8.9", [], [], dry=True, root=repository)
    dist.run(["git", "checkout", "--quiet", "README.md"], repository)
    dist.run(["git", "tag", "v7.8.9"], repository)
    with pytest.raises(Refused, match="exists"):
        release("7.8.9", [], [], dry=True, root=repository)
    assert not (repository / "build").exists()


def test_the_bill_of_materials_says_what_needs_what() -> None:
    installed = [
        {"name": "leveret", "version": "7.8.9", "requires": ["Http_Tools>=0.7", "redis; extra == 'x'"], "licence": "A"},
        {"name": "http.tools", "version": "0.8", "requires": [], "licence": ""},
    ]
    found = bill("7.8.9", installed, "2030-01-02T03:04:05+00:00")
    ours, theirs = "pkg:pypi/leveret@7.8.9", "pkg:pypi/http-tools@0.8"
    assert found["metadata"]["component"]["bom-ref"] == ours
    assert [each["purl"] for each in found["components"]] == [theirs]
    assert found["dependencies"] == [{"ref": theirs, "dependsOn": []}, {"ref": ours, "dependsOn": [theirs]}]


def test_checksums_are_those_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "other").write_bytes(b"other")
    sums = checksums(tmp_path)
    assert dist.run(["sha256sum", "--check", "--strict"], tmp_path, text=sums).count("OK") == 2


@pytest.mark.slow
def test_a_dry_run_of_a_release_leaves_the_repository_alone(repository: Path) -> None:
    before = dist.run(["git", "rev-parse", "HEAD"], repository)
    made = release("7.8.9", [], ["--no-repair"], dry=True, root=repository)
    assert dist.run(["git", "rev-parse", "HEAD"], repository) == before
    assert not dist.run(["git", "tag", "--list", "v7.8.9"], repository)
    names = {path.name for path in made.iterdir()}
    assert {"leveret-7.8.9.tar.gz", "leveret-7.8.9-py3-none-any.whl", "leveret-7.8.9.cdx.json", "SHA256SUMS"} < names
    assert len(names) == 5
