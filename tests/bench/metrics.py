#!/usr/bin/env python3
"""metrics.py BIN [ROUNDS]: what scraping costs those who work. BIN has blinkd, blinkctl and blink-perf.

Rounds without and with a `blinkctl metrics` each second take turns: the round trip of an empty op, and
AllReduce of 64 MiB on two host devices. Prints the median of each and the ratio.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading

MEASURED = {"empty op": ["nop", "-n", "400000"],
            "allreduce of 64 MiB": ["allreduce", "--devices", "0,1", "-b", "64M", "-e", "64M", "-n", "40",
                                    "--in-place", "yes", "--check", "0"]}


def scrape(bin_directory, stop):
    while not stop.wait(1):
        subprocess.run([f"{bin_directory}/blinkctl", "metrics"], stdout=subprocess.DEVNULL, check=True)


def measure(bin_directory, arguments, with_scraper):
    """Microseconds."""
    stop = threading.Event()
    scraper = threading.Thread(target=scrape, args=(bin_directory, stop))
    if with_scraper:
        scraper.start()
    done = subprocess.run([f"{bin_directory}/blink-perf", *arguments, "--json"], capture_output=True,
                          text=True, check=True)
    stop.set()
    if with_scraper:
        scraper.join()
    return json.loads(done.stdout.splitlines()[-1])["time_us"]


def main():
    bin_directory = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    with tempfile.TemporaryDirectory() as directory:
        os.environ["BLINK_SOCKET"] = directory + "/socket"
        daemon = subprocess.Popen([f"{bin_directory}/blinkd", "--socket", os.environ["BLINK_SOCKET"],
                                   "--devices", "host:2", "--log-level", "warning"])
        try:
            while not os.path.exists(os.environ["BLINK_SOCKET"]):
                daemon.poll()
            for name, arguments in MEASURED.items():
                times = {False: [], True: []}
                for _ in range(rounds):
                    for with_scraper in (False, True):
                        times[with_scraper].append(measure(bin_directory, arguments, with_scraper))
                alone, scraped = (statistics.median(times[key]) for key in (False, True))
                print(f"{name}: {alone:.4g} us alone, {scraped:.4g} us scraped each second, "
                      f"{100 * (scraped / alone - 1):+.1f} %")
        finally:
            daemon.terminate()
            daemon.wait()


if __name__ == "__main__":
    main()
