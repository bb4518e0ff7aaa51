"""Plans of communicators that span hosts: one host makes each, the others run what it has made."""
import ctypes
import itertools
import os
import re
import signal
import unittest

from cluster import require_namespaces
from harness import BLINKCTL
from test_ranks import OP, PerfTest

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WAIT_ALL = 0x40000000


def setUpModule():
    require_namespaces()


class StoppedPlanner:
    """The threads of a daemon that make plans stand still, and nothing else of it does."""

    def __init__(self, case, daemon):
        self.libc, self.daemon = ctypes.CDLL(None, use_errno=True), daemon
        self.threads = []
        case.addCleanup(self.go_on)
        tasks = f"/proc/{daemon.child.pid}/task"
        for thread in [int(task) for task in os.listdir(tasks) if self.is_planner(tasks, task)]:
            self.trace(PTRACE_SEIZE, thread)
            self.threads.append(thread)
            self.trace(PTRACE_INTERRUPT, thread)
            os.waitpid(thread, WAIT_ALL)
        case.assertTrue(self.threads, daemon.describe())

    @staticmethod
    def is_planner(tasks, task):
        with open(os.path.join(tasks, task, "comm"), encoding="ascii") as file:
            return file.read().strip() == "blinkd-planner"

    def trace(self, request, thread):
        arguments = [ctypes.c_long(request), ctypes.c_long(thread), ctypes.c_void_p(0), ctypes.c_void_p(0)]
        if self.libc.ptrace(*arguments) != 0:
            raise AssertionError(f"ptrace of a planner thread: {os.strerror(ctypes.get_errno())}")

    def go_on(self):
        while self.threads:
            self.trace(PTRACE_DETACH, self.threads.pop())

    def kill(self):
        """Kill the daemon, whose threads that are traced end only once they are waited for."""
        self.daemon.child.send_signal(signal.SIGKILL)
        while self.threads:
            os.waitpid(self.threads.pop(), WAIT_ALL)
        self.daemon.kill()


class PlansTest(PerfTest):
    def started_with(self, host_count, *flags_of_host, **options):
        """Hosts whose daemons log what they plan; by host, more flags."""
        hosts = self.cluster(host_count, **options)
        for number, host in enumerate(hosts):
            own = flags_of_host[number] if number < len(flags_of_host) else []
            host.start("--log-level", "debug", *own)
        return hosts

    @staticmethod
    def ranks_on(*hosts):
        return [(host, 0) for host in hosts]

    @staticmethod
    def planned(host):
        """What the host's daemon has planned by itself, and what others have planned for it."""
        log = host.daemon.stderr()
        return re.findall(r"(\w+) over \d+ ranks planned in", log), re.findall(
            r"(\w+) over \d+ ranks planned by (\w+),", log)

    def comm_number(self, host):
        return self.ctl_json(host.daemon, "comms")["comms"][0]["comm"]

    def explained(self, host):
        """By collective: what ops have run by, as the host's daemon says."""
        plans = self.ctl_json(host.daemon, "explain", "--comm", self.comm_number(host))["plans"]
        return {plan["collective"]: plan for plan in plans}


