"""blinkctl metrics: what it says, and who reads it: the parsers of Prometheus, Prometheus itself, and who
asks over HTTP as nobody should."""
import importlib.util
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import unittest
import urllib.error
import urllib.request

from harness import BLINKCTL, LIMIT_S, IntegrationTest, new_id, needs
from raw import message
from test_tools import FakeDaemon

TOP = pathlib.Path(__file__).parents[2]
RULES = TOP / "systemd" / "observe" / "blinkd.rules.yml"
DASHBOARD = TOP / "systemd" / "observe" / "blinkd.dashboard.json"
PAGE = TOP / "docs" / "observe.md"
NAME = re.compile(r"\bblink_[a-z_]+")
LABEL = re.compile(r'(\w+)="((?:[^"\\\n]|\\.)*)"')
ESCAPES = {"\\n": "\n", "\\\\": "\\", '\\"': '"'}


def unescape(value):
    return re.sub(r"\\.", lambda found: ESCAPES[found[0]], value)


def parse(text):
    """[(name, labels, value)]"""
    samples = []
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            found = {key: unescape(value) for key, value in LABEL.findall(labels or "")}
            samples.append((name, found, float(value)))
    return samples


def value_of(samples, metric, /, **labels):
    found = [value for name, own, value in samples if name == metric and labels.items() <= own.items()]
    assert len(found) == 1, f"{len(found)} samples of {metric} with {labels}"
    return found[0]


class MetricsTest(IntegrationTest):
    def busy_daemon(self, *names):
        """With a communicator of two ranks for each name, whose ranks have run two ops and live."""
        daemon = self.daemon(topology="dgx1v_hybrid")
        steps = ["allreduce:1000:float32:sum", "allreduce:500:float32:sum", "gate:shown"]
        ranks = []
        for name in names:
            identifier = new_id()
            ranks += [self.start_rank(daemon, identifier, 2, rank, steps, name=name) for rank in range(2)]
        for rank in ranks:
            rank.wait_for_step("at-gate")
        return daemon, ranks

    def finish(self, ranks):
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_numbers_are_those_that_blinkctl_shows(self):
        daemon, ranks = self.busy_daemon('grads "a\\b"')
        samples = parse(self.ctl(daemon, "metrics"))
        links = self.ctl_json(daemon, "links")["links"]
        tenant, = self.ctl_json(daemon, "tenants")["tenants"]
        own = {"comm": "1", "name": 'grads "a\\b"', "uid": str(os.getuid())}
        self.assertEqual(value_of(samples, "blink_communicator_ops_total", **own), 2)
        self.assertEqual(value_of(samples, "blink_communicator_payload_bytes_total", **own), 6000)
        self.assertEqual(value_of(samples, "blink_communicator_oldest_op_seconds", **own), 0)
        self.assertEqual(value_of(samples, "blink_tenant_payload_bytes_total", uid=str(os.getuid())), 6000)
        self.assertEqual((tenant["op_count"], tenant["failed_op_count"], tenant["bytes"]), (2, 0, 6000))
        self.assertEqual(value_of(samples, "blink_ops_total"), 2)
        self.assertEqual(value_of(samples, "blink_communicators", state="ready"), 1)
        self.assertGreater(sum(link["bytes"] for link in links), 0)
        for i, link in enumerate(links):
            self.assertEqual(value_of(samples, "blink_link_bytes_total", link=str(i)), link["bytes"], link)
        for resource, budget in tenant["budgets"].items():
            kind = "bytes" if resource.endswith("_bytes") else "objects"
            self.assertEqual(value_of(samples, "blink_tenant_limit_" + kind,
                                      resource=resource.removesuffix("_bytes")), budget["limit"], resource)
        self.finish(ranks)

    def test_an_op_that_waits_for_a_rank_is_seen(self):
        daemon = self.daemon()
        identifier = new_id()
        steps = (["allreduce:100:float32:sum"], ["gate:late", "allreduce:100:float32:sum"])
        ranks = [self.start_rank(daemon, identifier, 2, rank, steps[rank]) for rank in range(2)]
        self.until(lambda: value_of(parse(self.ctl(daemon, "metrics")), "blink_oldest_op_seconds") > 0)
        ranks[1].say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def test_of_many_communicators_so_many_are_shown(self):
        daemon, ranks = self.busy_daemon("one", "two")
        samples = parse(self.ctl(daemon, "metrics", "--most", "1"))
        shown = [labels for name, labels, _ in samples if name == "blink_communicator_ops_total"]
        self.assertEqual(len(shown), 1)
        self.assertEqual(value_of(samples, "blink_metrics_left_out", kind="communicator"), 1)
        self.assertEqual(value_of(samples, "blink_communicators", state="ready"), 2)
        self.finish(ranks)

    def test_labels_may_be_any_bytes(self):
        path = os.path.join(self.directory(), "blinkd.sock")
        comms = [message(_1=7, _15=b'a\n"b"\\'), message(_1=8, _15=b"\xff\x1b\xc3\xa9")]
        link = message(_1="gpu\u00e9".encode(), _2=b"x") + struct.pack("<Bd", 4 << 3 | 1, 25.0)
        fake = FakeDaemon(path, message(_1=message(_1=b"0.0.9")) + message(_4=link) +
                          b"".join(message(_5=comm) for comm in comms))
        status, out, err = self.run_command([BLINKCTL, "--socket", path, "metrics", "--openmetrics"])
        self.assertEqual(status, 0, err)
        fake.join(LIMIT_S)
        fake.listener.close()
        samples = parse(out.removesuffix("# EOF\n"))
        self.assertEqual(value_of(samples, "blink_communicator_ranks", comm="7", name='a\n"b"\\'), 0)
        self.assertEqual(value_of(samples, "blink_communicator_ranks", comm="8", name="????"), 0)
        self.assertEqual(value_of(samples, "blink_link_capacity_bytes_per_second", **{"from": "gpu\u00e9"}),
                         25e9)
        self.assertEqual(len(out.splitlines()), out.count("\n"))

    def test_page_rules_and_dashboard_name_what_there_is(self):
        daemon, ranks = self.busy_daemon("one")
        there = {name for name, _, _ in parse(self.ctl(daemon, "metrics"))}
        there |= set(re.findall(r"^# TYPE (\w+) ", self.ctl(daemon, "metrics"), re.M))
        there |= {"blink_gpu_worker_running", "blink_gpu_worker_restarts_total"}
        expressions = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"]
                       for target in panel["targets"]]
        for text in [RULES.read_text().replace("blink_last_error", ""), *expressions]:
            self.assertEqual(set(NAME.findall(text)) - there, set(), text)
        self.assertEqual(there - set(NAME.findall(PAGE.read_text())), set())
        self.finish(ranks)


