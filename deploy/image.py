"""Builds the container image out of wheels, on a base that is named or made by debootstrap.

python3 -m deploy.image --tag leveret --base debootstrap
python3 -m deploy.image --tag leveret --base python:3.11.12-slim-bookworm --engine docker

The base of debootstrap is Debian's Python with the libraries that it needs: no package manager, no Perl, no login.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from deploy.dist import ROOT, builder, run, sdist, unpacked, wheel

WORK = ROOT / "build" / "image"
DEBOOTSTRAP = "debootstrap"
MIRROR, SUITE = "http://deb.debian.org/debian", "bookworm"
BASE_TAG = "localhost/leveret-base"
OLDER = ("async-timeout",)
"""What Debian's Python, 3.11.2, needs beside what this one does: redis asks for it before 3.11.3."""
EXTRAS = "cluster,encryption,oauth"
UNNEEDED = (
    "adduser apt bash bsdutils debconf debian-archive-keyring diffutils dpkg e2fsprogs findutils gpgv "
    "grep gzip hostname init-system-helpers libapt-pkg6.0 libaudit-common libaudit1 libblkid1 libcap-ng0 libcom-err2 "
    "libdebconfclient0 libext2fs2 libgcrypt20 libgmp10 libgnutls30 libgpg-error0 libhogweed6 libidn2-0 liblz4-1 "
    "libmount1 libnettle8 libp11-kit0 libpam-modules libpam-modules-bin libpam-runtime libpam0g libseccomp2 "
    "libsemanage-common libsemanage2 libsepol2 libsmartcols1 libss2 libsystemd0 libtasn1-6 libudev1 libunistring2 "
    "libxxhash0 libzstd1 login logsave mawk mount ncurses-bin passwd perl-base sysvinit-utils tar "
    "util-linux util-linux-extra libdb5.3 libgssapi-krb5-2 libk5crypto3 libkeyutils1 libkrb5-3 libkrb5support0 libnsl2 "
    "libsqlite3-0 libtirpc-common libtirpc3 openssl"
)
"""Packages of a minimal Debian whose files a server never opens."""
LEFTOVERS = (
    "boot home media mnt opt srv var/backups var/cache var/lib/apt var/lib/dpkg/info var/log "
    "usr/share/bash-completion usr/share/bug usr/share/common-licenses usr/share/debconf usr/share/doc usr/share/info "
    "usr/share/lintian usr/share/locale usr/share/man usr/share/perl5 usr/share/pixmaps "
    "usr/share/zoneinfo/posix usr/share/zoneinfo/right "
    "usr/lib/x86_64-linux-gnu/gconv usr/lib/x86_64-linux-gnu/perl-base "
    "usr/lib/python3.11/pydoc_data usr/lib/python3.11/test"
)


def base(engine: str, mirror: str) -> str:
    """The tag of an image with Debian's Python."""
    root = WORK / "root"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    run([DEBOOTSTRAP, "--variant=minbase", "--include=python3,ca-certificates", SUITE, root, mirror])
    for package in UNNEEDED.split():
        for listing in (root / "var/lib/dpkg/info").glob(f"{package}*.list"):
            if listing.stem.partition(":")[0] == package:
                remove(root, listing.read_text().splitlines())
    for name in LEFTOVERS.split():
        shutil.rmtree(root / name, ignore_errors=True)
    for name in ("home", "var/cache", "var/log"):
        (root / name).mkdir()
    run(["tar", "--numeric-owner", "-C", root, "-cf", WORK / "base.tar", "."])
    run([engine, "import", WORK / "base.tar", BASE_TAG])
    return BASE_TAG


def remove(root: Path, names: Sequence[str]) -> None:
    """Remove the files of a package, and no directories."""
    for name in names:
        path = root / name.removeprefix("/")
        if not path.is_dir():  # nor links to directories, such as /lib
            path.unlink(missing_ok=True)


def wheels(python: str) -> None:
    """Collect what the image is made of: our wheel from its sdist, those that it needs, and pip to install them."""
    folder = WORK / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    made = wheel(unpacked(sdist(WORK / "sdist", WORK), WORK), folder, WORK, python)
    pip: list[str | Path] = [builder(python, WORK), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([*pip, "wheel", "--wheel-dir", folder, *OLDER, "pip", f"{made}[{EXTRAS}]"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the image; print its tag."""
    parser = argparse.ArgumentParser(description="Build the container image.")
    parser.add_argument("--engine", default="podman", help="podman or docker")
    parser.add_argument("--tag", default="leveret", help="the name of the image")
    parser.add_argument("--base", default=DEBOOTSTRAP, help="the image below it; debootstrap: made here, as root")
    parser.add_argument("--mirror", default=MIRROR, help="where debootstrap gets packages")
    parser.add_argument("--python", default=sys.executable, help="a Python of the same version as that of the base")
    parser.add_argument("--keep-wheels", action="store_true", help="use the wheels of the last time")
    parser.add_argument("options", nargs="*", help="options of `build` that this machine needs, after --")
    options = parser.parse_args(arguments)
    if not options.keep_wheels:
        wheels(options.python)
    below = base(options.engine, options.mirror) if options.base == DEBOOTSTRAP else options.base
    docker = [] if options.engine == "docker" else ["--format", "docker"]  # the only one with health checks
    file = ROOT / "deploy" / "Dockerfile"
    run(
        [
            options.engine,
            "build",
            *docker,
            "--build-arg",
            f"BASE={below}",
            *options.options,
            "--tag",
            options.tag,
            "--file",
            file,
            ROOT,
        ]
    )
    print(options.tag)
    return 0


if __name__ == "__main__":
    sys.exit(main())
