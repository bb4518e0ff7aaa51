"""blink_comm_init_launched() as the ranks of launchers call it: how they find each other on one host, by a
daemon that knows no network.
"""
import os

from harness import BLINK_PERF, new_id
from launchers import STEPS, LaunchTest, Pmi, untold
from limit import SHORT_S

SHORT = f"launched:{int(SHORT_S * 1000)}"


class Meeting(LaunchTest):
    def test_on_one_host_by_the_name_of_the_job(self):
        self.check_all(self.start_blink(self.daemon(), 3, BLINK_RENDEZVOUS="localhost", BLINK_JOB="a"))

    def test_by_a_file_which_is_gone_afterwards(self):
        daemon, directory = self.daemon(), self.directory()
        for _ in range(2):
            self.check_all(self.start_blink(daemon, 3, BLINK_RENDEZVOUS=os.path.join(directory, "id")))
            self.assertEqual(os.listdir(directory), [])

    def test_by_an_id(self):
        daemon = self.daemon()
        id_of_daemon = self.find(self.start_client(daemon, ["id"]).finish(), "id")["text"]
        self.check_all(self.start_blink(daemon, 2, BLINK_UNIQUE_ID=new_id()))
        self.check_all(self.start_blink(daemon, 2, BLINK_UNIQUE_ID=id_of_daemon))

    def test_by_an_address_of_this_host(self):
        """The daemon does not listen there, and need not."""
        self.check_all(self.start_blink(self.daemon(), 2, BLINK_RENDEZVOUS="127.0.0.2", BLINK_JOB="a"))

    def test_alone(self):
        self.check_all(self.start_blink(self.daemon(), 1))

    def test_in_a_step_of_slurm(self):
        daemon = self.daemon()
        self.check_all([self.start_told(daemon, {
            "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": str(rank),
            "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "n[1-2]",
            "SLURM_STEP_NUM_NODES": "1"}) for rank in range(2)])

    def test_as_torchrun_starts_them(self):
        """Without the agent's store, as who sets the variables by hand."""
        daemon = self.daemon()
        self.check_all([self.start_told(daemon, {
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
            "MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "29500"}) for rank in range(2)])

    def test_by_pmi(self):
        daemon, launcher = self.daemon(), Pmi(3)
        self.check_all(launcher.start(lambda told, descriptor: self.start_told(daemon, told,
                                                                               pass_fds=[descriptor])))
        self.assertEqual(launcher.ended, 3, "ranks that have told the launcher that they have done")

    def test_by_pmix(self):
        directory, ranks = self.start_pmix(self.daemon(), 3)
        self.check_all(ranks)
        self.assertEqual({f"ended.{rank}" for rank in range(3)} - set(os.listdir(directory)), set())

    def test_ranks_have_the_devices_of_their_local_ranks(self):
        daemon = self.daemon()
        ranks = [self.start_told(daemon, {"BLINK_RANK": str(rank), "BLINK_SIZE": "2", "BLINK_RENDEZVOUS":
                                          "localhost", "BLINK_LOCAL_RANK": str(1 - rank)})
                 for rank in range(2)]
        texts = [self.find(rank.finish(), "launched")["text"] for rank in ranks]
        self.assertEqual(texts, ["0 of 2, local 1, device 1", "1 of 2, local 0, device 0"])


class Apart(LaunchTest):
    def test_jobs_at_the_same_time(self):
        daemon = self.daemon()
        jobs = [self.start_blink(daemon, 2, BLINK_RENDEZVOUS="localhost", BLINK_JOB=str(job))
                for job in range(4)]
        for ranks in jobs:
            self.check_all(ranks)

    def test_a_job_that_is_started_anew_does_not_meet_the_old_one(self):
        """A rank of the old one is still waiting, and another has failed."""
        daemon = self.daemon()
        told = {"BLINK_SIZE": "3", "BLINK_RENDEZVOUS": "localhost"}
        old = [self.start_told(daemon, {**told, "BLINK_RANK": str(rank), "BLINK_JOB": "1"}, ["launched"])
               for rank in range(2)]
        self.until(lambda: sum(client != 0 for comm in self.ctl_json(daemon, "comms")["comms"]
                               for client in comm["clients"]) == 2)
        self.check_all(self.start_blink(daemon, 3, BLINK_RENDEZVOUS="localhost", BLINK_JOB="2"))
        old[0].kill()
        self.assert_step(old[1].finish(), "launched", "PEER_LOST")
        self.check_all(self.start_blink(daemon, 3, BLINK_RENDEZVOUS="localhost", BLINK_JOB="3"))

    def test_communicators_of_one_job_at_the_same_time(self):
        steps = ["launched"] * 4 + [step for comm in range(4) for step in (f"use:{comm}", STEPS[1])]
        self.check_all(self.start_blink(self.daemon(), 3, steps, BLINK_RENDEZVOUS="localhost"))


class Failing(LaunchTest):
    def check_failure(self, ranks, result, *texts):
        for rank in ranks:
            self.assert_step(rank.finish(), rank.arguments[3], result, *texts)

    def test_nobody_has_started_it(self):
        self.check_failure([self.start_told(self.daemon(), {})], "NOT_FOUND", "no launcher has started this")

    def test_ranks_that_do_not_come_are_named(self):
        told = {"BLINK_RANK": "0", "BLINK_SIZE": "2", "BLINK_RENDEZVOUS": "localhost"}
        self.check_failure([self.start_told(self.daemon(), told, [SHORT])], "TIMEOUT",
                           "only 1 of 2 ranks joined", "missing: rank 1")

    def test_rank_0_makes_no_file(self):
        path = os.path.join(self.directory(), "id")
        told = {"BLINK_RANK": "1", "BLINK_SIZE": "2", "BLINK_RENDEZVOUS": path}
        self.check_failure([self.start_told(self.daemon(), told, [SHORT])], "TIMEOUT",
                           f"rank 0 has not made {path} in time")

    def test_a_file_in_a_directory_that_is_not_there(self):
        daemon = self.daemon()
        told = {"BLINK_SIZE": "2", "BLINK_RENDEZVOUS": os.path.join(self.directory(), "nowhere", "id")}
        for rank in "01":
            self.check_failure([self.start_told(daemon, {**told, "BLINK_RANK": rank}, ["launched"])],
                               "NOT_FOUND", "directory .*/nowhere, .*: No such file or directory")

    def test_a_file_of_another_job(self):
        path = self.write_file("id", "something\n")
        told = {"BLINK_SIZE": "2", "BLINK_RENDEZVOUS": path}
        daemon = self.daemon()
        self.check_failure([self.start_told(daemon, {**told, "BLINK_RANK": "0"})], "EXISTS",
                           f"{path} exists already")
        self.check_failure([self.start_told(daemon, {**told, "BLINK_RANK": "1"})], "INVALID_ARGUMENT",
                           "neither the 128 hexadecimal digits")
        self.assertTrue(os.path.exists(path))

    def test_a_host_that_is_not_there(self):
        daemon = self.daemon()
        self.check_failure(self.start_blink(daemon, 2, BLINK_RENDEZVOUS="nowhere.invalid"), "NOT_FOUND",
                           "host nowhere.invalid, where the ranks are to meet")
        for place in ("n1:", "n1:0", "n1:x", "n1:65536", ":7", "[::1", "[]:7"):
            with self.subTest(place=place):
                self.check_failure(self.start_blink(daemon, 2, BLINK_RENDEZVOUS=place), "INVALID_ARGUMENT",
                                   "not a host, or a host with a port")

    def test_another_host_by_a_daemon_that_does_not_listen(self):
        self.check_failure(self.start_blink(self.daemon(), 2, BLINK_RENDEZVOUS="192.0.2.1"), "UNSUPPORTED",
                           r"needs \[network\] listen in blinkd.conf")

    def test_a_launcher_that_goes(self):
        """PMI's descriptor is no more."""
        told = {"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_FD": "999"}
        self.check_failure([self.start_told(self.daemon(), told)], "SYSTEM", r"the launcher \(PMI\)")

    def test_pmix_is_missing(self):
        """A file that is no library stands for the one that the machine may have."""
        place = os.path.dirname(self.write_file("libpmix.so.2", ""))
        _, ranks = self.start_pmix(self.daemon(), 2, LD_LIBRARY_PATH=place)
        self.check_failure(ranks, "UNSUPPORTED", "Open MPI started this process, and libpmix.so.2, .*, "
                           "cannot be loaded: install it or set BLINK_RENDEZVOUS")

    def test_calls_of_pmix_that_fail_are_named(self):
        daemon = self.daemon()
        for call, rank, named in (("PMIx_Init", 0, "PMIx_Init"), ("PMIx_Commit", 0, "PMIx_Put"),
                                  ("PMIx_Fence", 1, "PMIx_Fence")):
            _, ranks = self.start_pmix(daemon, 2, which=[rank], STANDIN_PMIX_FAILS=call)
            self.check_failure(ranks, "SYSTEM", f"^{named}: NOT-FOUND$")
        _, ranks = self.start_pmix(daemon, 2, STANDIN_PMIX_FAILS="PMIx_Get")
        self.check_failure(ranks[1:], "SYSTEM", "^PMIx_Get of what rank 0 gives: NOT-FOUND$")
        ranks[0].kill()

    def test_ranks_that_do_not_come_to_pmix(self):
        directory, ranks = self.start_pmix(self.daemon(), 2, ["launched:1"], which=[1])
        self.check_failure(ranks, "TIMEOUT", "^PMIx_Fence: not all ranks have come within 1 s$")
        self.assertIn("ended.1", os.listdir(directory))

    def test_a_call_that_failed_counts(self):
        """On this rank alone: then the others meet it in the next call, and not in this one."""
        daemon = self.daemon()
        told = {"BLINK_SIZE": "2", "BLINK_RENDEZVOUS": "localhost"}
        first = self.start_told(daemon, {**told, "BLINK_RANK": "0"}, [SHORT, "launched", STEPS[1]])
        self.assert_step([self.wait_step(first)], SHORT, "TIMEOUT")
        second = self.start_told(daemon, {**told, "BLINK_RANK": "1"}, [SHORT, "launched", STEPS[1]])
        for rank in (first, second):
            steps = rank.finish()
            self.assert_step(steps, SHORT, "TIMEOUT")
            self.assert_step(steps, STEPS[1], "OK")

    def wait_step(self, rank):
        rank.wait_for_step(SHORT)
        return self.find(rank.steps(), SHORT)


class Perf(LaunchTest):
    def perf(self, daemon, told, *arguments):
        return self.start([BLINK_PERF, "--socket", daemon.socket, "allreduce", "-b", "1K", "-e", "1K",
                           "-n", 2, *arguments], env={**untold(), **told})

    def check_perf(self, ranks):
        for rank in ranks:
            self.assertEqual(rank.wait(), 0, rank.describe())
        self.assertIn(" 1024 ", ranks[0].stdout())
        self.assertEqual(ranks[1].stdout(), "")

    def test_ranks_of_a_launcher(self):
        daemon = self.daemon()
        self.check_perf([self.perf(daemon, {"BLINK_RANK": str(rank), "BLINK_SIZE": "2",
                                            "BLINK_RENDEZVOUS": "localhost"}) for rank in range(2)])

    def test_ranks_by_hand(self):
        daemon, directory = self.daemon(), self.directory()
        told = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
        self.check_perf([self.perf(daemon, one, "--id-file", os.path.join(directory, "id")) for one in told])
        identifier = new_id()
        self.check_perf([self.perf(daemon, {**one, "BLINK_UNIQUE_ID": identifier}) for one in told])

    def test_what_is_wrong_is_named(self):
        daemon = self.daemon()
        wrong = self.perf(daemon, {"RANK": "2", "WORLD_SIZE": "2"})
        self.assertEqual(wrong.wait(), 2)
        self.assertIn("RANK=2: a number from 0 to 1", wrong.stderr())
        alone = self.perf(daemon, {"RANK": "1", "WORLD_SIZE": "2"})
        self.assertEqual(alone.wait(), 1)
        self.assertIn("set BLINK_RENDEZVOUS", alone.stderr())
