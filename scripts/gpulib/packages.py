"""Debian packages, carried along as files, for a machine without network."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile


SETUP = pathlib.Path(__file__).resolve().parent.parent / "setup"
# The compiler, its libraries and CMake are the other machine's, or nothing is; the next two are for manual
# pages and for tracing, which nobody wants there.
NOT_ROOTS = {"gcc", "libc6-dev", "cmake", "scdoc", "systemtap-sdt-dev"}
CARRIED = re.compile(r"lib|[a-z0-9.+-]+-dev$|ninja-build|pkg-config|pkgconf|protobuf-c-compiler|zlib1g")
NOT_CARRIED = re.compile(r"autotools|linux-libc|lib(c6|c-dev|crypt|gcc|stdc|pam|perl|sem|debian|newt|audit|"
                         r"gfortran|quadmath|gomp|openblas|blis|atlas)")


def roots():
    """What scripts/setup installs for building, but for NOT_ROOTS, and what unit tests need."""
    building = re.search(r'^build_packages="([^"]*)"', SETUP.read_text(encoding="utf-8"), re.MULTILINE)
    return sorted({"libcmocka-dev", *building[1].split()} - NOT_ROOTS)


def is_carried(line):
    """Whether a line of `apt-cache depends` is the name of a package to carry."""
    return CARRIED.match(line) and not NOT_CARRIED.match(line)


def fetch(directory):
    """Download roots(), and what they need in turn. Returns how many packages that are."""
    quiet = [f"--no-{what}" for what in ("recommends", "suggests", "conflicts", "breaks", "replaces",
                                         "enhances")]
    told = subprocess.run(["apt-cache", "depends", "--recurse", *quiet, *roots()], check=True,
                          capture_output=True, text=True).stdout
    names = sorted(set(filter(is_carried, told.splitlines())))
    subprocess.run(["apt-get", "download", "-q", *names], cwd=directory, check=True)
    return len(names)


def copy_missing(source, target):
    """Files that `target` lacks; what it has stays as it is. Directories may be links there, such as /lib."""
    for directory, _, names in os.walk(source):
        place = target / pathlib.Path(directory).relative_to(source)
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not os.path.lexists(place / name):
                shutil.copy2(pathlib.Path(directory, name), place / name, follow_symlinks=False)


def link_directories(source):
    """A package's links to directories, as links: os.walk() calls them directories."""
    return [path for path in source.rglob("*") if path.is_symlink() and path.is_dir()]


def unpack(debs, target=pathlib.Path("/")):
    """Unpack all packages of a directory without their scripts. Returns how many there were."""
    packages = sorted(debs.glob("*.deb"))
    with tempfile.TemporaryDirectory(prefix="gpu-test-debs-") as directory:
        root = pathlib.Path(directory)
        for package in packages:
            subprocess.run(["dpkg", "-x", str(package), directory], check=True)
        for link in link_directories(root):
            place = target / link.relative_to(root)
            if not os.path.lexists(place):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(os.readlink(link))
        copy_missing(root, target)
    subprocess.run(["ldconfig"], check=True)
    return len(packages)
