"""Makes a release: the version, its section of the changelog, a commit and a tag, sdist, wheels, SBOM and checksums.

python3 -m deploy.release 0.2.0 --python python3.11 --python python3.12

All of it happens in a clone, build/release/VERSION, from what is committed here. Commit and tag are fetched from there
when everything has been made; with --dry-run they stay there. Nothing is pushed or uploaded.
"""

import argparse
import hashlib
import json
import re
import shutil
import sys
import tomllib
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deploy.dist import ROOT, environment, run

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
UNRELEASED = "## [Unreleased]\n"
NAMED = "deploy docs"  # where the tag of the image has the version
EXTRAS = "cluster,encryption,oauth"
INSTALLED = """
import json
from importlib.metadata import distributions
print(json.dumps([
    {"name": each.name, "version": each.version, "requires": each.requires or [],
     "licence": each.metadata["License-Expression"] or each.metadata["License"] or ""}
    for each in distributions()
]))
"""


class Refused(Exception):
    """Why there is no release."""


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, to compare."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise Refused(f"{version} is no version such as 1.2.3")
    return tuple(map(int, found.groups()))


def version_of(tree: Path) -> str:
    """The version in a tree's pyproject.toml."""
    version: str = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
    return version


def rewritten(tree: Path, version: str, date: str) -> list[Path]:
    """Give the files of a tree the new version; those that were changed."""
    old = version_of(tree)
    if numbers(version) <= numbers(old):
        raise Refused(f"{version} does not come after {old}")
    changelog = (tree / "CHANGELOG.md").read_text()
    notes = changelog.partition(UNRELEASED)[2].partition("\n## ")[0]
    if not notes.strip():
        raise Refused("CHANGELOG.md has nothing under Unreleased")
    images = [path for name in NAMED.split() for path in (tree / name).rglob("*") if path.is_file()]
    edits = {tree / "pyproject.toml": (f'version = "{old}"', f'version = "{version}"')}
    edits[tree / "CHANGELOG.md"] = (UNRELEASED, f"{UNRELEASED}\n## [{version}] - {date}\n")
    edits |= {path: (f"leveret:{old}", f"leveret:{version}") for path in images if path.suffix != ".png"}
    changed = []
    for path, (before, after) in edits.items():
        text = path.read_text()
        if before in text:
            path.write_text(text.replace(before, after))
            changed.append(path)
    return changed


def bill(version: str, installed: Sequence[dict[str, Any]], time: str) -> dict[str, Any]:
    """The software bill of materials, in CycloneDX 1.5, of what is installed with all extras of a server."""
    references = {plain(each["name"]): f"pkg:pypi/{plain(each['name'])}@{each['version']}" for each in installed}
    ours = references["leveret"]

    def component(row: dict[str, Any]) -> dict[str, Any]:
        reference = references[plain(row["name"])]
        made = {"type": "library", "name": row["name"], "version": row["version"]}
        made |= {"bom-ref": reference, "purl": reference}
        name = row["licence"].partition("\n")[0]
        return made | ({"licenses": [{"license": {"name": name}}]} if name else {})

    def needs(row: dict[str, Any]) -> list[str]:
        names = {plain(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in row["requires"]}
        return sorted(references[name] for name in names if name in references)

    rows = sorted(installed, key=lambda row: plain(row["name"]))
    main = next(component(row) for row in rows if references[plain(row["name"])] == ours)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ours)}",
        "version": 1,
        "metadata": {"timestamp": time, "component": main | {"type": "application"}},
        "components": [component(row) for row in rows if references[plain(row["name"])] != ours],
        "dependencies": [{"ref": references[plain(row["name"])], "dependsOn": needs(row)} for row in rows],
    }


def plain(name: str) -> str:
    """The name of a distribution as indexes have it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def checksums(folder: Path) -> str:
    """The lines of SHA256SUMS, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def release(version: str, pythons: Sequence[str], more: Sequence[str], *, dry: bool, root: Path = ROOT) -> Path:
    """Make everything; the directory with the files."""
    if run(["git", "status", "--porcelain"], root).strip():
        raise Refused("there are changes that are not committed")
    if run(["git", "tag", "--list", f"v{version}"], root).strip():
        raise Refused(f"the tag v{version} exists")
    now = datetime.now(UTC).replace(microsecond=0)
    tree = root / "build" / "release" / version
    shutil.rmtree(tree, ignore_errors=True)
    run(["git", "clone", "--quiet", "--local", root, tree])
    for setting in ("user.name", "user.email"):
        run(
            [
                "git",
                "config",
                setting,
                run(["git", "log", "-1", f"--format={'%cn' if 'name' in setting else '%ce'}"], root).strip(),
            ],
            tree,
        )
    rewritten(tree, version, now.date().isoformat())
    run(["git", "commit", "--quiet", "--all", "--message", f"Release {version}"], tree)
    run(["git", "tag", "--annotate", f"v{version}", "--message", f"Leveret {version}"], tree)
    made = tree / "dist"
    flags = [word for python in pythons for word in ("--python", python)]
    run([sys.executable, "-m", "deploy.dist", "--pure", "--out", made, *flags, *more], tree)
    (wheel, *_) = sorted(made.glob("*.whl"))
    python = environment(tree / "build" / "bill", sys.executable, [f"{wheel}[{EXTRAS}]"])
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "pip", "setuptools"])
    found = bill(version, json.loads(run([python, "-c", INSTALLED])), now.isoformat())
    (made / f"leveret-{version}.cdx.json").write_text(json.dumps(found, indent=2) + "\n")
    (made / "SHA256SUMS").write_text(checksums(made))
    if not dry:
        run(["git", "pull", "--quiet", "--ff-only", "--tags", tree, "HEAD"], root)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a release, or say why there is none."""
    parser = argparse.ArgumentParser(description="Make a release.")
    parser.add_argument("version")
    parser.add_argument("--python", action="append", default=[], help="a Python that gets a compiled wheel")
    parser.add_argument("--dry-run", action="store_true", help="leave commit and tag in the clone")
    options, more = parser.parse_known_args(arguments)
    try:
        made = release(options.version, options.python, more, dry=options.dry_run)
    except Refused as reason:
        print(f"no release: {reason}", file=sys.stderr)
        return 1
    print((made / "SHA256SUMS").read_text(), end="")
    print(f"in {made}. To publish: `git push --follow-tags`, and upload these files.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
