#!/usr/bin/env python3
"""run.py [--write FOLDER | --compare CHECKOUT]: what PTX's memory model says about the protocols of lanes.

Checks every *.litmus beside this file with ptx.py, and then what becomes of them when one instruction does
less: each such outcome that was forbidden must then be allowed. The last line counts, and the exit status is
1 if any verdict is another. --write writes all of them, those too, as files, for other checkers. --compare
asks ptx.py for the verdicts that a checkout of Dat3M lists for its own tests.
"""
import csv
import sys
from pathlib import Path

from ptx import Test, Unsupported

HERE = Path(__file__).resolve().parent

# The test; what is weaker; what it is there; what it becomes.
WEAKER = [
    ("simple-full", "the-signal-does-not-release", "st.release.sys full", "st.relaxed.sys full"),
    ("simple-full", "the-wait-does-not-acquire", "ld.acquire.sys r0, full", "ld.relaxed.sys r0, full"),
    ("simple-full", "the-signal-is-for-its-block-only", "st.release.sys full", "st.release.cta full"),
    ("simple-full", "the-wait-is-for-its-gpu-only", "ld.acquire.sys r0, full", "ld.acquire.gpu r0, full"),
    ("simple-full", "the-writers-do-not-meet", " bar.cta.sync 0         |", "  |"),
    ("simple-full", "the-readers-do-not-meet", "| bar.cta.sync 1          ;", "|  ;"),
    ("simple-free", "the-signal-does-not-release", "st.release.sys free", "st.relaxed.sys free"),
    ("simple-free", "the-wait-does-not-acquire", "ld.acquire.sys r0, free", "ld.relaxed.sys r0, free"),
    ("simple-free", "the-readers-do-not-meet", " bar.cta.sync 0         |", "  |"),
    ("simple-free", "the-writers-do-not-meet", "| bar.cta.sync 1 ;", "|  ;"),
    ("simple-chain", "the-first-signal-does-not-release", "st.release.sys one", "st.relaxed.sys one"),
    ("simple-chain", "the-second-signal-does-not-release", "st.release.sys two", "st.relaxed.sys two"),
    ("simple-chain", "the-middle-does-not-acquire", "ld.acquire.sys r0, one", "ld.relaxed.sys r0, one"),
    ("simple-chain", "the-last-does-not-acquire", "ld.acquire.sys r1, two", "ld.relaxed.sys r1, two"),
    ("simple-chain", "the-middle-does-not-meet", "| bar.cta.sync 1 |", "|  |"),
    ("pascal-full", "no-fence-before-the-signal", " fence.acq_rel.sys      |", "  |"),
    ("pascal-full", "no-fence-after-the-wait", "| fence.acq_rel.sys        ;", "|  ;"),
    ("ll-free", "the-signal-does-not-release", "st.release.sys free", "st.relaxed.sys free"),
    ("ll-free", "the-wait-does-not-acquire", "ld.acquire.sys r0, free", "ld.relaxed.sys r0, free"),
    ("ll-in-place", "the-result-was-not-made-of-the-word", "st.weak input, r2", "st.weak input, 18"),
    ("ll128-free", "the-signal-does-not-release", "st.release.sys free", "st.relaxed.sys free"),
    ("ll128-free", "the-wait-does-not-acquire", "ld.acquire.sys r2, free", "ld.relaxed.sys r2, free"),
    ("switch-input", "no-fence-behind-the-wait", "| fence.proxy.alias       |", "|  |"),
    ("switch-input", "the-signal-does-not-release", "st.release.sys full", "st.relaxed.sys full"),
    ("switch-input", "the-wait-does-not-acquire", "ld.acquire.sys r0, full", "ld.relaxed.sys r0, full"),
    ("switch-input", "the-readers-do-not-meet", "| bar.cta.sync 1        ;", "|  ;"),
    ("switch-input-free", "no-fence-before-the-signal", " fence.proxy.alias      |", "  |"),
    ("switch-input-free", "the-signal-does-not-release", "st.release.sys free", "st.relaxed.sys free"),
    ("switch-input-free", "the-wait-does-not-acquire", "ld.acquire.sys r0, free", "ld.relaxed.sys r0, free"),
    ("switch-input-free", "the-readers-do-not-meet", " bar.cta.sync 0         |", "  |"),
    ("switch-result", "no-fence-before-the-signal", " fence.proxy.alias      |", "  |"),
    ("switch-result", "the-signal-does-not-release", "st.release.sys full", "st.relaxed.sys full"),
    ("switch-result", "the-wait-does-not-acquire", "ld.acquire.sys r0, full", "ld.relaxed.sys r0, full"),
    ("switch-result", "the-writers-do-not-meet", " bar.cta.sync 0         |", "  |"),
    ("switch-result-free", "no-fence-behind-the-wait", "| fence.proxy.alias       |", "|  |"),
    ("switch-result-free", "the-signal-does-not-release", "st.release.sys free", "st.relaxed.sys free"),
    ("switch-result-free", "the-wait-does-not-acquire", "ld.acquire.sys r0, free", "ld.relaxed.sys r0, free"),
    ("switch-result-free", "the-writers-do-not-meet", "| bar.cta.sync 1       ;", "|  ;"),
    ("switch-chain", "no-fence-behind-the-wait", "| fence.proxy.alias        | bar.cta.sync 0 ",
     "|  | bar.cta.sync 0 "),
    ("switch-chain", "no-fence-before-the-signal", "| fence.proxy.alias        |  ", "|  |  "),
    ("switch-chain", "the-step-does-not-meet", "| bar.cta.sync 1           | bar.cta.sync 1 ", "|  | "),
    ("abort-stays", "loads-are-weak", "ld.relaxed.sys", "ld.weak"),
    ("end-of-run", "no-fence-before-the-count", " fence.acq_rel.sys           | bar.cta.sync 0",
     "  | bar.cta.sync 0"),
    ("end-of-run", "no-fence-after-the-count", "|                | fence.acq_rel.sys           |", "|  |  |"),
    ("end-of-run", "the-host-does-not-acquire", "ld.acquire.sys r2, finished", "ld.relaxed.sys r2, finished"),
    ("end-of-run", "the-block-does-not-meet", "| bar.cta.sync 0 |", "|  |"),
]


