"""AllReduce by NVSwitches that reduce and copy, on real processes: all over the stand-in for the driver,
where a function does what a switch does. No measurement of a GPU."""
import json
import os
import signal

from harness import BLINK_PERF, new_id
from test_collectives import allreduces
from test_gpu import STANDIN, GpuTest, gpu_environment

GPUS = 5
RANKS = list(range(GPUS))
INTEGERS = ["int32", "uint32", "int64", "uint64"]
FLOATS = ["float32", "float64"]
OUT_OF_MEMORY = 2


class SwitchTest(GpuTest):
    def topology(self):
        """Links so slow that the plan by a switch is the fastest for 1 MiB already."""
        path = os.path.join(self.directory(), "switch.json")
        nodes = [{"id": "s", "kind": "switch", "multicast": True, "reduces": True}]
        nodes += [{"id": f"g{gpu}", "kind": "gpu"} for gpu in RANKS]
        links = [{"from": f"g{gpu}", "to": "s", "GBps": 1, "kind": "nvlink"} for gpu in RANKS]
        with open(path, "w", encoding="ascii") as file:
            json.dump({"schema": "blink-topology/1", "name": "slow", "nodes": nodes, "links": links}, file)
        return path

    def machine(self, reduces=None, library=STANDIN, **variables):
        flags = []
        if reduces:
            flags = ["--config", os.path.join(self.directory(), "blinkd.conf")]
            with open(flags[1], "w", encoding="ascii") as file:
                file.write(f"[gpu]\nnvswitch_reduces = {reduces}\n")
        environment = gpu_environment(STANDIN_CUDA_GPUS=GPUS, **{"STANDIN_CUDA_SWITCH": 128, **variables})
        return self.daemon("--devices", "cuda:all", "--topology", self.topology(), *flags,
                           env={**environment, "LD_LIBRARY_PATH": library})

    def play_steps(self, daemon, steps, algorithm=None):
        """What the ranks, threads of a process, reported of the steps, and by which plans they ran."""
        ranks = self.start_rank(daemon, new_id(), GPUS, RANKS, [*steps, "gate"], RANKS, algorithm,
                                env=gpu_environment(STANDIN_CUDA_GPUS=GPUS))
        ranks.wait_for_step("at-gate")
        comm = max(comm["comm"] for comm in self.ctl_json(daemon, "comms")["comms"])
        plans = self.ctl_json(daemon, "explain", "--comm", comm)["plans"]
        for _ in RANKS:
            ranks.say()
        self.assertEqual(ranks.wait(), 0, ranks.describe())
        return ranks.steps(), {(plan["algorithm"], plan["transport"]) for plan in plans}

    def plans(self, daemon, *steps, algorithm=None):
        reported, plans = self.play_steps(daemon, steps, algorithm)
        self.assert_all_ok(reported)
        return plans

    def chosen(self, daemon, datatype):
        """By the daemon, where nobody names an algorithm: 1 MiB."""
        [plan] = self.plans(daemon, f"allreduce:{(1 << 20) // 4}:{datatype}:sum")
        return plan

    def moved(self, daemon):
        return sum(link["bytes"] for link in self.ctl_json(daemon, "links")["links"])

    def test_every_type_and_operator_that_switches_have(self):
        counts = [0, 1, 1003, 70001]
        steps = allreduces(counts, INTEGERS, ["sum", "min", "max"]) + allreduces(counts, FLOATS, ["sum"])
        daemon = self.machine()
        self.assertEqual(self.plans(daemon, *steps, algorithm="multicast"), {("multicast", "switch")})
        daemon.check_serves()

    def test_memory_of_gpus(self):
        daemon = self.machine()
        for datatype, operator, place in (("float16", "sum", "no"), ("bfloat16", "avg", "yes"),
                                          ("float32", "premulsum", "yes"), ("int64", "min", "no")):
            status, out, err = self.run_command(
                [BLINK_PERF, "--socket", daemon.socket, "allreduce", "--device-memory", "-d", datatype,
                 "-o", operator, "-n", 1, "-w", 0, "-b", "12K", "-e", "768K", "-f", 64, "--in-place", place,
                 "--algorithm", "multicast", "--json"],
                env=gpu_environment(STANDIN_CUDA_GPUS=GPUS))
            self.assertEqual(status, 0, out + err)
            self.assertEqual({json.loads(line)["wrong"] for line in out.splitlines()}, {0})
        carried = {link["bytes"] > 0 for link in self.ctl_json(daemon, "links")["links"]}
        self.assertEqual(carried, {True})

    def test_what_switches_cannot_do_is_refused_where_it_is_named(self):
        daemon = self.machine()
        for step in ("allreduce:10:float32:prod", "allreduce:10:float16:max", "allreduce:10:int8:sum"):
            reported, _ = self.play_steps(daemon, [step], "multicast")
            self.assertIn("cannot make a switch reduce and copy, or not with this type and operator",
                          str(reported))
        self.assertIn("cannot make", str(self.play_steps(self.machine("no"), ["allreduce:10:int32:sum"],
                                                         "multicast")))

    def test_only_integers_are_left_to_switches_unless_all_are(self):
        daemon = self.machine()
        self.assertEqual(self.chosen(daemon, "int32"), ("multicast", "switch"))
        self.assertNotIn("multicast", self.chosen(daemon, "float32"))
        self.assertEqual(self.chosen(self.machine("all"), "float32"), ("multicast", "switch"))
        self.assertNotIn("multicast", self.chosen(self.machine("no"), "int32"))

    def check_refused(self, failure, text):
        """The first op has the result all the same; later ones have another plan."""
        daemon = self.machine(STANDIN_CUDA_FAIL=failure)
        self.assertEqual(self.chosen(daemon, "int32"), ("multicast", "local"))
        self.assertIn("no switch reduces and copies, other plans are made for the next 60 s: " + text,
                      daemon.stderr())
        self.assertNotIn("multicast", self.chosen(daemon, "int32"))
        daemon.check_serves()

    def test_a_driver_that_refuses_leaves_another_plan(self):
        self.check_refused(f"cuMulticastCreate:1:{OUT_OF_MEMORY}",
                           "cuMulticastCreate: CUDA_ERROR_OUT_OF_MEMORY")
        self.check_refused("cuMulticastBindMem:3", "cuMulticastBindMem: CUDA_ERROR_UNKNOWN")
        self.check_refused("cuMemSetAccess:6", "cuMemSetAccess: CUDA_ERROR_UNKNOWN")

    def test_a_driver_without_the_calls_and_a_machine_without_a_switch(self):
        daemon = self.machine(library=STANDIN + "/no_multicast")
        self.assertNotIn("multicast", self.chosen(daemon, "int32"))
        self.assertNotIn("multicast", self.chosen(self.machine(STANDIN_CUDA_SWITCH=0), "int32"))

    def test_a_killed_rank(self):
        """The others hear of it, and the memory that the switch reaches serves who comes next."""
        daemon = self.machine()
        steps = ["allreduce:1000:int32:sum", "gate", "times:2000:allreduce:100000:int32:sum"]
        identifier, environment = new_id(), gpu_environment(STANDIN_CUDA_GPUS=GPUS)
        ranks = [self.start_rank(daemon, identifier, GPUS, rank, steps, rank, "multicast", env=environment)
                 for rank in RANKS]
        for rank in ranks:
            rank.wait_for_step("at-gate")
        for rank in ranks:
            rank.say()
        moved = self.moved(daemon)
        self.until(lambda: self.moved(daemon) > moved + (1 << 20))
        os.kill(ranks[2].child.pid, signal.SIGKILL)
        for rank in ranks:
            rank.wait()
        for rank in (0, 1, 3, 4):
            self.assertIn("PEER_LOST", ranks[rank].stdout())
        self.assertEqual(self.plans(daemon, "allreduce:70001:int32:sum", algorithm="multicast"),
                         {("multicast", "switch")})
        daemon.check_serves()
