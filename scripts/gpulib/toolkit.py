"""What nvcc is told to compile kernels to, where CMake does not tell it: the table is cmake/cuda_targets."""
import pathlib
import re
import subprocess

TABLE = pathlib.Path(__file__).resolve().parent.parent.parent / "cmake/cuda_targets"


def number(version):
    return tuple(int(part) for part in version.split("."))


def code(version):
    """For a toolkit of this version: as nvcc's -gencode says it."""
    lines = [line.split() for line in TABLE.read_text().splitlines() if line[:1].isdigit()]
    return [f"arch={arch},code=[{made}]" for first, before, arch, made in lines
            if number(first) <= number(version) < number(before)]


def version_of(nvcc):
    text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"release ([0-9.]+)", text)[1]
