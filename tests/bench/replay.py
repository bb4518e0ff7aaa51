#!/usr/bin/env python3
"""replay.py BIN TRACE [--rounds N] [TOPOLOGY:PACE…]: what is predicted of a recorded job beside its replay.

BIN has blinkd, blinkctl and blink-perf. For each topology a daemon of its own paces its links at PACE of
their capacity, at which this machine keeps up with them; the trace is replayed there (median of the
rounds), and predicted with the same pace. Then each kind of op, as `blinkctl record` saw the replays. A quiet
machine is needed: gaps and ops are real time.
"""
import argparse
import collections
import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

PACED = ["dgx1v:0.005", "pcie8:0.02", "dgx_a100:0.002"]


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def running(*command, end_with=signal.SIGTERM):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield child
    finally:
        child.send_signal(end_with)
        child.wait()


def kinds_of(prediction):
    """Mean time of the ops of each kind, as recorded and as predicted."""
    sums = collections.defaultdict(lambda: [0, 0.0, 0.0])
    for kind in prediction["kinds"]:
        for i, key in enumerate(("ops", "recorded_us", "predicted_us")):
            sums[kind["collective"], kind["bytes"]][i] += kind[key]
    return {kind: (recorded / ops, predicted / ops) for kind, (ops, recorded, predicted) in sums.items()}


def replay(options, topology, pace, folder):
    """How long each round took in milliseconds, and the kinds of ops that were recorded of all."""
    daemon_socket, trace = os.path.join(folder, "blinkd.sock"), os.path.join(folder, "replayed.trace")
    tool = [f"{options.bin}/blinkctl", "--socket", daemon_socket]
    with running(f"{options.bin}/blinkd", "--socket", daemon_socket, "--config", "/dev/null", "--topology",
                 topology, "--pace", pace):
        while subprocess.run([*tool, "status"], capture_output=True, check=False).returncode != 0:
            time.sleep(0.05)
        with running(*tool, "record", "--output", trace, end_with=signal.SIGINT):
            times = [run(f"{options.bin}/blink-perf", "--replay", options.trace, "--socket", daemon_socket,
                         "--json")["replayed_us"] / 1e3 for _ in range(options.rounds)]
    predicted = run(f"{options.bin}/blinkctl", "simulate", "--trace", trace, "--topology", topology,
                    "--pace", pace, "--json")
    return times, kinds_of(predicted)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="directory of the programs")
    parser.add_argument("trace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("paced", nargs="*", default=PACED, metavar="TOPOLOGY:PACE")
    options = parser.parse_args()
    rows = []
    print("| topology | paced at | predicted ms | replayed ms | least and most | predicted / replayed |")
    print("| --- | --: | --: | --: | --: | --: |")
    for paced in options.paced:
        topology, pace = paced.split(":")
        links = ["--topology", topology, "--pace", pace, "--json"]
        predicted = run(f"{options.bin}/blinkctl", "simulate", "--trace", options.trace, *links)
        with tempfile.TemporaryDirectory() as folder:
            times, replayed = replay(options, topology, pace, folder)
        total, median = predicted["predicted_us"] / 1e3, statistics.median(times)
        print(f"| {topology} | {pace} | {total:.1f} | {median:.1f} | {min(times):.1f} to "
              f"{max(times):.1f} | {total / median:.3f} |")
        rows += [(topology, *kind, predicted_us, replayed[kind][0])
                 for kind, (_, predicted_us) in kinds_of(predicted).items() if kind in replayed]
    print("\n| topology | collective | bytes | predicted us | replayed us | predicted / replayed |")
    print("| --- | --- | --: | --: | --: | --: |")
    for topology, collective, size, predicted_us, replayed_us in rows:
        print(f"| {topology} | {collective} | {size} | {predicted_us:.0f} | {replayed_us:.0f} | "
              f"{predicted_us / replayed_us:.3f} |")


if __name__ == "__main__":
    main()
