"""Debian packages, carried along as files, for a machine without network."""
import os
import pathlib
import shutil
import subprocess
import tempfile


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
