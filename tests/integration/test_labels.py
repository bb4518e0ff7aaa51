"""What programs call themselves, their jobs and their communicators, and where that is shown."""
import json
import os
from xml.etree import ElementTree

import raw
from harness import BLINKCTL, IntegrationTest, new_id

SHORT = "allreduce:100:float32:sum"
#: What launchers set, whoever starts the test.
VARIABLES = ["BLINK_JOB", "SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID",
             "TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE"]


def environment(**variables):
    return {name: value for name, value in os.environ.items() if name not in VARIABLES} | variables


class LabelTest(IntegrationTest):
    def start_named(self, daemon, steps, names=("grads", "grads")):
        """Two ranks; `steps` by rank."""
        identifier = new_id()
        return [self.start_rank(daemon, identifier, 2, rank, steps[rank], name=names[rank],
                                env=environment(BLINK_JOB="train 7")) for rank in range(2)]

    def finish(self, ranks):
        for rank in ranks:
            rank.say()
        for rank in ranks:
            self.assert_all_ok(rank.finish())

    def show_first_comm(self, daemon):
        return self.ctl_json(daemon, "comms")["comms"][0]

    def test_blinkctl_and_the_log_show_communicator_and_job(self):
        daemon = self.daemon()
        ranks = self.start_named(daemon, [[SHORT, "gate:shown"]] * 2)
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.assertEqual(self.show_first_comm(daemon)["name"], "grads")
        self.assertRegex(self.ctl(daemon, "comms"), r"(?m)^ +1 +grads ")
        self.assertEqual({client["job"] for client in self.ctl_json(daemon, "clients")["clients"]},
                         {"train 7"})
        self.assertIn(" train 7 ", self.ctl(daemon, "clients"))
        self.assertIn("communicator 1 (grads): 2 ranks", self.ctl(daemon, "explain", "--comm", "1"))
        self.assertEqual(self.ctl_json(daemon, "explain", "--comm", "1")["name"], "grads")
        self.finish(ranks)
        daemon.stop()
        self.assertRegex(daemon.stderr(), r"client 1: blink-rank \(pid \d+, user \d+, job train 7\)")
        self.assertIn("communicator 1 (grads): 2 ranks, algorithm", daemon.stderr())
        self.assertIn("communicator 1 (grads): ended", daemon.stderr())

    def test_a_time_out_names_the_communicator(self):
        daemon = self.daemon(*self.limits(op_timeout_s=0.2))
        ranks = self.start_named(daemon, [[SHORT], ["gate:late"]])
        self.assert_step(ranks[0].finish(), SHORT, "TIMEOUT", r"of communicator 1 \(grads\): .*rank 1 within")
        ranks[1].say()
        ranks[1].finish()

    def test_a_lost_rank_is_one_of_the_communicator(self):
        daemon = self.daemon()
        ranks = self.start_named(daemon, [[SHORT, SHORT], [SHORT, "kill"]])
        self.assert_step(ranks[0].finish(), SHORT, "PEER_LOST",
                         rf"rank 1 \(pid {ranks[1].pid}\) of grads disconnected")
        ranks[1].finish()

    def test_a_split_communicator_has_its_parents_name(self):
        daemon = self.daemon()
        ranks = self.start_named(daemon, [["split:0", "gate:shown"]] * 2)
        for rank in ranks:
            rank.wait_for_step("at-gate")
        self.assertEqual([comm["name"] for comm in self.ctl_json(daemon, "comms")["comms"]], ["grads"] * 2)
        self.finish(ranks)

    def test_without_names_nothing_is_shown(self):
        daemon = self.daemon()
        ranks = [self.start_rank(daemon, identifier, 1, 0, [SHORT, "gate:shown"], env=environment())
                 for identifier in [new_id()]]
        ranks[0].wait_for_step("at-gate")
        self.assertIsNone(self.show_first_comm(daemon)["name"])
        self.assertIsNone(self.ctl_json(daemon, "clients")["clients"][0]["job"])
        self.finish(ranks)
        daemon.stop()
        self.assertIn("communicator 1: 1 ranks", daemon.stderr())

    def test_names_that_the_library_refuses(self):
        daemon = self.daemon()
        for name, text in [("x" * 64, "config.name has more than 63 bytes"),
                           ("a\nb", "byte 1 is 0x0a"), ("gr\u00fcn", "byte 2 is 0xc3")]:
            with self.subTest(name=name):
                rank = self.start_rank(daemon, new_id(), 1, 0, [], name=name)
                self.assert_step(rank.finish(), "init", "INVALID_ARGUMENT", text)
        self.assert_all_ok(self.start_rank(daemon, new_id(), 1, 0, [SHORT], name="x" * 63).finish())

    def test_names_of_strangers_are_cut_and_made_harmless(self):
        daemon = self.daemon()
        client = raw.RawClient(daemon)
        self.addCleanup(client.close)
        hello = raw.message(_1=raw.VERSION, _2=raw.VERSION, _3=b"raw", _4=1, _5=b"\x1b[2J" + b"j" * 500)
        self.assertEqual(client.request(raw.HELLO, hello).code, 0)
        body = raw.message(_1=raw.unique_id(), _2=1, _3=0, _4=0, _11=b"%s%n\xff\n" + b"n" * 500)
        self.assertEqual(client.request(raw.COMM_INIT, body).code, 0)
        self.assertEqual(self.show_first_comm(daemon)["name"], "%s%n??" + "n" * 57)
        [job] = [client["job"] for client in self.ctl_json(daemon, "clients")["clients"]]
        self.assertEqual(job, "?[2J" + "j" * 59)

    def test_names_in_pictures_are_what_they_are_in_the_file(self):
        odd = "g\"0\\<&>{}|'\u00e9"
        links = [{"from": odd, "to": "gpu1", "GBps": 25, "kind": "nvlink", "duplex": True}]
        nodes = [{"id": name, "kind": "gpu", "host": "h<\"&"} for name in (odd, "gpu1")]
        topology = self.write_file("odd.json", json.dumps(
            {"schema": "blink-topology/1", "name": "<" + odd, "nodes": nodes, "links": links}))
        pictures = [os.path.join(self.directory(), name) for name in ("plan.svg", "simulation.svg")]

        def written(*words):
            status, out, err = self.run_command([BLINKCTL, *words])
            self.assertEqual((status, err), (0, ""))
            return out

        self.assertEqual(json.loads(written("topology", topology, "-f", "json"))["nodes"][0]["id"], odd)
        written("plan", "-t", topology, "--svg", pictures[0])
        written("simulate", "-t", topology, "-e", "1K", "--svg", pictures[1])
        roots = [ElementTree.parse(picture).getroot() for picture in pictures]
        for root in [ElementTree.fromstring(written("topology", topology, "-f", "svg")), *roots]:
            self.assertIn(odd, "".join(root.itertext()))
        quoted = odd.replace("\\", "\\\\").replace('"', '\\"')
        for graph in (written("topology", topology, "-f", "dot"), written("plan", "-t", topology, "--dot")):
            self.assertIn(f'"{quoted}"', graph)

    def test_who_names_the_job(self):
        daemon = self.daemon()
        launchers = {"a": {"BLINK_JOB": "a", "SLURM_JOB_ID": "b"}, "b": {"SLURM_JOB_ID": "b"},
                     "b.3": {"SLURM_JOB_ID": "b", "SLURM_STEP_ID": "3", "TORCHELASTIC_RUN_ID": "c"},
                     "c": {"TORCHELASTIC_RUN_ID": "c", "PMIX_NAMESPACE": "d"},
                     "d": {"TORCHELASTIC_RUN_ID": "none", "PMIX_NAMESPACE": "d"},
                     "e": {"PBS_JOBID": "e"}, "f": {"FLUX_JOB_ID": "f"}, "g": {"LSB_JOBID": "g"},
                     None: {"TORCHELASTIC_RUN_ID": "none"}}
        ranks = {job: self.start_rank(daemon, new_id(), 1, 0, ["gate:shown"], device=0,
                                      env=environment(**variables)) for job, variables in launchers.items()}
        for rank in ranks.values():
            rank.wait_for_step("at-gate")
        shown = {client["pid"]: client["job"] for client in self.ctl_json(daemon, "clients")["clients"]}
        self.assertEqual({rank.pid: job for job, rank in ranks.items()}, shown)
        self.finish(ranks.values())