def weaker(name, what, old, new):
    """The test with a weaker instruction, which allows what was forbidden."""
    text = (HERE / f"{name}.litmus").read_text()
    if old not in text or "~exists" not in text:
        sys.exit(f"run.py: {name} has no such place: {old}")
    text = text.replace(old, new).replace("~exists", "exists")
    return text.replace(f"PTX {name}\n", f"PTX {name}-{what}\n")


def all_tests():
    tests = {path.stem: path.read_text() for path in sorted(HERE.glob("*.litmus"))}
    for name, what, old, new in WEAKER:
        tests[f"{name}-{what}"] = weaker(name, what, old, new)
    return tests


def compare(checkout):
    alike, others, unknown = 0, [], 0
    with open(checkout / "dartagnan/src/test/resources/PTXv7_5-expected.csv") as listed:
        for name, expected in filter(None, csv.reader(listed)):
            try:
                holds = Test((checkout / name).read_text()).holds()
            except Unsupported:
                unknown += 1
                continue
            alike += holds == (expected == "1")
            others += [] if holds == (expected == "1") else [name]
    print(f"alike: {alike}, different: {len(others)} {', '.join(others)}; not understood: {unknown}")


def main():
    tests = all_tests()
    if sys.argv[1:2] == ["--write"]:
        for name, text in tests.items():
            (Path(sys.argv[2]) / f"{name}.litmus").write_text(text)
        return 0
    if sys.argv[1:2] == ["--compare"]:
        compare(Path(sys.argv[2]))
        return 0
    lonely = [name for name, text in tests.items()
              if "~exists" in text and name not in {row[0] for row in WEAKER}]
    wrong = [f"{name} can fail in no way" for name in lonely]
    for name, text in tests.items():
        test = Test(text)
        holds = test.holds()
        forbidden = (test.quantifier == "~exists") == holds
        print(f"{name}: {'forbidden' if forbidden else 'allowed'}{'' if holds else ', which is WRONG'}")
        wrong += [] if holds else [name]
    print(f"litmus tests: {len(tests)}, wrong: {len(wrong)} {', '.join(wrong)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
