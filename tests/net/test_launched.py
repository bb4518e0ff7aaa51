"""Ranks on several hosts that a launcher has started: where all that is known is the first host, its daemon
is asked for.
"""
import os
import signal
import sys

import launchers
from cluster import OP, NetTest, require_namespaces
from harness import BLINK_PERF, BLINK_RANK, Rank
from launchers import STEPS, LaunchTest, Pmi, untold
from limit import SHORT_S
from raw import INVALID_ARGUMENT, QUOTA, field, open_client

BLINKRUN = os.environ["BLINKRUN"]
PING, FIND_HOME = 11, 12
SHORT = f"launched:{int(SHORT_S * 1000)}"


def setUpModule():
    require_namespaces()


class LaunchedTest(NetTest, LaunchTest):
    def start_inside(self, host, told, steps=STEPS, **options):
        """Inside the host, so that what is its own address is so for the rank."""
        rank = Rank(["ip", "netns", "exec", host.namespace, BLINK_RANK, "--socket", host.daemon.socket,
                     *steps], env={**untold(), **told}, **options)
        self.children.append(rank)
        return rank

    def start_at(self, host, rank, rank_count, steps=STEPS, **told):
        who = {"BLINK_RANK": str(rank), "BLINK_SIZE": str(rank_count)}
        return self.start_inside(host, {**who, **told}, steps)

    def start_over(self, hosts, steps=STEPS, **told):
        """Two ranks on each host."""
        return [self.start_at(host, 2 * number + local, 2 * len(hosts), steps, BLINK_LOCAL_RANK=str(local),
                              **told)
                for number, host in enumerate(hosts) for local in range(2)]

    def check_failure(self, rank, result, *texts):
        self.assert_step(rank.finish(), rank.arguments[7], result, *texts)


class Meeting(LaunchedTest):
    def test_at_the_first_host(self):
        hosts = self.started(3)
        for place in (hosts[0].v4, hosts[0].v4 + ":24655"):
            with self.subTest(place=place):
                self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=place, BLINK_JOB=place))

    def test_by_ipv6(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.start(listen=f"[{host.v6}]")
        for place in (hosts[0].v6, f"[{hosts[0].v6}]:24655"):
            with self.subTest(place=place):
                self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=place, BLINK_JOB=place))

    def test_by_a_daemon_that_listens_everywhere(self):
        hosts = self.cluster(2)
        for host in hosts:
            host.start(listen="*")
        self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=hosts[0].v4))

    def test_a_daemon_that_starts_late_is_waited_for(self):
        hosts = self.cluster(2)
        hosts[1].start()
        second = self.start_at(hosts[1], 1, 2, BLINK_RENDEZVOUS=hosts[0].v4)
        hosts[0].start()
        first = self.start_at(hosts[0], 0, 2, BLINK_RENDEZVOUS=hosts[0].v4)
        self.check_all([first, second])

    def test_by_a_file(self):
        hosts = self.started(2)
        self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=os.path.join(self.directory(), "id")))

    def test_jobs_at_the_same_time(self):
        hosts = self.started(2)
        jobs = [self.start_over(hosts, BLINK_RENDEZVOUS=hosts[0].v4, BLINK_JOB=str(job)) for job in range(3)]
        for ranks in jobs:
            self.check_all(ranks)


