"""The arrows of the architecture: who may import whom, what the core must not touch, and that the map is true."""

import ast
import re
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.conftest import need
from tests.sources import ROOT, code, files, imports, module, names, relative

SHARED = {"clock", "config", "file_sync", "http_client", "version"}
# What each part of the package may import besides itself, from the core outwards. "" is leveret/__init__.py; it, server
# and runtime are the composition roots: only they join an edge or the core with a store. The command line starts one.
# Nothing imports spark: `leveret pipeline` finds a job by its name when it is run (cli/pipeline.py), so that all other
# commands start without Spark. `pipeline` is its former name, for those who import that.
ARROWS: dict[str, set[str]] = {
    "core": set(),
    "clock": set(),
    "config": set(),
    "file_sync": set(),
    "http_client": {"core", "pure"},
    "version": set(),
    # Stands in for compiled modules where there are none.
    "pure": {"core", "wire"},
    # The server and the client speak it, and so do the links of a cluster that carry AMQP.
    "wire": {"core"},
    "storage": {"core"} | SHARED,
    # Alerts look at queues under the lock of the runtime, and call no address of this machine: to be passed in.
    "observability": {"core", "security", "runtime"} | SHARED,
    "security": {"core"} | SHARED,
    "runtime": {"core", "storage", "observability", "security"} | SHARED,
    "operations": {"core", "storage", "observability", "security", "runtime"} | SHARED,
    "embedded": {"core", "storage", "observability", "runtime"} | SHARED,
    "client": {"core", "observability", "runtime", "embedded", "wire"} | SHARED,
    "ingest": {"core", "storage", "observability", "runtime"} | SHARED,
    "protocols": {"core", "observability", "security", "runtime", "operations", "ingest", "wire"} | SHARED,
    "cluster": {"core", "storage", "observability", "security", "runtime", "operations", "embedded"}
    | {"ingest", "protocols", "wire"}
    | SHARED,
    "server": {"core", "storage", "observability", "security", "runtime", "operations", "embedded"}
    | {"client", "ingest", "protocols", "cluster", "wire"}
    | SHARED,
    "cli": {"core", "storage", "observability", "security", "runtime", "operations", "embedded"}
    | {"client", "ingest", "protocols", "server"}
    | SHARED,
    "__main__": {"cli"},
    "spark": {"core", "storage", "observability", "client", "ingest", "cluster"} | SHARED,
    "pipeline": set(),
    "": {"core", "storage", "runtime", "embedded", "client", "pure"} | SHARED,
}
# What each protocol may import of the others: all know sockets, and five are made on HTTP.
PROTOCOLS: dict[str, set[str]] = {
    "net": set(),
    "amqp": {"net"},
    "http": {"net"},
    "rest": {"http"},
    "sqs": {"http"},
    "management": {"http", "net"},
    "metrics": {"http", "net", "management"},
    "console": {"http"},
}

# Whatever makes two runs of the same calls differ, or waits, or leaves the process.
IMPURE_MODULE = re.compile(
    r"(_thread|asyncio|concurrent|ctypes|fcntl|glob|http|logging|mmap|multiprocessing|obstore|os|pathlib|queue"
    r"|random|sched|secrets|select|selectors|shutil|signal|socket|socketserver|sqlite3|ssl|subprocess|tempfile|threading"
    r"|time|urllib|uuid|uvloop|posix|libc\.(time|stdio|signal)|cpython\.(pythread|time))(\.|$)"
)
PATTERNS = "src/leveret/core/patterns.py"
# Inside of a function, with something else than a constant.
LATE_RE = re.compile(
    r"^\s.*(?<![\w.])re\.(?:compile|search|match|fullmatch|sub|subn|split|findall|finditer)\((?![rb]{0,2}[\"'])"
)
IMPURE_HEADER = re.compile(r"extern from [\"']<?((?:time|stdio|unistd|fcntl|pthread|signal|sys/\w+)\.h)>?[\"']")
IMPURE_CALL = re.compile(r"(?<![\w.])(open|print|input|datetime\.(?:now|utcnow|today)|date\.today)\(")

