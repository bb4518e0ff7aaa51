#!/usr/bin/env python3
"""replay.py BIN TRACE [--rounds N] [TOPOLOGY:PACE…]: what is predicted of a recorded job beside its replay.

BIN has blinkd, blinkctl and blink-perf. For each topology a daemon of its own paces its links at PACE of
their capacity, at which this machine keeps up with them; the trace is replayed there (median of the
rounds), and predicted with the same pace. A quiet machine is needed: gaps and ops are real time.
"""
import argparse
import json
import statistics
import subprocess

PACED = ["dgx1v:0.005", "pcie8:0.02", "dgx_a100:0.002"]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="directory of the programs")
    parser.add_argument("trace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("paced", nargs="*", default=PACED, metavar="TOPOLOGY:PACE")
    options = parser.parse_args()
    print("| topology | paced at | predicted ms | replayed ms | least and most | predicted / replayed |")
    print("| --- | --: | --: | --: | --: | --: |")
    for paced in options.paced:
        topology, pace = paced.split(":")
        links = ["--topology", topology, "--pace", pace, "--json"]
        predicted = run(f"{options.bin}/blinkctl", "simulate", "--trace", options.trace, *links)
        predicted = predicted["predicted_us"] / 1e3
        replay = [f"{options.bin}/blink-perf", "--replay", options.trace, "--private", *links]
        times = [run(*replay)["replayed_us"] / 1e3 for _ in range(options.rounds)]
        median = statistics.median(times)
        print(f"| {topology} | {pace} | {predicted:.1f} | {median:.1f} | {min(times):.1f} to "
              f"{max(times):.1f} | {predicted / median:.3f} |")


if __name__ == "__main__":
    main()