class Launchers(LaunchedTest):
    """What each of them tells ranks on two hosts, two on each. All ranks are started anew, as launchers do
    that, while one of the first try still waits for another that does not come.
    """

    def check_launcher(self, tell):
        """tell(rank, local rank, count of tries before this one): the variables."""
        hosts = self.started(2)
        seats = [(host, 2 * number + local, local) for number, host in enumerate(hosts) for local in range(2)]
        self.check_all([self.start_inside(host, tell(rank, local, 0)) for host, rank, local in seats])
        stuck = [self.start_inside(host, tell(rank, local, 1), ["launched"])
                 for host, rank, local in seats[:3]]
        self.until(lambda: sum(client != 0 for comm in self.ctl_json(hosts[0].daemon, "comms")["comms"]
                               for client in comm["clients"]) == 2)
        self.check_all([self.start_inside(host, tell(rank, local, 2)) for host, rank, local in seats])
        for rank in stuck:
            rank.kill()

    def test_slurm(self):
        self.check_launcher(lambda rank, local, tries: {
            "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(local), "SLURM_STEP_NUM_TASKS": "4",
            "SLURM_STEP_NUM_NODES": "2", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0",
            "SLURM_RESTART_COUNT": str(tries), "SLURM_STEP_NODELIST": "10.77.0.[1-2]"})

    def torch(self, rank, local, **told):
        return {"RANK": str(rank), "LOCAL_RANK": str(local), "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2",
                "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "a", **told}

    def test_torchs_variables_without_a_store(self):
        self.check_launcher(lambda rank, local, tries: self.torch(
            rank, local, TORCHELASTIC_RESTART_COUNT=str(tries)))

    def start_store(self, host):
        """The port of an agent's store on the host."""
        store = self.start(["ip", "netns", "exec", host.namespace, sys.executable, "-B", launchers.__file__])
        store.wait_for("its port", lambda store: store.stdout().endswith("\n"))
        return store.stdout().strip()

    def test_torchrun(self):
        """Its agents' store stays, and tells nothing of how often ranks were started."""
        hosts = self.started(2)
        port = self.start_store(hosts[0])
        for _ in range(3):
            self.check_all([self.start_inside(host, self.torch(
                2 * number + local, local, MASTER_PORT=port, TORCHELASTIC_USE_AGENT_STORE="True"))
                            for number, host in enumerate(hosts) for local in range(2)])

    def test_pmi(self):
        hosts, launcher = self.started(2), Pmi(4)
        self.check_all(launcher.start(lambda told, descriptor: self.start_inside(
            hosts[int(told["PMI_RANK"]) // 2], {**told, "MPI_LOCALRANKID": str(int(told["PMI_RANK"]) % 2)},
            pass_fds=[descriptor])))
        self.assertEqual(launcher.ended, 4)


class Blinkrun(LaunchedTest):
    def start_run(self, hosts, rank_count, *command):
        """By an ssh that enters the namespace of the host."""
        ssh = self.write_file("ssh", "#!/bin/sh\ncase $1 in\n" + "".join(
            f"{host.v4}) namespace={host.namespace} socket={host.daemon.socket} ;;\n" for host in hosts) +
            "esac\nexport BLINK_SOCKET=$socket\nshift\nexec ip netns exec $namespace sh -c \"$*\"\n")
        os.chmod(ssh, 0o755)
        names = ",".join(host.v4 for host in hosts)
        return self.start([BLINKRUN, "-n", rank_count, "--hosts", names, *command],
                          env={**untold(), "BLINK_SSH": ssh})

    def check_run(self, hosts, rank_count):
        run = self.start_run(hosts, rank_count, BLINK_RANK, *STEPS)
        self.assertEqual(run.wait(), 0, run.describe())
        local_count = -(-rank_count // len(hosts))
        for rank in range(rank_count):
            text = f"{rank} of {rank_count}, local {rank % local_count}, device {rank % local_count}"
            self.assertEqual(run.stdout().count(text), 2, run.describe())
        self.assertEqual(run.stdout().count('"BLINK_OK"'), rank_count * (len(STEPS) + 2), run.describe())

    def clients(self, host):
        return self.ctl_json(host.daemon, "clients")["clients"]

    def test_ranks_meet(self):
        self.check_run(self.started(2), 4)
        self.check_run(self.started(3), 6)

    def test_blink_perf(self):
        hosts = self.started(2)
        run = self.start_run(hosts, 4, BLINK_PERF, "allreduce", "--check", "-b", "1K", "-e", "1M", "-f",
                             1024, "-n", 2)
        self.assertEqual(run.wait(), 0, run.describe())
        for size in ("1024", "1048576"):
            self.assertEqual(sum(f" {size} " in line for line in run.stdout().splitlines()), 1,
                             run.describe())

    def start_endless(self, hosts):
        """Until all ranks have come far."""
        run = self.start_run(hosts, 4, BLINK_RANK, "launched", f"times:1000000:{STEPS[1]}")
        self.until(lambda: any(comm["op_count"] > 20
                               for comm in self.ctl_json(hosts[0].daemon, "comms")["comms"]))
        return run

    def check_all_gone(self, hosts):
        for host in hosts:
            self.until(lambda host=host: not self.clients(host))

    def test_a_killed_rank_ends_all_and_they_are_started_anew(self):
        hosts = self.started(2)
        for victim in hosts:
            with self.subTest(victim=victim.name):
                run = self.start_endless(hosts)
                os.kill(self.clients(victim)[0]["pid"], signal.SIGKILL)
                self.assertNotEqual(run.wait(), 0, run.describe())
                self.assertRegex(run.stderr(), "blinkrun: rank .* ended")
                self.check_all_gone(hosts)
                self.check_run(hosts, 4)

    def test_a_signal_ends_ranks_on_all_hosts(self):
        hosts = self.started(2)
        run = self.start_endless(hosts)
        run.child.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(), -signal.SIGINT, run.describe())
        self.check_all_gone(hosts)
        self.check_run(hosts, 4)

    def test_a_killed_daemon_ends_all_and_they_are_started_anew(self):
        for victim in range(2):
            with self.subTest(victim=victim):
                hosts = self.started(2)
                run = self.start_endless(hosts)
                hosts[victim].daemon.kill()
                self.assertEqual(run.wait(), 0, run.describe())  # blink-rank tells, and goes on
                lost = [line for line in run.stdout().splitlines() if '"BLINK_ERR_PEER_LOST"' in line]
                self.assertEqual(len(lost), 2, run.describe())
                for line in lost:
                    self.assertRegex(line, f"{hosts[victim].name}.* is lost")
                self.assertEqual(run.stdout().count('"BLINK_ERR_DAEMON_LOST"'), 2, run.describe())
                hosts[victim].restart()
                self.check_run(hosts, 4)


class Failing(LaunchedTest):
    def test_nobody_is_there(self):
        host, other = self.cluster(2, timeout_s=SHORT_S)
        host.start()
        for place in (other.v4, "10.77.0.9", other.v6):
            with self.subTest(place=place):
                self.check_failure(self.start_at(host, 1, 2, BLINK_RENDEZVOUS=place), "CONNECT",
                                   rf"no daemon is found at \[?{place}\]?:24655: ")

    def test_ranks_that_were_told_different_numbers_of_ranks(self):
        one, two = self.started(2)
        told = {"BLINK_RENDEZVOUS": one.v4}
        first = self.start_at(one, 0, 2, [SHORT], **told)
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"])
        self.check_failure(self.start_at(two, 1, 3, ["launched"], **told), "MISMATCH",
                           "rank 0 on n1 joined a communicator of 2 ranks, rank 1 on n2 asks for 3")
        self.check_failure(first, "TIMEOUT",
                           "only 1 of 2 ranks joined .*; rank 1 on n2 asked for 3; missing: rank 1")

    def test_ranks_of_jobs_that_are_named_differently(self):
        one, two = self.started(2)
        ranks = [self.start_at(host, rank, 2, [SHORT], BLINK_RENDEZVOUS=one.v4, BLINK_JOB=host.name)
                 for rank, host in enumerate((one, two))]
        for rank, other in zip(ranks, ("rank 1 on n2", "rank 0 on n1")):
            self.check_failure(rank, "TIMEOUT",
                               f"only 1 of 2 ranks joined .*; {other}, of 2, has another id; missing: rank ")

    def test_more_ranks_than_devices(self):
        one, two = self.started(2)
        identifier = one.new_id()
        ranks = [one.start_rank(identifier, 4, rank, OP, device=-1) for rank in range(2)]
        self.until(lambda: self.ctl_json(one.daemon, "comms")["comms"] and
                   all(client for client in self.ctl_json(one.daemon, "comms")["comms"][0]["clients"][:2]))
        self.assert_step(one.start_rank(identifier, 4, 2, OP, device=-1).finish(), "init", "NOT_FOUND",
                         "no device is left for rank 2 of 4: this host has 2; run at most 2")
        self.assert_step(one.start_rank(identifier, 4, 3, OP, device=1).finish(), "init", "EXISTS",
                         "rank 3 asks for device 1, which rank 1 has taken; this host has 2")
        for rank in ranks:
            rank.kill()

    def test_a_daemon_that_does_not_name_the_address(self):
        """It may be a relay's: whoever has users go there has what they send."""
        hosts = self.cluster(2)
        hosts[0].inside("ip", "address", "add", "10.77.0.101/24", "dev", "eth0")
        hosts[0].start(listen="*")
        hosts[1].start()
        self.check_failure(self.start_at(hosts[1], 1, 2, BLINK_RENDEZVOUS="10.77.0.101"), "PERMISSION",
                           "does not name this address as its own")
        self.assertEqual(hosts[1].connected(), [])

    def test_a_daemon_that_does_not_listen(self):
        host, = self.cluster(1)
        host.start(listen="")
        self.check_failure(self.start_at(host, 1, 2, BLINK_RENDEZVOUS="10.77.0.9"), "UNSUPPORTED",
                           r"\[network\] listen")

    def test_a_daemon_that_has_been_started_anew(self):
        """Ranks that found the old one hear that it has ended, and are not taken for the new one's."""
        hosts = self.started(2)
        told = {"BLINK_RENDEZVOUS": hosts[0].v4}
        ranks = [self.start_at(host, number, 2, ["script"], **told) for number, host in enumerate(hosts)]
        for rank in ranks:
            rank.say("launched\ndestroy\n")
        for rank in ranks:
            rank.wait_for_step("destroy")
        hosts[0].daemon.stop()
        hosts[0].start()
        ranks[1].say("launched\n")
        ranks[1].wait_for("its second communicator", lambda rank: len(
            [step for step in rank.steps() if step["step"] == "launched"]) == 2)
        self.assert_step(ranks[1].steps(), "launched", "PEER_LOST", "the daemon that")
        for rank in ranks:
            rank.kill()
        self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=hosts[0].v4))


