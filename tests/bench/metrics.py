#!/usr/bin/env python3
"""metrics.py BIN [--rounds N] [--beside BLINKD]: what it costs to be watched. BIN has blinkd, blinkctl and
blink-perf.

Measures the round trip of an empty op, AllReduce of 8 bytes and of 64 MiB on two host devices: alone, with
`blinkctl metrics` ten times a second and once a second, with `blinkctl record`, and by the daemon that is
named for comparison, such as one that remembers no ops. Rounds take turns. Prints of each the median of the
rounds and the least time of any iteration, and both beside those alone; on a busy machine only the least
says something.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
import threading

ALLREDUCE = ["allreduce", "--devices", "0,1", "--in-place", "yes", "--check", "0"]
MEASURED = {"empty op": ["nop", "-n", "1000000"],
            "allreduce of 8 B": [*ALLREDUCE, "-b", "8", "-e", "8", "-n", "50000"],
            "allreduce of 64 MiB": [*ALLREDUCE, "-b", "64M", "-e", "64M", "-n", "20"]}


class Daemon:
    def __init__(self, blinkd, directory):
        self.socket = directory + "/socket"
        self.process = subprocess.Popen([blinkd, "--socket", self.socket, "--devices", "host:2",
                                         "--log-level", "warning"])
        while not os.path.exists(self.socket):
            self.process.poll()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


@contextlib.contextmanager
def scraped(bin_directory, socket, pause_s):
    """`blinkctl metrics` again and again."""
    stop = threading.Event()

    def scrape():
        while not stop.wait(pause_s):
            subprocess.run([f"{bin_directory}/blinkctl", "--socket", socket, "metrics"],
                           stdout=subprocess.DEVNULL, check=True)

    scraper = threading.Thread(target=scrape)
    scraper.start()
    yield
    stop.set()
    scraper.join()


@contextlib.contextmanager
def recorded(bin_directory, socket):
    with subprocess.Popen([f"{bin_directory}/blinkctl", "--socket", socket, "record", "-o", "/dev/null"],
                          stdout=subprocess.DEVNULL) as recorder:
        yield
        recorder.terminate()


def measure(bin_directory, blinkd, arguments, watch):
    """Microseconds: median and least. `watch` gives a context in which the daemon is watched."""
    with tempfile.TemporaryDirectory() as directory, Daemon(blinkd, directory) as daemon:
        with watch(bin_directory, daemon.socket):
            command = [f"{bin_directory}/blink-perf", "--socket", daemon.socket, "--json", *arguments]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    return result["time_us"], result["time_us_min"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="directory of the programs")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--beside", metavar="BLINKD", help="another daemon")
    options = parser.parse_args()
    own = f"{options.bin}/blinkd"
    ways = {"alone": (own, lambda *_: contextlib.nullcontext()),
            "scraped 10 times a s": (own, lambda *daemon: scraped(*daemon, 0.1)),
            "scraped once a s": (own, lambda *daemon: scraped(*daemon, 1)),
            "recorded": (own, recorded)}
    if options.beside:
        ways["by the other daemon"] = (options.beside, lambda *_: contextlib.nullcontext())
    for name, arguments in MEASURED.items():
        times = {way: [] for way in ways}
        for _ in range(options.rounds):
            for way, (blinkd, watch) in ways.items():
                times[way].append(measure(options.bin, blinkd, arguments, watch))
        median = {way: statistics.median(mean for mean, _ in times[way]) for way in ways}
        least = {way: min(least for _, least in times[way]) for way in ways}
        print(name)
        for way in ways:
            print(f"  {way + ':':21} "
                  f"median {median[way]:9.4g} us ({median[way] / median['alone'] - 1:+7.1%}), "
                  f"least {least[way]:9.4g} us ({least[way] / least['alone'] - 1:+7.1%})")


if __name__ == "__main__":
    main()
