"""Communicators that span hosts while ranks, daemons and cables fail, at every phase of an op's life: who is
concerned hears of it by name, nobody hangs, and what remains goes on.
"""
import os
import re
import shutil
import signal
import subprocess
import unittest

from cluster import BLACK_HOLE, LOSSY, OP, RanksTest, require_namespaces
from harness import BLINK_PERF, BLINK_RANK, Rank
from limit import LIMIT_S, SHORT_S

#: 64 MiB, which take seconds where a host sends no faster than this.
LARGE = "allreduce:16777216:float32:sum:inplace"
SLOWLY = ("tbf", "rate", "300mbit", "burst", "64k", "latency", "50ms")
MOVING_BYTES = 4 << 20
GOOD = f"times:100:{OP}"
NOBODY = 65534
GROWTH_BYTES = 256 << 10  # measured: 36 KiB of fifty communicators, 180 KiB of seven peers

#: After so long without a sign of life a host is lost, where tests wait for that: twice, where others are not
#: to be lost.
TIMEOUT_S = LIMIT_S / 40

#: What goes on until something fails.
BUSY = {"small ops": f"times:1000000:{OP}",
        "groups": f"times:1000000:group:20:{OP}",
        "broadcasts": "times:1000000:broadcast:100000:int32:1"}
FEW_PHASES = ["small ops", "a large op"]  # where each takes a host's time-out
#: ThreadSanitizer finds in few what it finds in all.
PHASES = FEW_PHASES if os.environ.get("SANITIZE") == "thread" else [*BUSY, "a large op"]


def setUpModule():
    require_namespaces()


class FaultsTest(RanksTest):
    def busy(self, places, phase, then=("untouched", "destroy")):
        ranks = self.start_at(places, "gate", BUSY[phase], *then)
        self.open_gates(ranks)
        self.until(lambda: self.ctl_json(places[0][0].daemon, "comms")["comms"][0]["op_count"] > 20)
        return ranks

    def in_a_large_op(self, places, then=("untouched", "destroy")):
        """Ranks of which each host has sent some of it, and none has all."""
        before = {}
        for host, _ in places:
            if host not in before:
                host.shape(*SLOWLY)
            before[host] = host.sent_bytes()
        ranks = self.start_at(places, f"submit:{LARGE}", "gate", "wait", *then)
        for host, count in before.items():
            self.until(lambda host=host, count=count: host.sent_bytes() > count + MOVING_BYTES)
        self.open_gates(ranks)
        return ranks

    def at_phase(self, places, phase):
        return self.busy(places, phase) if phase in BUSY else self.in_a_large_op(places)

    def hurry(self, places, phase):
        """The phase is over."""
        for host in {host for host, _ in places} if phase not in BUSY else ():
            host.unshape()

    def end_unharmed(self, ranks):
        """Nothing has failed until now."""
        for rank in ranks:
            self.assertEqual([step for step in rank.steps() if step["result"] != "BLINK_OK"], [])
        for rank in ranks:
            rank.kill()

    @staticmethod
    def gone(host, rank):
        """Whoever is first to tell."""
        return f"{host}, with rank {rank}, is lost"

    def assert_untouched(self, *ranks):
        for rank in ranks:
            self.assert_step(rank.steps(), "untouched", "OK")

    def forget_comms(self, places):
        for host in {host for host, _ in places}:
            self.until(lambda host=host: not self.ctl_json(host.daemon, "comms")["comms"])