class ServingTest(IntegrationTest):
    def serve(self, daemon, *arguments):
        """systemd's own program for sockets, whose connections blinkctl answers: the port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.start(["systemd-socket-activate", "--accept", "--inetd", "-l", f"127.0.0.1:{port}",
                    BLINKCTL, "--socket", daemon.socket, *arguments])
        self.until(lambda: self.connects(port))
        return port

    def connects(self, port):
        try:
            socket.create_connection(("127.0.0.1", port), LIMIT_S).close()
        except ConnectionRefusedError:
            return False
        return True


class HttpTest(ServingTest):
    def get(self, port, path="/metrics", **options):
        """Status, type, text."""
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", **options)
        try:
            with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def say(self, port, request):
        """What is answered to these bytes, until the connection is closed."""
        with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
            connection.sendall(request)
            with connection.makefile("rb") as answer:
                return answer.read()

    def test_both_formats_are_served_as_they_are_asked_for(self):
        port = self.serve(self.daemon(), "metrics", "--http")
        status, kind, text = self.get(port)
        self.assertEqual((status, kind), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("# TYPE blink_ops_total counter\n", text)
        status, kind, text = self.get(port, headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        self.assertEqual((status, kind), (200, "application/openmetrics-text; version=1.0.0; charset=utf-8"))
        self.assertIn("# TYPE blink_ops counter\n", text)
        self.assertTrue(text.endswith("\n# EOF\n"), text)
        self.assertEqual(self.get(port, method="HEAD")[::2], (200, ""))

    def test_what_is_no_request_for_metrics_is_told_so(self):
        daemon = self.daemon()
        port = self.serve(daemon, "metrics", "--http")
        idle = [socket.create_connection(("127.0.0.1", port), LIMIT_S) for _ in range(8)]
        self.assertEqual(self.get(port, "/")[0], 404)
        self.assertEqual(self.get(port, data=b"x")[0], 405)
        for garbage in (b"\r\n\r\n", b"\0\xff\r\n\r\n", b"GET\r\n\r\n", b"GET /metrics FTP/1\r\n\r\n"):
            self.assertIn(b"HTTP/1.1 400 ", self.say(port, garbage))
        self.assertIn(b"HTTP/1.1 431 ", self.say(port, b"GET /metrics HTTP/1.1\r\nX: " + 8166 * b"x"))
        self.assertEqual(self.get(port)[0], 200)
        for connection in idle:  # who says nothing is told that the time is over
            with connection.makefile("rb") as answer:
                self.assertIn(b"HTTP/1.1 408 ", answer.read())
            connection.close()
        daemon.check_serves()

    def test_without_a_daemon_the_answer_is_503(self):
        daemon = self.daemon()
        port = self.serve(daemon, "metrics", "--http")
        daemon.stop()
        status, _, text = self.get(port)
        self.assertEqual(status, 503)
        self.assertIn(daemon.socket, text)

    def test_without_a_socket_http_is_refused(self):
        status, _, err = self.run_command([BLINKCTL, "metrics", "--http"])
        self.assertEqual(status, 1)
        self.assertIn("blinkd-metrics.socket", err)


class PrometheusTest(ServingTest):
    """What reads metrics in earnest."""

    def promtool(self, *arguments, text=None):
        needs("promtool", shutil.which("promtool"), "prometheus")
        process = self.start(["promtool", *arguments])
        if text is not None:
            process.say(text)
            process.child.stdin.close()
        self.assertEqual(process.wait(), 0, process.describe())
        return process.stdout() + process.stderr()

    def test_promtool_finds_no_fault(self):
        daemon = self.daemon(topology="dgx1v_hybrid")
        daemon.check_serves()
        self.assertEqual(self.promtool("check", "metrics", text=self.ctl(daemon, "metrics")), "")

    def test_promtool_takes_the_rules(self):
        self.assertIn("SUCCESS", self.promtool("check", "rules", str(RULES)))

    def test_the_openmetrics_parser_takes_it(self):
        needs("prometheus_client", importlib.util.find_spec("prometheus_client"),
              "python3-prometheus-client")
        from prometheus_client.openmetrics.parser import text_string_to_metric_families
        daemon = self.daemon(topology="dgx1v_hybrid")
        daemon.check_serves()
        text = self.ctl(daemon, "metrics", "--openmetrics")
        families = {family.name: family for family in text_string_to_metric_families(text)}
        self.assertEqual(families["blink_ops"].type, "counter")
        self.assertEqual(families["blink_ops"].samples[0].value, 1)

    def ask(self, port, query):
        """The values of an instant query."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}",
                                    timeout=LIMIT_S) as answer:
            return [float(result["value"][1]) for result in json.load(answer)["data"]["result"]]

    def test_prometheus_scrapes_a_daemon_at_work(self):
        needs("prometheus", shutil.which("prometheus"), "prometheus")
        daemon = self.daemon(topology="dgx1v_hybrid")
        target = self.serve(daemon, "metrics", "--http")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        config = self.write_file("prometheus.yml", f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{RULES}]
scrape_configs: [{{job_name: blinkd, static_configs: [{{targets: ["127.0.0.1:{target}"]}}]}}]
""")
        self.start(["prometheus", "--config.file", config, "--storage.tsdb.path", self.directory(),
                    "--web.listen-address", f"127.0.0.1:{port}"])
        self.until(lambda: self.connects(port))
        ranks = self.start_ranks(daemon, [0, 1], ["times:200:allreduce:1000:float32:sum"])
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        done = self.ctl_json(daemon, "status")["op_count"]
        self.until(lambda: self.ask(port, "blink_ops_total") == [done])
        self.assertEqual(self.ask(port, "up"), [1])
        self.assertGreater(self.ask(port, "sum(blink_link_bytes_total)")[0], 0)


if __name__ == "__main__":
    unittest.main()
