"""Every --json against docs/json.md: it parses, names its schema, and has the keys that are documented."""
import json
import os
import pathlib
import re
import unittest

from harness import BLINK_PERF, BLINKCTL, IntegrationTest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/json.md"
# What a document has only at times, by the words of its line.
AT_TIMES = re.compile(r"only if|only where|left out|instead|of a route|of a tree|of multicast|one resource")


def documented():
    """By schema: what each key is."""
    schemas = {}
    for line in DOCUMENT.read_text().splitlines():
        if title := re.fullmatch(r"## `(.*)`", line):
            keys = schemas.setdefault(title[1], {})
        elif row := re.fullmatch(r"\| `(\S+)` \| (.+) \|", line):
            keys[row[1]] = row[2]
    return schemas


SCHEMAS = documented()


def keys_of(value, path=""):
    """Paths of all keys, as the document writes them."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}".lstrip(".")
            yield from keys_of(inner, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for inner in value:
            yield from keys_of(inner, path + "[]")


class JsonTest(IntegrationTest):
    def check(self, document, schema):
        self.assertEqual(document["schema"], schema)
        known = SCHEMAS[schema]
        patterns = [re.compile(re.escape(key).replace(r"\*", r"[^.\[]+")) for key in known]
        found = set(keys_of(document)) - {"schema"}
        unknown = [key for key in found if not any(pattern.fullmatch(key) for pattern in patterns)]
        self.assertEqual(unknown, [], f"{schema}: not in docs/json.md")
        missing = [key for key, what in known.items()
                   if "." not in key and key not in found and not AT_TIMES.search(what)]
        self.assertEqual(missing, [], f"{schema}: only in docs/json.md")

    def output(self, *command):
        status, out, err = self.run_command(command)
        self.assertEqual(status, 0, err)
        return out

    def check_all(self, daemon, commands):
        for schema, words in commands:
            with self.subTest(schema=schema, words=words):
                out = self.output(BLINKCTL, "--socket", daemon.socket, "--json", *words.split())
                self.check(json.loads(out), schema)

    def test_what_the_daemon_is_asked(self):
        daemon = self.daemon(topology="dgx1v")
        ranks = self.start_ranks(daemon, [0, 1], ["allreduce:1000:float32:sum", "gate"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        [comm] = self.ctl_json(daemon, "comms")["comms"]
        names = "status devices links comms clients tenants nodes events version topology plan explain"
        self.check_all(daemon, [(f"blink-{name}/1", name) for name in names.split()] +
                       [("blink-explain-comm/1", f"explain --comm {comm['comm']}"),
                        ("blink-ops/1", f"ops {comm['comm']}"),
                        ("blink-top/1", "top --once --delay 0.25"),
                        ("blink-simulation/1", "simulate -e 1K")])
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())

    def test_what_needs_no_daemon(self):
        daemon = self.daemon()
        key = os.path.join(self.directory(), "key")
        self.check_all(daemon, [("blink-topology/1", "topology dgx_h100"),
                                ("blink-topology/1", "topology 2xdgx1v@5"),
                                ("blink-plan/1", "plan -t dgx1v -c alltoall"),
                                ("blink-plan/1", "plan -t dgx_h100 -a multicast"),
                                ("blink-explain/1", "explain -t dgx_h100 --gpus"),
                                ("blink-explain/1", "explain -t dgx1v --ranks 0"),
                                ("blink-explain/1", "explain -t 3xdgx1v@5 --ranks 0,8,16 --peers-most 1"),
                                ("blink-key/1", f"key new {key}")])

    def test_what_a_trace_has_and_predicts(self):
        daemon = self.daemon(topology="dgx1v")
        trace = os.path.join(self.directory(), "trace")
        ranks = self.start_ranks(daemon, [0, 1], ["gate", "allreduce:1000:float32:sum", "gate"])
        for rank in ranks:
            rank.wait_for_step("at-gate")
        recorder = self.start([BLINKCTL, "--socket", daemon.socket, "record", "-o", trace, "--comm", "1"])
        self.until(lambda: os.path.exists(trace) and os.path.getsize(trace) > 0)
        for rank in ranks:
            rank.say()
        self.until(lambda: '"op"' in pathlib.Path(trace).read_text(encoding="ascii"))
        for rank in ranks:
            rank.say()
            self.assert_all_ok(rank.finish())
        self.assertEqual(recorder.wait(), 0, recorder.stderr())
        lines = {}
        for line in pathlib.Path(trace).read_text(encoding="ascii").splitlines():
            lines.update(json.loads(line))
        self.check(lines, "blink-trace/1")
        self.check_all(daemon, [("blink-prediction/1", f"simulate --trace {trace}")])
        replayed = self.output(BLINK_PERF, "--socket", daemon.socket, "--json", "--replay", trace)
        self.check(json.loads(replayed), "blink-replay/1")

    def test_what_is_measured(self):
        daemon = self.daemon(devices=2)
        for words in ("allreduce --check 0", "barrier", "broadcast"):
            for line in self.output(BLINK_PERF, "--socket", daemon.socket, "--json",
                                    *words.split(), *"-b 8 -e 8 -n 1".split()).splitlines():
                self.check(json.loads(line), "blink-perf/1")
        out = self.output(BLINK_PERF, "nop", "--socket", daemon.socket, "--json", "-n", "10")
        self.check(json.loads(out), "blink-perf-nop/1")


if __name__ == "__main__":
    unittest.main()