class Ranks(FaultsTest):
    STOPPED_OPS = 2000  # of a job in which a rank is stopped three times

    def test_killed_at_every_phase(self):
        places = self.places(2, 1)
        for phase in PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                ranks[1].kill()
                for rank in (ranks[0], ranks[2]):
                    self.assert_lost(rank, r"rank 1 \(pid \d+\) on n1 disconnected|rank 1 disconnected")
                self.assert_untouched(ranks[0], ranks[2])
                self.hurry(places, phase)
                self.forget_comms(places)
                self.check_serve(places)

    def test_stopped_for_a_while_at_every_phase(self):
        places = self.places(1, 1)
        for phase, job in (("small ops", f"times:{self.STOPPED_OPS}:{OP}"),
                           ("groups", f"times:{self.STOPPED_OPS // 20}:group:20:{OP}")):
            with self.subTest(phase=phase):
                ranks = self.start_at(places, "gate", job, "destroy")
                self.open_gates(ranks)
                for _ in range(3):
                    ranks[1].child.send_signal(signal.SIGSTOP)
                    self.check_serve(places)
                    ranks[1].child.send_signal(signal.SIGCONT)
                for rank in ranks:
                    self.assert_all_ok(rank.finish())

    def test_killed_between_ops(self):
        places = self.places(1, 1, 1)
        ranks = self.start_at(places, OP, "gate", OP, "destroy")
        self.wait_at_gates(ranks)
        ranks[2].kill()
        for rank in ranks[:2]:
            rank.say()
            self.assert_lost(rank, r"rank 2 \(pid \d+\) on n3 disconnected")
        self.check_serve(places)

    def test_killed_during_split(self):
        """It has told the others where it belongs, and never comes there."""
        places = self.places(1, 1, 1)
        own = {2: [OP, "split-choice:0", "gate", "kill"]}
        ranks = self.start_at(places, OP, "split:0", own=own)
        ranks[2].wait_for_step("at-gate")
        ranks[2].say()
        for rank in ranks[:2]:
            self.assert_lost(rank, "rank 2")
        self.check_serve(places)

    def test_survivors_go_on(self):
        """Without a rank that was alone on its host, without one beside another, without the host at which
        they had gathered."""
        places = self.places(2, 1, 2)
        ranks = self.start_at(places, "gate", f"outlive:4:{OP}", "gate", f"outlive:3:{OP}", "gate",
                              f"outlive:1:{OP}", "shrink")
        self.open_gates(ranks)
        ranks[2].kill()
        for rank in (ranks[0], ranks[1], ranks[3], ranks[4]):
            rank.wait_for_step(f"outlive:4:{OP}")
        ranks[3].kill()
        left = (ranks[0], ranks[1], ranks[4])
        for rank in left:
            rank.say()
        for rank in left:
            rank.wait_for_step(f"outlive:3:{OP}")
        places[0][0].daemon.kill()
        ranks[4].say()
        steps = ranks[4].finish()
        self.assert_all_ok(steps)
        self.assert_step(steps, "shrink", "OK", "^0 of 1$")
        for rank in left[:2]:
            rank.kill()
        self.check_serve(places[2:])

    def test_killed_while_others_wait_to_go_on(self):
        """At whose host they gather."""
        places = self.places(1, 1, 1)
        ranks = self.start_at(places, "await-lost", "shrink", OP,
                              own={0: ["gate"], 2: ["abort", "shrink", OP]})
        for host, _ in places[1:]:
            self.until(lambda host=host: "joining" in [
                comm["state"] for comm in self.ctl_json(host.daemon, "comms")["comms"]])
        ranks[0].kill()
        for place, rank in enumerate(ranks[1:]):
            steps = rank.finish()
            self.assert_step(steps, "shrink", "OK", f"^{place} of 2$")
            self.assert_step(steps, OP, "OK")
        self.check_serve(places)

    def test_stopped_ranks_are_named_with_the_op(self):
        places = self.places(1, 2, limits={"op_timeout_s": SHORT_S})
        ranks = self.start_at(places, OP, "gate", OP, "destroy")
        self.wait_at_gates(ranks)
        ranks[2].child.send_signal(signal.SIGSTOP)
        for rank in ranks[:2]:
            rank.say()
        # Its host names it alone, or the other host, if it had much less time, all that are there.
        for rank in ranks[:2]:
            self.assert_step(rank.finish(), OP, "TIMEOUT",
                             r"allreduce \d+ of communicator \d+.*rank (1, )?2\b")
        ranks[2].kill()
        self.check_serve(places)

    def test_all_ranks_of_a_host_that_do_not_come_are_named(self):
        places = self.places(1, 1, limits={"op_timeout_s": SHORT_S})
        ranks = self.start_at(places, OP, "gate", OP, "destroy")
        self.wait_at_gates(ranks)
        ranks[0].say()
        self.assert_step(ranks[0].finish(), OP, "TIMEOUT", r"allreduce 2 of.*n2, with rank 1")
        ranks[1].say()
        self.assert_step(ranks[1].finish(), OP, "TIMEOUT", "n2, with rank 1")

    def test_killed_with_memory_that_is_copied(self):
        places = self.places(1, 1)
        id_file = os.path.join(self.directory(), "id")
        for host, _ in places:
            host.shape(*SLOWLY)
        before = [host.sent_bytes() for host, _ in places]
        ranks = [self.start([BLINK_PERF, "--socket", host.daemon.socket, "allreduce", "--memory", "malloc",
                             "--min", "64M", "--max", "64M", "--iters", 1000, "--id-file", id_file,
                             "--devices", "0,0"],
                            env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
                 for rank, (host, _) in enumerate(places)]
        for (host, _), count in zip(places, before):
            self.until(lambda host=host, count=count: host.sent_bytes() > count + MOVING_BYTES)
        ranks[1].kill()
        self.assertNotEqual(ranks[0].wait(), 0)
        self.assertRegex(ranks[0].stderr(), "rank 1")
        for host, _ in places:
            host.unshape()
        self.check_serve(places)


class Daemons(FaultsTest):
    def test_killed_at_every_phase_and_started_anew(self):
        places = self.places(1, 1, 1)
        victim = places[2][0]
        for phase in PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                victim.daemon.kill()
                for rank in ranks[:2]:
                    self.assert_lost(rank, self.gone("n3", 2))
                steps = ranks[2].finish()
                self.assertIn("BLINK_ERR_DAEMON_LOST", [step["result"] for step in steps], steps)
                self.assert_untouched(*ranks[:2])
                self.hurry(places, phase)
                victim.restart()
                self.forget_comms(places)
                self.check_serve(places)

    def test_daemon_that_is_told_to_stop_says_so_before_it_hangs_up(self):
        places = self.places(1, 1, 1)
        victim = places[2][0]
        for phase in PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                victim.daemon.stop()
                for rank in ranks[:2]:
                    self.assert_lost(rank, f"^{self.gone('n3', 2)}: its daemon was stopped$")
                failed = [step for step in ranks[2].finish() if step["result"] != "BLINK_OK"]
                self.assertEqual(failed[0]["result"], "BLINK_ERR_DAEMON_LOST", failed)
                self.hurry(places, phase)
                victim.restart()
                self.forget_comms(places[:2])
                self.check_serve(places)

    def test_stopped_amid_ops(self):
        places = self.places(1, 1, timeout_s=TIMEOUT_S)
        for phase in FEW_PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                places[1][0].daemon.child.send_signal(signal.SIGSTOP)
                self.assert_lost(ranks[0], self.gone("n2", 1))
                places[1][0].daemon.child.send_signal(signal.SIGCONT)
                self.assert_lost(ranks[1], self.gone("n1", 0))
                self.assert_untouched(*ranks)
                self.hurry(places, phase)
                self.forget_comms(places)
                self.check_serve(places)

    def test_killed_during_split(self):
        places = self.places(1, 1, 1)
        own = {2: [OP, "split-choice:0", "gate"]}
        ranks = self.start_at(places, OP, "split:0", own=own)
        ranks[2].wait_for_step("at-gate")
        places[2][0].daemon.kill()
        for rank in ranks[:2]:
            self.assert_lost(rank, self.gone("n3", 2))
        ranks[2].kill()
        self.check_serve(places[:2])


class Cables(FaultsTest):
    def test_black_hole_amid_ops(self):
        """Nothing comes to the host, and it does not know; what it sends goes out."""
        places = self.places(1, 1, timeout_s=TIMEOUT_S)
        for phase in FEW_PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                places[1][0].filter(BLACK_HOLE)
                self.assert_lost_to_each_other(ranks)
                places[1][0].unfilter()
                self.hurry(places, phase)
                self.forget_comms(places)
                self.check_serve(places)

    def assert_lost_to_each_other(self, ranks):
        self.assert_lost(ranks[0], self.gone("n2", 1))
        self.assert_lost(ranks[1], self.gone("n1", 0))
        self.assert_untouched(*ranks)

    def test_pulled_out_amid_ops(self):
        places = self.places(1, 1, timeout_s=TIMEOUT_S)
        for phase in FEW_PHASES:
            with self.subTest(phase=phase):
                ranks = self.at_phase(places, phase)
                places[1][0].plug(False)
                self.assert_lost_to_each_other(ranks)
                places[1][0].plug(True)
                self.hurry(places, phase)
                self.forget_comms(places)
                self.check_serve(places)

    def test_packets_that_are_lost_cost_time_alone(self):
        places = self.places(1, 1, 1)
        for host, _ in places:
            host.filter(LOSSY)
        for steps in self.run_at(places, f"times:300:{OP}", "times:3:broadcast:1000000:float32:1",
                                 f"times:20:group:20:{OP}", "destroy"):
            self.assert_all_ok(steps)

    def test_partition_into_halves(self):
        """Communicators within a half do not notice; those that span both are lost to both."""
        places = self.places(1, 1, 1, 1, timeout_s=2 * TIMEOUT_S)
        cluster = places[0][0].cluster
        cluster.at_switch("ip", "link", "add", "br1", "type", "bridge")
        cluster.at_switch("ip", "link", "set", "br1", "up")
        halves = [self.start_at([(host, 1) for host, _ in half], f"times:1000000:{OP}")
                  for half in (places[:2], places[2:])]
        for half in (places[:2], places[2:]):
            self.until(lambda half=half: self.ctl_json(half[0][0].daemon, "comms")["comms"])
        ranks = self.start_at(places, "gate", BUSY["small ops"], "destroy")
        self.open_gates(ranks)
        op_count = lambda host, comm: sorted(self.ctl_json(host.daemon, "comms")["comms"],
                                             key=lambda each: each["rank_count"])[comm]["op_count"]
        self.until(lambda: op_count(places[0][0], 1) > 20)
        for host, _ in places[2:]:
            cluster.at_switch("ip", "link", "set", host.wire, "master", "br1")
        for rank, other in zip(ranks, ("n[34]", "n[34]", "n[12]", "n[12]")):
            self.assert_lost(rank, f"{other}.* is lost")
        for host in (places[0][0], places[2][0]):
            before = op_count(host, 0)
            self.until(lambda host=host, before=before: op_count(host, 0) > before + 20)
        self.end_unharmed(sum(halves, []))
        # One lost host ends a communicator. A session to the other one may be about to, and the next
        # communicator would be lost with it.
        for half in (places[:2], places[2:]):
            for (host, _), (other, _) in (half, half[::-1]):
                self.wait_connected(host, other)
        for host, _ in places[2:]:
            cluster.at_switch("ip", "link", "set", host.wire, "master", "br0")
        self.check_serve(places)


class Leaving(FaultsTest):
    LARGE = "broadcast:4000000:int32:0"

    def test_sender_that_destroys_and_closes_as_soon_as_its_part_has_ended(self):
        """Some of the broadcast is still under way then, and comes all the same."""
        places = self.places(1, 1)
        places[0][0].shape(*SLOWLY)
        for steps in self.run_at(places, OP, self.LARGE, "destroy"):
            self.assert_all_ok(steps)


class Slow(FaultsTest):
    def test_an_op_may_take_what_its_links_need(self):
        """Its memory alone would be through with it in a small part of the time."""
        places = self.places(1, 1, limits={"run_timeout_s": 0.1, "run_timeout_factor": 5 * LIMIT_S})
        places[0][0].shape("tbf", "rate", "100mbit", "burst", "64k", "latency", "50ms")
        for steps in self.run_at(places, OP, Leaving.LARGE, "destroy"):
            self.assert_all_ok(steps)

    def test_an_op_that_takes_too_long_names_the_host_where_it_ran(self):
        places = self.places(1, 1, limits={"run_timeout_s": SHORT_S / 2, "run_timeout_factor": 0.001})
        places[0][0].shape("tbf", "rate", "10mbit", "burst", "64k", "latency", "50ms")
        for steps in self.run_at(places, Leaving.LARGE, "await-lost"):
            self.assert_step(steps, "await-lost", "TIMEOUT", r"on n\d, with rank \d, it has run for [\d.]+ s")


class Bystanders(FaultsTest):
    PEERS_LOST = 7
    MANY_OPS = 1000

    def test_another_communicator_of_the_hosts_goes_on(self):
        places = self.places(1, 1)
        bystanders = self.start_at([(host, 1) for host, _ in places], "gate", GOOD, "gate", GOOD, "destroy")
        self.open_gates(bystanders)
        ranks = self.in_a_large_op(places)
        ranks[1].kill()
        self.assert_lost(ranks[0], "rank 1")
        self.hurry(places, PHASES[-1])
        self.finish(bystanders)

    @unittest.skipUnless(os.geteuid() == 0 and "BLINK_TEST_IN_USER_NAMESPACE" not in os.environ,
                         "becoming other users needs root")
    def test_another_user_is_not_harmed(self):
        places = self.places(1, 1)
        ranks = self.busy_users(places, ["small ops", "small ops"])
        ranks[0][1].kill()
        self.assert_lost(ranks[0][0], "rank 1")
        before, = self.op_counts(places)
        self.until(lambda: self.op_counts(places)[0] > before + 100)
        self.end_unharmed(ranks[1])
        self.forget_comms(places)

    @unittest.skipUnless(os.geteuid() == 0 and "BLINK_TEST_IN_USER_NAMESPACE" not in os.environ,
                         "becoming other users needs root")
    def test_users_move_at_the_same_time(self):
        """While one has done many ops the other has done some, whatever ops the one has."""
        for phase in BUSY:
            with self.subTest(phase=phase):
                places = self.places(1, 1)
                ranks = self.busy_users(places, [phase, "small ops"])
                before = self.op_counts(places)
                since = lambda before=before, places=places: [
                    now - then for now, then in zip(self.op_counts(places), before)]
                self.until(lambda since=since: max(since()) >= self.MANY_OPS)
                self.assertGreaterEqual(min(since()), self.MANY_OPS // 50)
                self.end_unharmed(sum(ranks, []))

    def op_counts(self, places):
        """Of all communicators, in the order in which they were made."""
        comms = self.ctl_json(places[0][0].daemon, "comms")["comms"]
        return [comm["op_count"] for comm in sorted(comms, key=lambda comm: comm["comm"])]

    def busy_users(self, places, phases):
        """A communicator of a user of its own for each phase, which all have begun: their ranks."""
        programs = {host: self.open_to_all(host) for host, _ in places}
        ranks = []
        for number, phase in enumerate(phases):
            identifier = places[0][0].new_id()
            ranks.append([self.start_as(NOBODY - number, programs[host], host, identifier, rank, number,
                                        BUSY[phase]) for rank, (host, _) in enumerate(places)])
        for each in ranks:
            self.open_gates(each)
        self.until(lambda: min(self.op_counts(places)) > 20)
        return ranks

    def open_to_all(self, host):
        """Every user may connect to its daemon, and run a copy of blink-rank, whose path is returned."""
        directory = host.daemon.directory
        os.chmod(directory, 0o755)
        program = shutil.copy(BLINK_RANK, os.path.join(directory, "client"))
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"=> (\S*libblinkclient\S*)", listed):
            os.chmod(shutil.copy(path, directory), 0o755)
        return program

    def start_as(self, uid, program, host, identifier, rank, device, step):
        child = Rank([program, "--socket", host.daemon.socket, "--id", identifier, "--ranks", 2, "--rank",
                      rank, "--device", device, "gate", step],
                     user=uid, group=uid, extra_groups=[],
                     env=os.environ | {"LD_LIBRARY_PATH": host.daemon.directory})
        self.children.append(child)
        return child

    def test_nothing_is_left_of_communicators_that_were_lost(self):
        places = self.places(1, 1)
        daemons = [host.daemon for host, _ in places]
        use = lambda: [(daemon.descriptors(), daemon.mappings()) for daemon in daemons]

        def lose_some(count):
            for _ in range(count):
                ranks = self.busy(places, "groups")
                ranks[1].kill()
                self.assert_lost(ranks[0], "rank 1")
            self.forget_comms(places)
            return use()

        lose_some(3)
        early = lose_some(2)
        lose_some(5)
        for daemon, (descriptors, mappings) in zip(daemons, early):
            self.until(lambda: daemon.descriptors() <= descriptors and daemon.mappings() <= mappings + 8)

    def test_nothing_is_left_of_communicators_that_came_and_went(self):
        """Of many that one client makes and destroys, round for round."""
        places = self.places(1, 1)
        daemons = [host.daemon for host, _ in places]

        def make(count):
            identifier = places[0][0].new_id()
            ids = [identifier[:-8] + f"{number:08x}" for number in range(count)]
            ranks = [self.start_client(host.daemon, [step for each in ids for step in (
                f"join:{each}:2:{rank}:0", OP, "destroy")]) for rank, (host, _) in enumerate(places)]
            for rank in ranks:
                self.assert_all_ok(rank.finish())
            self.forget_comms(places)

        self.check_leaves_nothing(daemons, lambda: make(50))

    def test_nothing_is_left_of_peers_that_were_lost_and_met_again(self):
        one, two = [host for host, _ in self.places(1, 1)]

        def lose_and_meet(count):
            for _ in range(count):
                ranks = self.busy([(one, 0), (two, 0)], "small ops")
                two.daemon.kill()
                self.assert_lost(ranks[0], "n2")
                ranks[1].kill()
                self.forget_comms([(one, 0)])
                two.restart()

        self.check_leaves_nothing([one.daemon], lambda: lose_and_meet(self.PEERS_LOST))

    def check_leaves_nothing(self, daemons, play):
        """The third time leaves no descriptor, and memory grows by less than its bound."""
        play()
        play()
        early = [(daemon.descriptors(), daemon.anonymous_bytes(), daemon.shared_bytes())
                 for daemon in daemons]
        play()
        for daemon, (descriptors, used_bytes, shared_bytes) in zip(daemons, early):
            self.until(lambda daemon=daemon, count=descriptors: daemon.descriptors() <= count)
            self.assertLess(daemon.shared_bytes(), shared_bytes + GROWTH_BYTES)
            if not os.environ.get("SANITIZE"):  # a sanitizer keeps what is freed
                self.assertLess(daemon.anonymous_bytes(), used_bytes + GROWTH_BYTES)


if __name__ == "__main__":
    unittest.main()