CODE = (".py", ".pyx", ".pxd", ".pxi", ".pyi")
TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:    .*)?\n)+", re.MULTILINE)
CLASS = re.compile(r"^(?:cdef )?class (\w+)(?:\(([^)]*)\))?", re.MULTILINE)
LEVELS_MAX = 2
MODULE_LINE = re.compile(r"^ *(\w+(?:\.pyx?|/)) {2,}\S", re.MULTILINE)
PACKAGE_ROW = re.compile(r"^\| `([\w/]+/)` \| (.*) \|$", re.MULTILINE)
MAP_LINES_MAX = 150
NAMED = re.compile(r"`([\w./-]+\.(?:pyx|pxd|pyi|py|h))(?::([\w.]+))?`")


def part(name: str) -> str | None:
    """The part of the package that a dotted name belongs to; None when it is not ours."""
    head, *rest = name.split(".")
    if head != "leveret":
        return None
    return rest[0] if rest and rest[0] in parts() else ""


def parts() -> set[str]:
    """The parts that exist, and those that have arrows."""
    entries = [path for path in (ROOT / "src" / "leveret").iterdir() if not path.name.startswith("_")]
    return {path.stem for path in entries if path.is_dir() or path.suffix in CODE} | set(ARROWS) - {""}


def part_of(path: Path) -> str:
    """The part that a source file belongs to."""
    first = Path(path.relative_to(ROOT / "src" / "leveret").parts[0])
    return "" if first.stem == "__init__" else first.stem


def test_every_part_has_its_arrows() -> None:
    missing = {part_of(path) for path in files(*CODE, under="src/leveret")} - set(ARROWS)
    assert not missing, f"say in ARROWS what these parts may import: {sorted(missing)}"


def test_imports_follow_the_arrows() -> None:
    wrong = []
    for path in files(*CODE, under="src/leveret"):
        here = part_of(path)
        for name in imports(path):
            if part(name) not in {None, here} | ARROWS.get(here, set()):
                wrong.append(f"{relative(path)} imports {name}")
    assert not wrong, "against the arrows of ARROWS (move the code, or pass the object in):\n" + "\n".join(wrong)


def test_protocols_do_not_import_each_other() -> None:
    wrong = []
    for path in files(*CODE, under="src/leveret/protocols"):
        here = path.relative_to(ROOT / "src" / "leveret" / "protocols").parts[0]
        for name in imports(path):
            there = name.split(".")[2] if name.startswith("leveret.protocols.") else here
            if there not in {here} | PROTOCOLS.get(here, set()):
                wrong.append(f"{relative(path)} imports {name}")
    assert not wrong, "against the table PROTOCOLS (move what they share to runtime):\n" + "\n".join(wrong)


def test_only_spark_imports_pyspark() -> None:
    wrong = [
        relative(path)
        for path in files(*CODE, under="src/leveret")
        if part_of(path) != "spark" and any(name.split(".")[0] == "pyspark" for name in imports(path))
    ]
    assert not wrong, f"pyspark belongs in leveret/spark only: {wrong}"


def test_patterns_from_outside_are_compiled_in_one_place() -> None:
    """Python's engine takes exponential time for some patterns: it gets constants only, at the level of a module."""
    wrong = []
    for path in files(".py", ".pyx", under="src/leveret"):
        if relative(path) != PATTERNS and part_of(path) not in ("cli", "spark"):
            wrong += [f"{relative(path)} imports {name}" for name in imports(path) if name in ("fnmatch", "re2")]
            wrong += [f"{relative(path)}: {line.strip()}" for line in code(path).splitlines() if LATE_RE.search(line)]
    assert not wrong, f"use {PATTERNS} for what is not a constant:\n" + "\n".join(wrong)


def test_core_touches_nothing_outside() -> None:
    wrong = []
    for path in files(*CODE, under="src/leveret/core"):
        for name in imports(path):
            if IMPURE_MODULE.match(name):
                wrong.append(f"{relative(path)} imports {name}")
        text = code(path)
        wrong += [f"{relative(path)} uses {match[1]}" for match in IMPURE_HEADER.finditer(text)]
        wrong += [f"{relative(path)} calls {match[1]}()" for match in IMPURE_CALL.finditer(text)]
    assert not wrong, "core has no I/O, threads, clock or chance (pass it in, or use a port):\n" + "\n".join(wrong)