class Once(PlansTest):
    STEPS = [f"times:20:{OP}", "times:20:broadcast:1000:float32:0", "times:20:allreduce:100000:float32:sum"]
    PLANS = ["allreduce", "broadcast", "allreduce"]

    def check_once(self, places, maker):
        for steps in self.run_at(places, *self.STEPS, "destroy"):
            self.assert_all_ok(steps)
        for host, _ in places:
            own, others = self.planned(host)
            self.assertEqual(own, self.PLANS if host is maker else [], host.daemon.describe())
            self.assertEqual(others, [] if host is maker else [(plan, maker.name) for plan in self.PLANS])

    def test_two_hosts(self):
        one, two = self.started_with(2)
        self.check_once(self.ranks_on(one, two), one)

    def test_three_hosts_the_last_of_which_has_the_first_rank(self):
        one, two, three = self.started_with(3)
        self.check_once(self.ranks_on(three, one, two), three)

    def test_a_home_without_ranks_plans_nothing(self):
        home, one, two = self.started_with(3)
        identifier = home.new_id()
        ranks = [host.start_rank(identifier, 2, rank, *self.STEPS, "destroy", device=0)
                 for rank, host in enumerate((one, two))]
        for rank in ranks:
            self.assert_all_ok(rank.finish())
        self.assertEqual(self.planned(home), ([], []))
        self.assertEqual(self.planned(one), (self.PLANS, []))
        self.assertEqual(self.planned(two), ([], [(plan, one.name) for plan in self.PLANS]))

    def test_the_next_communicator_of_the_same_hosts_has_them_already(self):
        one, two = self.started_with(2)
        for _ in range(3):
            self.check_once(self.ranks_on(one, two), one)

    def test_hosts_may_come_in_any_order(self):
        """The joined topology is the same, and so the plans that there are can be used."""
        one, two, three = self.started_with(3)
        for order in itertools.permutations([(0, one), (1, two), (2, three)]):
            identifier, ranks = one.new_id(), []
            for rank, host in order:
                ranks.append(host.start_rank(identifier, 3, rank, OP, "destroy", device=0))
                self.until(lambda host=host: self.ctl_json(host.daemon, "comms")["comms"] or
                           ranks[-1].child.poll() is not None)
            for rank in ranks:
                self.assert_all_ok(rank.finish())
            for host in (one, two, three):
                self.until(lambda host=host: not self.ctl_json(host.daemon, "comms")["comms"])
        self.assertEqual(self.planned(one), (["allreduce"], []))
        self.assertEqual(self.planned(two), ([], [("allreduce", one.name)]))

    def test_transfers_are_planned_by_their_sources(self):
        one, two = self.started_with(2)
        self.play(self.ranks_on(one, two), "exchange")
        for host, other in ((one, two), (two, one)):
            own, others = self.planned(host)
            self.assertIn("sendrecv", own)
            self.assertIn(("sendrecv", other.name), others)


class Differences(PlansTest):
    def test_a_daemon_that_would_plan_otherwise_runs_what_the_other_has_planned(self):
        """As with another version of the planner. Before plans were shipped such hosts failed every op."""
        for flags in ([["--protocol", "ll"], []], [[], ["--protocol", "ll"]]):
            with self.subTest(flags=flags):
                one, two = self.started_with(2, *flags)
                ranks = self.start_waiting(self.ranks_on(one, two), "allreduce:100000:float32:sum")
                first, second = (self.explained(host)["allreduce"] for host in (one, two))
                self.assertEqual(first["protocol"], "ll" if flags[0] else "simple")
                for key in ("algorithm", "protocol", "plan"):
                    self.assertEqual(first[key], second[key])
                self.finish(ranks)

    def test_a_daemon_that_is_started_anew_plans_anew(self):
        one, two = self.started_with(2)
        places = self.ranks_on(one, two)
        self.check_serve(places)
        one.daemon.stop()
        one.start("--log-level", "debug", "--protocol", "ll")
        ranks = self.start_waiting(places, OP)
        self.assertEqual(self.explained(two)["allreduce"]["protocol"], "ll")
        self.finish(ranks)


class Waiting(PlansTest):
    def test_the_host_that_plans_is_killed_while_others_wait(self):
        one, two, three = self.started_with(3)
        ranks = self.start_at(self.ranks_on(one, two, three), "gate", OP, "destroy")
        self.wait_at_gates(ranks)
        planner = StoppedPlanner(self, one.daemon)
        for rank in ranks[1:]:
            rank.say()
        self.until(lambda: all("n1 is asked for the plan" in host.daemon.stderr() for host in (two, three)))
        planner.kill()
        for rank in ranks[1:]:
            self.assert_step(rank.finish(), OP, "PEER_LOST", "n1")
        ranks[0].kill()
        self.check_serve(self.ranks_on(two, three))

    def test_slow_planning_loses_no_sign_of_life(self):
        """The planner stands still for longer than a daemon may give no sign of life."""
        one, two = self.started_with(2, timeout_s=1)
        ranks = self.start_at(self.ranks_on(one, two), "gate", OP, "destroy")
        self.wait_at_gates(ranks)
        planner = StoppedPlanner(self, one.daemon)
        for rank in ranks:
            rank.say()
        self.until(lambda: "n1 is asked for the plan" in two.daemon.stderr())
        since = [self.session_s(host) for host in (one, two)]
        for host, began in zip((one, two), since):
            self.until(lambda host=host, began=began: self.session_s(host) > began + 3)
        planner.go_on()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def session_s(self, host):
        """How old the host's session is, which it still has."""
        sessions = [node for node in host.nodes() if node["state"] == "connected"]
        self.assertEqual(len(sessions), 1, host.daemon.describe())
        return sessions[0]["since_s"]


