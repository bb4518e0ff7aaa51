#!/usr/bin/env python3
"""mutants.py flows|lanes CC [CXX]: that the searches of the models find what they are for.

Takes one rule at a time away from what a model runs, or makes it wrong by one (flow_mutants.py and
lane_mutants.py say which), and runs the model's test over the result: it must find how that goes wrong.
Prints each that it finds, and exits with 1 if one survives.
"""
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
SECONDS_MOST = 300


class Model:
    """A model's table and the compilers."""

    def __init__(self, name, compilers):
        self.table = importlib.import_module({"flows": "flow_mutants", "lanes": "lane_mutants"}[name])
        self.compilers = {".c": [compilers[0], "-std=gnu17", "-D_GNU_SOURCE"],
                          ".cpp": [compilers[-1], "-std=gnu++17", "-fno-exceptions", "-fno-rtti"]}

    def compile(self, folder, overlay, names):
        """Sources, from the overlay where it has them."""
        includes = [part for base in (overlay, TOP) for name in self.table.INCLUDED
                    for part in ("-I", str(base / name))]
        for name in names:
            source = overlay / name if (overlay / name).exists() else TOP / name
            subprocess.run([*self.compilers[source.suffix], *self.table.FLAGS, *includes, "-c", str(source),
                            "-o", str(folder / (source.stem + ".o"))], check=True)

    def story_of(self, folder, whole, path, old, new):
        """What the search finds wrong with the mutant."""
        table = self.table
        text = (TOP / path).read_text()
        if text.count(old) != 1:
            sys.exit(f"mutants: {path} has {text.count(old)} places with: {old}")
        overlay = folder / "overlay"
        for headers in table.HEADERS:
            shutil.copytree(TOP / headers, overlay / headers)
        (overlay / path).parent.mkdir(parents=True, exist_ok=True)
        (overlay / path).write_text(text.replace(old, new))
        changed = [path] if path in table.SOURCES else [s for s in table.SOURCES if s not in table.CONSTANT]
        self.compile(folder, overlay, changed)
        objects = [str((folder if name in changed else whole) / (Path(name).stem + ".o"))
                   for name in table.SOURCES]
        subprocess.run([self.compilers[".c"][0], *objects, "-lcmocka", "-o", str(folder / "mutant")],
                       check=True)
        ran = subprocess.run([str(folder / "mutant")], capture_output=True, text=True, timeout=SECONDS_MOST,
                             env={**os.environ, **table.ENVIRONMENT}, check=False)
        said = [line for line in (ran.stdout + ran.stderr).splitlines()
                if line.startswith("found: ") or "Assertion" in line]
        return said[0] if ran.returncode != 0 and said else None


def main():
    model, survivors = Model(sys.argv[1], sys.argv[2:]), []
    with tempfile.TemporaryDirectory() as work:
        whole = Path(work)
        model.compile(whole, whole, model.table.SOURCES)
        for number, (what, path, old, new) in enumerate(model.table.MUTANTS):
            folder = whole / str(number)
            folder.mkdir()
            story = model.story_of(folder, whole, path, old, new)
            print(f"{what}: {story or 'NOT FOUND'}", flush=True)
            if not story:
                survivors.append(what)
    print(f"mutants: {len(model.table.MUTANTS)}, not found: {len(survivors)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
