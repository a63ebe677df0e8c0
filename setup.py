"""Builds the compiled heart: every .pyx under src/leveret becomes one extension module.

LEVERET_PURE=1 leaves all of them out: a wheel for any system, with which programs are clients of servers elsewhere.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

SOURCE = Path("src")
DIRECTIVES = {
    "language_level": "3",
    "boundscheck": False,
    "wraparound": False,
    "initializedcheck": False,
    "cdivision": True,
    "embedsignature": True,
    "emit_code_comments": False,
    "auto_pickle": False,  # only properties are pickled, and the methods would be a tenth of the C
}
PURE = os.environ.get("LEVERET_PURE") == "1"
# LEVERET_SANITIZE=address builds with AddressSanitizer (see `make asan`).
SANITIZE = os.environ.get("LEVERET_SANITIZE", "")
# Without debug information a module takes two thirds of the time to compile, and a third of the room. -O2 would save a
# fifth of the time as well, but costs the path of a message 4 %.
FLAGS = ["-O1", "-g", f"-fsanitize={SANITIZE}", "-fno-omit-frame-pointer"] if SANITIZE else ["-O3", "-g0"]
# Neither a message nor a restart waits for these: -O1 takes half the time.
COLD = {"browse", "cells", "claims", "columns", "dead_lettering", "switch", "tally", "tracing"}
LINK = [f"-fsanitize={SANITIZE}"] if SANITIZE else []
CORES = os.cpu_count() or 1


def extension(path: Path) -> Extension:
    """The extension module of one .pyx file."""
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    return Extension(
        module,
        [str(path)],
        include_dirs=[str(SOURCE / "leveret" / "storage"), str(path.parent)],
        extra_compile_args=[
            *FLAGS,
            *(["-O1"] if path.stem in COLD else []),
            "-Wno-unused-function",
            "-Wno-unreachable-code",
        ],
        extra_link_args=LINK,
    )


def make_stubs() -> None:
    """Write a .pyi beside each .pyx: wheels and type checkers take them from there."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from stubs import write_stubs
    except ImportError:
        sys.exit("leveret is built with Cython: install it with `pip install 'Cython>=3.2,<3.4'` and try again")
    write_stubs(SOURCE)


class BuildModules(build_py):  # type: ignore[misc]
    """Has the stubs among the files of the package."""

    def run(self) -> None:
        make_stubs()
        super().run()


class BuildExtensions(build_ext):  # type: ignore[misc]
    """Generates the C of all modules at once, on all cores, and only when something is compiled: an sdist has no C."""

    def build_extensions(self) -> None:
        make_stubs()
        from Cython.Build import cythonize

        generated = cythonize(
            self.extensions,
            compiler_directives=DIRECTIVES,
            include_path=[str(SOURCE)],
            build_dir="build/cython",
            nthreads=CORES,
        )
        for ours, made in zip(self.extensions, generated, strict=True):
            ours.sources, ours.depends = made.sources, made.depends
        super().build_extensions()


# Cython's helper processes may import this file again: they must not build.
if __name__ == "__main__":
    setup(
        cmdclass={"build_ext": BuildExtensions, "build_py": BuildModules},
        ext_modules=[] if PURE else [extension(path) for path in sorted(SOURCE.rglob("*.pyx"))],
        options={"build_ext": {"parallel": CORES}},
    )