class Shown(PlansTest):
    def joined_topology(self, host):
        return self.ctl(host.daemon, "topology", "--comm", str(self.comm_number(host)), "--json")

    def test_the_plan_that_runs_is_that_of_blinkctl(self):
        one, two, three = self.started_with(3)
        ranks = self.start_waiting(self.ranks_on(one, two, three), "allreduce:1024:float32:sum",
                                   "broadcast:262144:float32:0")
        topologies = [self.joined_topology(host) for host in (one, two, three)]
        self.assertEqual(topologies, [topologies[0]] * 3)
        file = self.write_file("joined.json", topologies[0])
        for collective, size in (("allreduce", 4096), ("broadcast", 1 << 20)):
            request = ["--topology", file, "--wires", "--ranks", "0,2,4", "--collective", collective,
                       "--bytes", str(size)]
            planned = self.ctl_json(one.daemon, "explain", *request)
            for host in (one, two, three):
                running = self.explained(host)[collective]
                self.assertEqual({key: running[key] for key in ("algorithm", "protocol", "plan")},
                                 {key: planned[key] for key in ("algorithm", "protocol", "plan")})
                self.assertIn(running["plan"], self.ctl(host.daemon, "explain", "--comm",
                                                        str(self.comm_number(host))))
            shown = self.ctl_json(one.daemon, "plan", *request, "--algorithm", planned["algorithm"])
            self.assertEqual(shown["plan"], planned["plan"])
            for words in (["explain"], ["plan", "--algorithm", planned["algorithm"]]):
                self.assertIn(f"plan {planned['plan']}\n", self.ctl(one.daemon, *words, *request))
        self.finish(ranks)

    def test_a_communicator_is_known_again_on_another_host(self):
        one, two = self.started_with(2)
        others = [self.start_ranks(two.daemon, [0, 1], [OP, "gate", "destroy"]) for _ in range(2)]
        for ranks in others:
            self.wait_at_gates(ranks)
        self.finish(others[0])
        ranks = self.start_waiting(self.ranks_on(one, two), OP)
        here, = self.ctl_json(one.daemon, "comms")["comms"]
        there = {comm["id"]: comm for comm in self.ctl_json(two.daemon, "comms")["comms"]}
        self.assertEqual(len(there), 2)
        self.assertNotEqual(here["comm"], there[here["id"]]["comm"])
        self.assertEqual((here["devices"], there[here["id"]]["devices"]), ([0, None], [None, 0]))
        self.assertIn(here["id"], self.ctl(one.daemon, "comms"))
        self.assertIn(here["id"], self.ctl(two.daemon, "comms"))
        self.finish(ranks + others[1])

    def test_it_says_by_what_data_go_to_other_hosts(self):
        one, two = self.started_with(2)
        ranks = self.start_waiting(self.ranks_on(one, two), OP)
        for host in (one, two):
            ran = self.explained(host)["allreduce"]
            self.assertEqual((ran["transport"], ran["network"]), ("local", "TCP"))
            self.assertIn("local, TCP", self.ctl(host.daemon, "explain", "--comm", self.comm_number(host)))
        self.finish(ranks)

    def test_a_communicator_that_there_is_not_has_no_topology(self):
        one, = self.started_with(1)
        status, _, err = self.run_command([BLINKCTL, "--socket", one.daemon.socket, "topology", "--comm",
                                           "77"])
        self.assertEqual(status, 1)
        self.assertIn("no communicator 77", err)

    def test_a_communicator_on_one_host_has_the_host_s_topology(self):
        one, = self.started_with(1)
        identifier = one.new_id()
        ranks = [one.start_rank(identifier, 2, rank, OP, "gate", "destroy", device=rank) for rank in range(2)]
        self.wait_at_gates(ranks)
        self.assertEqual(self.joined_topology(one), self.ctl(one.daemon, "topology", "--json"))
        self.assertIsNone(self.explained(one)["allreduce"]["plan"])
        self.assertIsNone(self.explained(one)["allreduce"]["network"])
        self.finish(ranks)


if __name__ == "__main__":
    unittest.main()
