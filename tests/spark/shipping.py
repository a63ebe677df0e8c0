"""Sending the package along with a job, to a cluster whose machines have nothing but Python, Arrow and Spark.

--archives environment.tar.gz#environment    an environment with the wheel, packed by venv-pack
--py-files leveret.zip                       the modules in Python alone
"""

import json
import os
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pyarrow
import pyspark

from tests.server_process import ServerProcess
from tests.sources import ROOT

RECORDS = 200
RUN_S = 600
HOME = Path(pyspark.__file__).parent
PACKAGES = ("leveret", "pyspark_leveret")
JOB = Path(__file__).with_name("shipped_job.py")


def run(*words: str | Path, cwd: Path, **environ: str) -> str:
    """What a command prints."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in words], env=clean | environ, cwd=cwd, capture_output=True, timeout=RUN_S
    )
    if done.returncode:
        raise SystemExit(f"{words[0]} ended with {done.returncode}:\n{done.stderr.decode()[-6000:]}")
    return done.stdout.decode()


def bare(folder: Path) -> Path:
    """An environment that has Arrow, and nothing of Leveret; gives its Python."""
    place = folder / "machine"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", f"pyarrow=={pyarrow.__version__}", cwd=folder)
    return python


def zipped(folder: Path) -> Path:
    """The modules in Python as an archive."""
    run(sys.executable, "-m", "zipfile", "-c", "leveret.zip", *(ROOT / "src" / name for name in PACKAGES), cwd=folder)
    return folder / "leveret.zip"


def packed(folder: Path) -> None:
    """An environment with the package as it is built here, packed, and unpacked where the driver is."""
    place = folder / "built"
    venv.create(place, with_pip=True)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = [*required, f"pyarrow=={pyarrow.__version__}", "setuptools<81", "venv-pack"]
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", *needed, cwd=folder)
    (packages,) = place.glob("lib/python*/site-packages")
    for name in PACKAGES:
        shutil.copytree(ROOT / "src" / name, packages / name)
    run(place / "bin" / "venv-pack", "--prefix", place, "--output", "environment.tar.gz", cwd=folder)
    (folder / "environment").mkdir()
    run("tar", "-xzf", "environment.tar.gz", "-C", "environment", cwd=folder)


def submitted(folder: Path, master: str, name: str, *flags: str | Path, **environ: str) -> dict[str, object]:
    """The job by spark-submit, as the documentation says; what it tells."""
    (folder / name).mkdir()
    with ServerProcess(folder / name) as server:
        with server.client() as client:
            client.stream("clicks", partitions=2).send_many(
                [b"%d" % number for number in range(RECORDS)], headers={"kind": "click"}
            )
            client.queue("orders")
        conf = (
            "--conf",
            "spark.executor.memory=512m",
            "--conf",
            "spark.driver.memory=512m",
            "--conf",
            "spark.ui.enabled=false",
        )
        words = [HOME / "bin" / "spark-submit", "--master", master, *conf, *flags, JOB, server.http_url]
        out = run(*words, folder / name / "checkpoint", cwd=folder, SPARK_LOCAL_IP="127.0.0.1", **environ)
        told: dict[str, object] = json.loads(out.strip().splitlines()[-1])
    return told


def shipped(folder: Path, master: str) -> int:
    """Run the job in both ways; gives how many did something else than they should."""
    packed(folder)
    python = "./environment/bin/python"
    by_archive = submitted(
        folder, master, "archives", "--archives", "environment.tar.gz#environment", PYSPARK_PYTHON=python
    )
    machine, modules = bare(folder), zipped(folder)
    by_files = submitted(
        folder, master, "py-files", "--py-files", modules, PYSPARK_PYTHON=str(machine), PYTHONPATH=str(modules)
    )
    wrong = 0
    for name, told, ending in (("--archives", by_archive, ".so"), ("--py-files", by_files, ".py")):
        places = [*told["executors"], told["driver"]]  # type: ignore[misc]
        good = (
            told["copied"] == RECORDS
            and told["headers"] == "click"
            and all(each[1].endswith(ending) for each in places)
        )
        wrong += not good
        said = "good" if good else told
        print(f"stream to queue {name:<11} {told['copied']} of {RECORDS} rows, modules {ending}: {said}", flush=True)
    return wrong
