#!/usr/bin/env python3
"""cuda_headers.py BUILD INCLUDE PACKAGE=VERSION…: compile every source that is compiled with CUDA's headers
in INCLUDE again, with those of other toolkits instead, as far as the compiler finds errors. The headers come
from PyPI, by pip, once per build folder; where they cannot be had the test says so and is skipped (77).
"""
import json
import os
import pathlib
import shlex
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor

SKIPPED = 77
WITH_NCCL = "tests/nccl/abi.c"  # NCCL's header goes with that of its own toolkit
FEWEST_SOURCES = 40  # of the daemon, the client and the tests: fewer, and this test has lost its way


def skip(reason):
    print(f"SKIPPED: {reason}")
    raise SystemExit(SKIPPED)


def fetch(package, version, place):
    """The folder that has cuda.h."""
    found = list(place.glob("unpacked/**/include/cuda.h"))
    if not found:
        place.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "--disable-pip-version-check", "download",
                               "--quiet", "--no-deps", "--only-binary=:all:", "--retries=1", "--timeout=20",
                               f"--dest={place}", f"{package}=={version}"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = (done.stderr or done.stdout).strip()[-300:]
            skip(f"PyPI cannot be reached, or has no {package} {version}: {why}")
        for wheel in place.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place / "unpacked")
        found = list(place.glob("unpacked/**/include/cuda.h"))
    return found[0].parent


def commands(build, include):
    """Pairs of a source and the command that compiles it, for those that are compiled with these headers."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        if include in words and not entry["file"].endswith(WITH_NCCL):
            first = next(i for i, word in enumerate(words) if not word.endswith("ccache"))
            output = words.index("-o")
            yield entry["file"], words[first:output] + words[output + 2:], entry["directory"]


def write_check(place, version):
    """A header that fails unless the headers of CUDA that a source gets are these."""
    major, minor = version.split(".")[:2]
    check = place / "check.h"
    check.write_text(f"#include <cuda.h>\n#if CUDA_VERSION != {int(major) * 1000 + int(minor) * 10}\n"
                     f"#error \"not the headers of CUDA {version}\"\n#endif\n")
    return check


def compile_with(headers, check, include, work):
    source, words, directory = work
    words = [str(headers) if word == include else word for word in words]
    done = subprocess.run([*words, "-include", str(check), "-fsyntax-only"], cwd=directory,
                          capture_output=True, text=True, check=False)
    return source, done.returncode, done.stderr


def main():
    build, include, *toolkits = sys.argv[1:]
    build = pathlib.Path(build).resolve()
    work = list(commands(build, include))
    failures = 0
    if len(work) < FEWEST_SOURCES:
        print(f"{len(work)} sources are compiled with {include}: there should be {FEWEST_SOURCES} at least")
        raise SystemExit(1)
    for toolkit in toolkits:
        package, version = toolkit.split("=")
        place = build / "cuda-headers" / version
        headers, check = fetch(package, version, place), write_check(place, version)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda one: compile_with(headers, check, include, one), work))
        wrong = [(source, text) for source, status, text in results if status != 0]
        print(f"CUDA {version}: {len(results) - len(wrong)} of {len(results)} sources compile")
        for source, text in wrong:
            print(f"{source}:\n{text}")
        failures += len(wrong)
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
