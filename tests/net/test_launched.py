"""Ranks on several hosts that a launcher has started: where all that is known is the first host, its daemon
is asked for.
"""
import os

from cluster import NetTest, require_namespaces
from harness import BLINK_RANK, Rank
from launchers import STEPS, LaunchTest, untold
from limit import SHORT_S
from raw import INVALID_ARGUMENT, QUOTA, field, open_client

BLINKRUN = os.environ["BLINKRUN"]
PING, FIND_HOME = 11, 12


def setUpModule():
    require_namespaces()


class LaunchedTest(NetTest, LaunchTest):
    def start_inside(self, host, told, steps=STEPS):
        """Inside the host, so that what is its own address is so for the rank."""
        rank = Rank(["ip", "netns", "exec", host.namespace, BLINK_RANK, "--socket", host.daemon.socket,
                     *steps], env={**untold(), **told})
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

    def test_in_a_step_of_slurm(self):
        step = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2", "SLURM_JOB_ID": "77",
                "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "10.77.0.[1-2]"}
        hosts = self.started(2)
        self.check_all([self.start_inside(host, {**step, "SLURM_PROCID": str(2 * number + local),
                                                 "SLURM_LOCALID": str(local)})
                        for number, host in enumerate(hosts) for local in range(2)])

    def test_by_a_file(self):
        hosts = self.started(2)
        self.check_all(self.start_over(hosts, BLINK_RENDEZVOUS=os.path.join(self.directory(), "id")))

    def test_jobs_at_the_same_time(self):
        hosts = self.started(2)
        jobs = [self.start_over(hosts, BLINK_RENDEZVOUS=hosts[0].v4, BLINK_JOB=str(job)) for job in range(3)]
        for ranks in jobs:
            self.check_all(ranks)

    def test_by_blinkrun(self):
        hosts = self.started(2)
        ssh = self.write_file("ssh", "#!/bin/sh\ncase $1 in\n" + "".join(
            f"{host.v4}) namespace={host.namespace} socket={host.daemon.socket} ;;\n" for host in hosts) +
            "esac\nexport BLINK_SOCKET=$socket\nshift\nexec ip netns exec $namespace sh -c \"$*\"\n")
        os.chmod(ssh, 0o755)
        names = ",".join(host.v4 for host in hosts)
        run = self.start([BLINKRUN, "-n", "4", "--hosts", names, BLINK_RANK, *STEPS],
                         env={**untold(), "BLINK_SSH": ssh})
        self.assertEqual(run.wait(), 0, run.describe())
        for text in ("0 of 4, local 0, device 0", "1 of 4, local 1, device 1", "2 of 4, local 0, device 0",
                     "3 of 4, local 1, device 1"):
            self.assertEqual(run.stdout().count(text), 2, run.describe())
        self.assertEqual(run.stdout().count('"BLINK_OK"'), 4 * (len(STEPS) + 2), run.describe())


class Failing(LaunchedTest):
    def test_nobody_is_there(self):
        host, other = self.cluster(2, timeout_s=SHORT_S)
        host.start()
        for place in (other.v4, "10.77.0.9", other.v6):
            with self.subTest(place=place):
                self.check_failure(self.start_at(host, 1, 2, BLINK_RENDEZVOUS=place), "CONNECT",
                                   rf"no daemon is found at \[?{place}\]?:24655: ")

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
