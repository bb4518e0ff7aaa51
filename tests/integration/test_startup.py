"""How blinkd starts, refuses to start, and stops."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import unittest

import raw
from harness import (BLINK_RANK, BLINKD, LIMIT_S, NOBODY, IntegrationTest, Rank, accepts, new_id,
                     unshared)
from raw import RawClient, message

STEP = "allreduce:100:float32:sum"


class StartTest(IntegrationTest):
    def check_refuses(self, *arguments, texts, socket_path=None, under=()):
        """blinkd ends at once with a failure and one clear message."""
        path = socket_path or os.path.join(self.directory(), "blinkd.sock")
        status, _, err = self.run_command([*under, BLINKD, "--socket", path, *arguments])
        self.assertGreater(status, 0, err)
        for text in texts:
            self.assertRegex(err, text)
        if not socket_path:
            self.assertFalse(os.path.exists(path))

    def test_a_gpu_that_cannot_be_used_is_not_passed_over(self):
        """The machine of this test has one on PCI, and no driver for it."""
        pci = pathlib.Path(self.directory(), "devices", "0000:07:00.0")
        pci.mkdir(parents=True)
        (pci / "vendor").write_text("0x10de\n", encoding="ascii")
        (pci / "class").write_text("0x030200\n", encoding="ascii")
        script = f"mount --bind {pci.parent} /sys/bus/pci/devices && exec \"$@\""
        self.check_refuses("--devices", "auto", under=[*unshared("--mount"), "sh", "-c", script, "sh"],
                           texts=["1 of NVIDIA's GPUs cannot be used",
                                  r"devices = host:1\. (no CUDA driver|this blinkd was built without CUDA)"])

    def test_starts_serves_and_stops(self):
        for signal_number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
            daemon = self.daemon()
            self.assertTrue(stat.S_ISSOCK(os.stat(daemon.socket).st_mode))
            daemon.check_serves()
            daemon.stop(signal_number)

    def test_stops_at_once_with_clients_connected_and_ops_under_way(self):
        daemon = self.daemon("--pace=0.0001", topology="dgx1v_hybrid")
        ranks = self.start_ranks(daemon, [0, 1, 2], ["allreduce:4000000:float32:sum"])
        for rank in ranks:
            rank.wait_for_step("init")
        daemon.stop()
        for rank in ranks:
            self.assert_step(rank.finish(), "allreduce:4000000:float32:sum", "DAEMON_LOST")

    def test_stops_at_once_although_all_ranks_wait_to_leave_after_a_long_op(self):
        daemon = self.daemon("--pace=0.000001", topology="dgx1v_hybrid")
        client, identifier, size = RawClient(daemon), new_id(), 4 << 20
        self.addCleanup(client.close)
        client.hello()
        client.send(raw.COMM_INIT, message(_1=raw.unique_id(identifier), _2=2, _3=0))
        members = [client.join(identifier, 2, 1).body(5)[1]]
        members.append(client.received_by_id[client.last_id - 1].body(5)[1])
        fd = raw.sealed_memfd(size)
        self.addCleanup(os.close, fd)
        region = client.register(fd, size).body(4)[1]
        for member in members:
            client.submit(raw.ALLREDUCE, member, size // 8, region, region, 0, size // 2)
        self.until(lambda: sum(link["bytes"] for link in self.ctl_json(daemon, "links")["links"]))
        for member in members:
            client.send(raw.COMM_DESTROY, message(_1=member))
        self.assertEqual(client.request(raw.QUERY).code, 0)  # both requests to leave are with the daemon
        daemon.stop()

    def test_takes_over_a_stale_socket(self):
        directory = self.directory()
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(os.path.join(directory, "blinkd.sock"))
        self.daemon(directory=directory).check_serves()

    def test_refuses_a_live_socket(self):
        daemon = self.daemon()
        self.check_refuses("--devices", "host:2", texts=[re.escape(daemon.socket)], socket_path=daemon.socket)
        daemon.check_serves()

    def test_refuses_to_replace_what_is_no_socket(self):
        path = self.write_file("precious", "data")
        self.check_refuses("--devices", "host:2", texts=[re.escape(path)], socket_path=path)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "data")
        self.assertEqual(os.listdir(os.path.dirname(path)), ["precious"])

    def test_running_out_of_descriptors_is_no_storm_and_no_end(self):
        """Connections beyond the limit are refused without a storm in the log, and served when others end."""
        daemon = self.daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        crowd = [socket.socket(socket.AF_UNIX) for _ in range(80)]
        for client in crowd:
            client.connect(daemon.socket)
        daemon.wait_for("a refusal", lambda daemon: "connections refused" in daemon.stderr())
        self.assertLess(daemon.stderr().count("connections refused"), 10)
        for client in crowd:
            client.close()
        daemon.wait_for("their end", lambda daemon: daemon.descriptors() < 40)
        daemon.check_serves()

    def test_absurd_thread_count_is_refused(self):
        self.check_refuses("--workers", "100000", texts=["--workers", r"\b1024\b"])

    def test_refuses_a_socket_in_a_directory_that_does_not_exist(self):
        path = os.path.join(self.directory(), "missing", "blinkd.sock")
        self.check_refuses("--devices", "host:2", texts=[re.escape(path)], socket_path=path)

    def test_unknown_topology(self):
        self.check_refuses("--topology", "dgx9000", "--devices", "host:2", texts=["dgx9000"])

    def test_malformed_json(self):
        for text in ["", "{", '{"schema": "blink-topology/1", "nodes": [}', "[1, 2",
                     '{"schema": "blink-topology/1"}']:
            path = self.write_file("broken.json", text)
            self.check_refuses("--topology", path, "--devices", "host:2", texts=["broken.json"])

    def test_json_with_a_wrong_topology(self):
        node = {"id": "gpu0", "kind": "gpu", "host": "n0"}
        good = {"schema": "blink-topology/1", "name": "x", "nodes": [node, node | {"id": "gpu1"}],
                "links": [{"from": "gpu0", "to": "gpu1", "GBps": 25.0, "kind": "nvlink"}]}
        self.check_accepts(good)
        for key, value, text in [("nodes", [node, node], "gpu0"),
                                 ("links", [good["links"][0] | {"to": "gpu7"}], "gpu7"),
                                 ("links", [good["links"][0] | {"GBps": -1}], "gpu0"),
                                 ("nodes", [], "node|gpu"), ("surprise", 1, "surprise")]:
            path = self.write_file("wrong.json", json.dumps(good | {key: value}))
            self.check_refuses("--topology", path, "--devices", "host:2", texts=["wrong.json", text])

    def check_accepts(self, topology):
        daemon = self.daemon(topology=self.write_file("good.json", json.dumps(topology)), devices=2)
        daemon.check_serves()
        daemon.stop()

    def test_malformed_xml(self):
        for text in ["<system", "<system><cpu></system>", "<unrelated/>", '<system version="1"></system>']:
            path = self.write_file("broken.xml", text)
            self.check_refuses("--topology", path, "--devices", "host:2", texts=["broken.xml"])

    def test_devices_beyond_the_topology(self):
        self.check_refuses("--topology", "dgx1v", "--devices", "host:9", texts=[r"\b9\b", r"\b8\b"])

    def test_malformed_devices_and_pace(self):
        for devices in ["host:0", "host:-1", "host:x", "host:", "hosts", "gpu:2", "host:99999999999", ""]:
            self.check_refuses("--devices", devices, texts=["devices"])
        for pace in ["0", "-1", "x", "nan", "inf", ""]:
            self.check_refuses("--devices", "host:2", "--topology", "dgx1v", f"--pace={pace}", texts=["pace"])

    def test_the_scale_of_pace_may_be_a_word_of_its_own(self):
        for flags, scale in [(["--pace=0.01"], 0.01), (["--pace", "0.01"], 0.01)]:
            daemon = self.daemon(*flags, topology="dgx1v")
            self.assertEqual(self.ctl_json(daemon, "status")["pace_scale"], scale)
        daemon = self.daemon("--pace", topology="dgx1v")
        self.assertGreater(self.ctl_json(daemon, "status")["pace_scale"], 0)

    def test_unknown_flag(self):
        self.check_refuses("--no-such-flag", texts=["no-such-flag"])

    def test_help_and_version(self):
        for flag, text in [("--help", "--socket"), ("--version", r"\d+\.\d+\.\d+")]:
            status, out, _ = self.run_command([BLINKD, flag])
            self.assertEqual(status, 0)
            self.assertRegex(out, text)


class ConfigurationTest(IntegrationTest):
    def check_config(self, text, *flags):
        path = self.write_file("blinkd.conf", text)
        return self.run_command([BLINKD, "--check-config", "--config", path, *flags])

    def test_good_configuration(self):
        status, _, err = self.check_config(
            "# comment\n[daemon]\nsocket = /tmp/x.sock\nsocket_mode = 0660\n"
            "[devices]\ndevices = host:4\ntopology = dgx1v\n[pace]\nscale = 0.01\n"
            "[limits]\nop_timeout_s = 2.5\nregistered_bytes_per_tenant = 64G\n")
        self.assertEqual(status, 0, err)

    def test_what_it_prints_is_a_configuration(self):
        status, out, err = self.check_config("[limits]\nop_timeout_s = 7\n", "--devices", "host:3")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"op_timeout_s = 7\b")
        self.assertIn("host:3", out)
        self.assertEqual(self.check_config(out)[1], out)

    def test_bad_limits(self):
        for line in ["op_timeout_s = 0", "op_timeout_s = never", "init_timeout_s = -1",
                     "clients_per_tenant = 1.5", "registered_bytes_per_tenant = 5X",
                     "registered_bytes_per_tenant = -1", "op_timeout_s ="]:
            status, _, err = self.check_config(f"[limits]\n{line}\n")
            self.assertGreater(status, 0, line)
            self.assertRegex(err, r"blinkd\.conf:2\b")

    def test_empty_configuration(self):
        self.assertEqual(self.check_config("")[0], 0)

    def test_unknown_key_is_named_with_its_line(self):
        status, _, err = self.check_config("[daemon]\n\ncolour = blue\n")
        self.assertGreater(status, 0)
        self.assertRegex(err, r"blinkd\.conf:3\b")
        self.assertIn("colour", err)

    def test_unknown_section_is_named(self):
        status, _, err = self.check_config("[kitchen]\nsocket = /tmp/x.sock\n")
        self.assertGreater(status, 0)
        self.assertIn("kitchen", err)

    def test_bad_value_is_named_with_its_line(self):
        status, _, err = self.check_config("[devices]\ndevices = host:many\n")
        self.assertGreater(status, 0)
        self.assertRegex(err, r"blinkd\.conf:2\b")
        self.assertIn("host:many", err)

    def test_line_that_is_no_assignment(self):
        status, _, err = self.check_config("[daemon]\nsocket\n")
        self.assertGreater(status, 0)
        self.assertRegex(err, r"blinkd\.conf:2\b")

    def test_missing_file_is_named(self):
        status, _, err = self.run_command([BLINKD, "--check-config", "--config", "/nonexistent/blinkd.conf"])
        self.assertGreater(status, 0)
        self.assertIn("/nonexistent/blinkd.conf", err)

    def test_configuration_that_names_an_unknown_topology(self):
        status, _, err = self.check_config("[devices]\ntopology = dgx9000\n")
        self.assertGreater(status, 0)
        self.assertIn("dgx9000", err)

    def test_flags_override_the_file(self):
        path = self.write_file("blinkd.conf", "[daemon]\nsocket = /nonexistent/x.sock\n"
                               "[devices]\ndevices = host:2\ntopology = dgx2\n")
        daemon = self.daemon("--config", path, topology="dgx1v", devices=3)
        status = self.ctl_json(daemon, "status")
        self.assertEqual((status["topology"], status["device_count"], status["socket"]),
                         ("dgx1v", 3, daemon.socket))


class ServiceManagerTest(IntegrationTest):
    def test_readiness_is_announced_once_it_serves(self):
        path = os.path.join(self.directory(), "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(LIMIT_S)
            daemon = self.daemon(wait=False, env=os.environ | {"NOTIFY_SOCKET": path})
            self.wait_for_notification(notify, "READY=1")
            self.assertTrue(accepts(daemon.socket), "it serves when it says so")
            daemon.stop()
            self.wait_for_notification(notify, "STOPPING=1")

    def wait_for_notification(self, notify, line):
        while line not in notify.recv(4096).decode().splitlines():
            pass

    def test_watchdog_is_fed(self):
        path = os.path.join(self.directory(), "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(path)
            notify.settimeout(LIMIT_S)
            # WATCHDOG_PID is left out: it would have to be known before the start.
            self.daemon(env=os.environ | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"})
            for _ in range(3):
                self.wait_for_notification(notify, "WATCHDOG=1")

    def pass_socket(self, path, *flags):
        """Start blinkd as systemd would for blinkd.socket: descriptor 3 listens, LISTEN_PID is its own."""
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        # The shell becomes blinkd, so $$ is its process id.
        command = f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"'
        return self.start(["sh", "-c", command, BLINKD, *flags], pass_fds=[listener.fileno()])

    def test_socket_activation(self):
        directory = self.directory()
        path = os.path.join(directory, "activated.sock")
        daemon = self.pass_socket(path, "--devices", "host:4")
        daemon.socket = path
        self.assert_all_ok_by_two(daemon)
        daemon.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0, daemon.describe())
        self.assertTrue(os.path.exists(path), "the socket is the service manager's")

    def test_socket_activation_warns_of_settings_without_effect(self):
        for flags, warns in [([], False), (["--socket", "/tmp/elsewhere.sock"], True),
                             (["--config", self.write_file("b.conf", "[daemon]\nsocket_mode = 0600\n")],
                              True)]:
            path = os.path.join(self.directory(), "activated.sock")
            daemon = self.pass_socket(path, "--devices", "host:4", *flags)
            daemon.socket = path
            self.assertEqual(self.ctl_json(daemon, "status")["socket"], path)
            self.assertEqual("warning" in daemon.stderr(), warns, daemon.stderr())
            daemon.child.send_signal(signal.SIGTERM)
            self.assertEqual(daemon.wait(), 0)

    def assert_all_ok_by_two(self, daemon):
        for steps in self.run_ranks(daemon, [0, 1], [STEP]):
            self.assert_all_ok(steps)

    def test_socket_activation_by_systemd(self):
        path = os.path.join(self.directory(), "activated.sock")
        daemon = self.start(["systemd-socket-activate", "-l", path, BLINKD, "--devices", "host:4"])
        daemon.socket = path
        daemon.wait_for("listening", lambda _: os.path.exists(path))
        self.assert_all_ok_by_two(daemon)
        daemon.child.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 0, daemon.describe())


@unittest.skipUnless(os.geteuid() == 0, "becoming another user needs root")
class TenantTest(IntegrationTest):
    def test_another_user_cannot_join(self):
        daemon = self.daemon()
        os.chmod(daemon.directory, 0o755)
        os.chmod(daemon.socket, 0o777)
        # A copy that the other user can run wherever the build directory lies.
        client = shutil.copy(BLINK_RANK, os.path.join(daemon.directory, "client"))
        identifier = new_id()
        waiting = self.start_rank(daemon, identifier, 2, 0, [STEP])
        while not self.ctl_json(daemon, "comms")["comms"]:
            pass
        arguments = ["--socket", daemon.socket, "--ranks", "2", "--rank"]
        library_path = self.copy_libraries(client, daemon.directory)
        stranger = Rank([client, *arguments, "1", "--id", identifier, STEP], user=NOBODY, group=NOBODY,
                        extra_groups=[], env=os.environ | {"LD_LIBRARY_PATH": library_path})
        self.children.append(stranger)
        self.until(lambda: len(self.ctl_json(daemon, "comms")["comms"]) == 2)
        own = Rank([client, *arguments, "0,1", "--id", new_id(), STEP], user=NOBODY, group=NOBODY,
                   extra_groups=[], env=os.environ | {"LD_LIBRARY_PATH": library_path})
        self.children.append(own)
        self.assert_all_ok(own.finish())
        self.assert_all_ok(self.start_rank(daemon, identifier, 2, 1, [STEP]).finish())
        self.assert_all_ok(waiting.finish())
        self.assertFalse([step for step in stranger.steps() if step["step"] == "init"])

    def copy_libraries(self, program, directory):
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"=> (\S*libblinkclient\S*)", listed):
            os.chmod(shutil.copy(path, directory), 0o755)
        return directory


if __name__ == "__main__":
    unittest.main()
