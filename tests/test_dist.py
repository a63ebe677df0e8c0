"""What is published: the sdist has every source, and wheels work outside of the repository."""

import re
import tarfile
from pathlib import Path

import pytest

from deploy import dist
from tests.server_process import ServerProcess
from tests.sources import ROOT, files

CLIENT = re.compile(r"^```python\n(import leveret\n.*?connect\(.*?)^```$", re.MULTILINE | re.DOTALL)
"""The example of the README that is a program with our client."""
PIKA = re.compile(r"^```python\n(import pika\n.*?)^```$", re.MULTILINE | re.DOTALL)
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


def installed(work: Path, name: str, wheel: Path, *more: str) -> Path:
    """The Python of an empty environment with a wheel."""
    return dist.environment(work / name, dist.sys.executable, [str(wheel), *more])


def test_the_sdist_has_every_source_and_nothing_that_is_generated(archive: Path) -> None:
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    sources = {str(path.relative_to(ROOT)) for path in files(".py", ".pyx", ".pxd", ".pyi", ".h", under="src")}
    assert not sources - names
    assert not [name for name in names if name.endswith((".c", ".so"))]


def test_a_wheel_of_the_sdist_without_compiled_modules_has_all_of_python(archive: Path, work: Path) -> None:
    made = dist.wheel(dist.unpacked(archive, work), work / "out", work, pure=True)
    assert made.name.endswith("-py3-none-any.whl")
    python = installed(work, "pure", made)
    script = "import leveret; print(leveret.__file__)"
    assert str(work) in dist.run([python, "-c", script], work)


@pytest.mark.slow
def test_a_compiled_wheel_serves_the_first_example_where_there_is_no_compiler(archive: Path, work: Path) -> None:
    made = dist.wheel(dist.unpacked(archive, work), work / "out", work)
    python = installed(work, "compiled", made, "pika")
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
