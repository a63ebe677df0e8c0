"""The names of the package: each is there, and is imported only when somebody asks for it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import leveret
from leveret.config import ServerOptions
from leveret.server.authentication import oauth_of
from tests.server_process import TRACEBACK, ServerProcess


def told_to_type_checkers() -> dict[str, str]:
    """Which module has which name, by the imports that only type checkers see."""
    tree = ast.parse(Path(leveret.__file__).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {each.name: node.module or "" for node in imports for each in node.names}


def test_every_name_is_found_where_type_checkers_look_for_it() -> None:
    told = told_to_type_checkers()
    homes, errors = vars(leveret)["MODULES"], vars(leveret)["ERRORS"]
    assert {name: homes.get(name, errors) for name in leveret.__all__} == {
        name: told.get(name) for name in leveret.__all__
    }
    assert homes.keys() <= set(leveret.__all__)
    for name in leveret.__all__:
        assert getattr(leveret, name) is not None
        assert name in dir(leveret)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(leveret, "opne")


EXTRAS = ("cryptography", "jwt", "psycopg", "pyarrow", "pyspark", "redis")
WITHOUT_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS})); from leveret.cli.main import main; "


def test_a_server_needs_none_of_the_extras(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, program=("-c", WITHOUT_EXTRAS + "sys.exit(main())")) as server:
        assert server.stop() == 0


def test_a_node_without_its_extra_is_told_what_to_install(tmp_path: Path) -> None:
    flags = ("--cluster", "c", "--store", "postgresql://db/c", "--etcd", "http://127.0.0.1:1", "--data", str(tmp_path))
    script = WITHOUT_EXTRAS + f"sys.exit(main(['serve', *{flags}]))"
    environ = {**os.environ, "LEVERET_CLUSTER_SECRET": "a secret that is long enough for a node"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environ)
    assert (done.returncode, TRACEBACK in done.stderr) == (2, False), done.stderr
    assert "pip install 'leveret[cluster]'" in done.stderr


SERVER_LIBRARIES = ("obstore", "orjson", "re2", "uvloop")
WITHOUT_SERVER = f"import sys; sys.modules.update(dict.fromkeys({SERVER_LIBRARIES})); "
IN_PROCESS = """
import leveret
with leveret.open(sys.argv[1]) as broker:
    orders = broker.queue("orders", dead_letter="dead")
    orders.send({"n": 1})
    (message,) = orders.receive()
    message.reject()
    print(broker.queue("dead").stats().ready)
    broker.exchange("events", "topic").bind(orders, "a.*")
"""


def test_a_broker_in_the_process_needs_none_of_the_libraries_of_a_server(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SERVER + IN_PROCESS, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize(
    ("script", "library"),
    [
        ("from leveret.cli.main import main; sys.exit(main(['serve']))", "this command needs libraries"),
        ("from leveret.core.patterns import pattern; pattern('a+b')", "patterns need a library"),
    ],
    ids=["serve", "pattern"],
)
def test_without_the_libraries_of_a_server_one_is_told_what_to_install(script: str, library: str) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_SERVER + script], capture_output=True, text=True, check=False)
    assert done.returncode
    assert f"{library}: pip install 'leveret[server]'" in done.stderr


def test_who_wants_web_tokens_is_told_which_library_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    for name in ("web_tokens", "jwks", "oidc"):
        monkeypatch.delitem(sys.modules, f"leveret.security.{name}", raising=False)
    with pytest.raises(leveret.InvalidArgument, match=r"pip install 'leveret\[oauth\]'"):
        oauth_of(ServerOptions(oauth_issuer="https://id.example", oauth_keys="keys.json"))


def test_importing_the_package_imports_nothing_of_it() -> None:
    script = "import leveret, sys; print(*[name for name in sys.modules if name.startswith('leveret.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