def test_modules_of_the_core_import_each_other_in_one_direction() -> None:
    sources: dict[str, list[str]] = {}
    for path in files(".py", ".pyx", ".pxd", under="src/leveret/core"):
        sources.setdefault(module(path), []).extend(imports(path, TYPES_ONLY.sub("", code(path))))
    graph = {here: {module_in(name, sources) for name in found} - {here, None} for here, found in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(f"modules of core import each other in a circle: {' <- '.join(error.args[1])}") from None


def module_in(name: str, modules: Collection[str]) -> str | None:
    """The module of an imported name, which may be the module itself."""
    return next((known for known in (name, name.rpartition(".")[0]) if known in modules), None)


def test_classes_of_the_core_have_few_ancestors() -> None:
    bases: dict[str, list[str]] = {}
    for path in files(".py", ".pyx", under="src/leveret/core"):
        if path.name != "errors.py":  # what is refused and why is a tree
            for match in CLASS.finditer(code(path)):
                bases[match[1]] = [each.split("[")[0].strip() for each in (match[2] or "").split(",")]

    def levels(name: str) -> int:
        return max((1 + levels(base) for base in bases[name] if base in bases), default=0)

    deep = {name: levels(name) for name in bases if levels(name) > LEVELS_MAX}
    assert not deep, f"compose these of parts instead: {deep}"


def test_architecture_names_what_exists() -> None:
    page = ROOT / "ARCHITECTURE.md"
    need(page.exists(), "ARCHITECTURE.md")
    wrong = []
    for match in NAMED.finditer(page.read_text()):
        path = next((base / match[1] for base in (ROOT, ROOT / "src" / "leveret") if (base / match[1]).is_file()), None)
        if path is None:
            wrong.append(f"{match[1]} (no such file)")
        elif match[2] and match[2] not in names(path):
            wrong.append(f"{match[1]}:{match[2]} (no such function or class)")
    assert not wrong, "ARCHITECTURE.md names what is not there:\n" + "\n".join(wrong)


def package_docstring(init: Path) -> str:
    """What a package says of itself."""
    return ast.get_docstring(ast.parse(init.read_text())) or ""


def first_line(path: Path) -> str:
    """What a module says of itself, in one line."""
    found = re.search(r'[rR]?"""(.+?)(?:\n|""")', path.read_text())
    return found[1].rstrip(".") if found else "..."


def packages() -> list[Path]:
    """The folders of all packages, but for the first, whose docstring is for users, and the former name of one."""
    root = ROOT / "src" / "leveret"
    found = (path.parent for path in files(".py", under="src/leveret") if path.name == "__init__.py")
    return [folder for folder in found if folder not in (root, root / "pipeline")]


def test_packages_list_their_modules() -> None:
    """One line for each module and subpackage: its name, two spaces or more, what it is for."""
    wrong = []
    for folder in packages():
        init = folder / "__init__.py"
        listed = MODULE_LINE.findall(package_docstring(init))
        there = {path.name: path for path in files(".py", ".pyx", under=relative(folder)) if path.parent == folder}
        there |= {f"{sub.name}/": sub / "__init__.py" for sub in packages() if sub.parent == folder}
        del there["__init__.py"]
        for name in sorted(set(there) - set(listed)):
            wrong.append(f"{relative(init)}: add the line\n{name}  {first_line(there[name])}")
        for name in listed:
            if name not in there or listed.count(name) > 1:
                wrong.append(f"{relative(init)}: delete the line of {name}")
    assert not wrong, "docstrings of packages do not list their modules, a line each:\n" + "\n".join(wrong)


def test_the_map_is_short_and_names_all_packages() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    count = len(text.splitlines())
    assert count <= MAP_LINES_MAX, (
        f"ARCHITECTURE.md has {count} lines: what is about one package goes into its docstring"
    )
    rows = dict(PACKAGE_ROW.findall(text))
    named = {str(folder.relative_to(ROOT / "src" / "leveret")) + "/" for folder in packages()} | {"pipeline/"}
    missing = [each for each in sorted(named) if each not in rows and not has_part(rows, each)]
    gone = [each for each in rows if each not in named]
    assert not missing, f"ARCHITECTURE.md: add a row to the table of packages for each of {missing}"
    assert not gone, f"ARCHITECTURE.md: delete the rows of {gone}"


def has_part(rows: dict[str, str], package: str) -> bool:
    """Whether the row of a package names one inside of it."""
    folder, _, name = package.rstrip("/").rpartition("/")
    return f"`{name}/`" in rows.get(f"{folder}/", "")
