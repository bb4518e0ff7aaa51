#!/usr/bin/env python3
"""stub_libraries.py SITE-PACKAGES: let the torch of PyPI be imported without the 2.5 GB of NVIDIA's libraries
that its wheel wants to be there. For each of them that torch names, write one beside torch's own whose
functions return 0; libcudart alone must be the real one. For tests without a GPU: nothing of CUDA works."""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

VENDOR = re.compile(r"lib(cu|nccl|nv)")
FUNCTION = re.compile(r"\sU ((?:cu|nccl|nv)\w+)(?:@+(\S+))?$", re.M)


def output(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def write_library(path, functions, version=None):
    script = path.with_suffix(".map")
    script.write_text(f"{version} {{ global: {'; '.join(sorted(functions))}; }};\n" if version else "",
                      encoding="ascii")
    source = "".join(f"long {name}(void) {{ return 0; }}\n" for name in sorted(functions))
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", path, f"-Wl,-soname,{path.name}",
                    *([f"-Wl,--version-script={script}"] if version else []), "-x", "c", "-"],
                   input=source, text=True, check=True)
    script.unlink()


def main():
    folder = Path(sys.argv[1]) / "torch" / "lib"
    needed, functions = set(), defaultdict(set)
    for library in folder.glob("libtorch*.so"):
        needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", library)))
        for name, version in FUNCTION.findall(output("nm", "-D", "--undefined-only", library)):
            if "cudart" not in version:
                functions[version].add(name)
    missing = sorted(name for name in needed if VENDOR.match(name) and "cudart" not in name)
    # The loader takes a function without a version from any library but the one that its version names.
    holder = next(name for name in missing if name not in functions)
    versioned = functions.pop("NVSHMEM", set())
    for name in missing:
        if "nvshmem" in name and versioned:
            write_library(folder / name, versioned, "NVSHMEM")
        else:
            write_library(folder / name, set().union(*functions.values()) if name == holder else set())
    print(f"stubs of {len(missing)} libraries")


if __name__ == "__main__":
    main()