class Hostile(LaunchedTest):
    HOST = bytes(10) + b"\xff\xff" + bytes([10, 77, 0, 9])  # nobody's

    def request(self, addresses, port=0):
        return b"".join(field(1, address) for address in addresses) + field(2, port)

    def test_requests_that_make_no_sense(self):
        host, = self.started(1)
        client = open_client(self, host.daemon)
        for addresses, port in (([], 0), ([self.HOST] * 9, 0), ([self.HOST[:15]], 0), ([self.HOST + b"x"], 0),
                                ([self.HOST], 65536)):
            with self.subTest(addresses=addresses, port=port):
                self.assertEqual(client.request(FIND_HOME, self.request(addresses, port)).code,
                                 INVALID_ARGUMENT)

    def test_one_question_at_a_time(self):
        host, = self.started(1)
        client = open_client(self, host.daemon)
        client.send(FIND_HOME, self.request([self.HOST]))
        second = client.request(FIND_HOME, self.request([self.HOST]))
        self.assertEqual((second.code, second.text), (QUOTA, "this connection asks for another host already"))

    def test_who_is_dialled_counts_as_a_connection(self):
        host, = self.started(1, limits={"connections_per_tenant": 12})
        clients = [open_client(self, host.daemon) for _ in range(8)]
        for client in clients[:4]:
            client.send(FIND_HOME, self.request([self.HOST]))
            self.assertEqual(client.request(PING).code, 0)
        refused = clients[4].request(FIND_HOME, self.request([self.HOST]))
        self.assertEqual(refused.code, QUOTA)
        self.assertIn("connections_per_tenant", refused.text)

    def test_who_asks_may_go(self):
        """While the daemon looks, and before it stops."""
        host, = self.started(1)
        for _ in range(20):
            client = open_client(self, host.daemon)
            client.send(FIND_HOME, self.request([self.HOST]))
            client.close()
        self.until(lambda: not self.ctl_json(host.daemon, "clients")["clients"])
        open_client(self, host.daemon).send(FIND_HOME, self.request([self.HOST]))
        host.daemon.check_serves()
