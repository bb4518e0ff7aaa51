"""GPUs some of which are no peers: what goes over links between GPUs, what through memory of the host.

All runs over the stand-in for the driver, whose kernels fault at memory that their GPU does not reach."""
import itertools
import json
import os

from harness import BLINK_PERF, BLINKCTL
from test_gpu import COLLECTIVES, GpuTest, gpu_environment

# A DGX-1V's NVLinks join two groups of four GPUs, and a pair across for each.
MESH = "0+1+2+3,4+5+6+7,0+4,1+5,2+6,3+7"
BUT_ONE_PAIR = "0+2+3+4+5+6+7,1+2+3+4+5+6+7"


class PeersTest(GpuTest):
    def machine(self, topology, peers, *flags):
        self.variables = {"STANDIN_CUDA_GPUS": 8, "STANDIN_CUDA_PEERS": peers}
        return self.gpu_daemon("cuda:all", "--topology", topology, *flags, **self.variables)

    def check_collectives(self, daemon, devices, collectives=COLLECTIVES):
        for collective in collectives:
            status, out, err = self.run_command(
                [BLINK_PERF, "--socket", daemon.socket, collective, "--device-memory", "--devices", devices,
                 "-n", 1, "-w", 0, "-b", "12K", "-e", "3M", "-f", 256, "--in-place", "no", "--json"],
                env=gpu_environment(**self.variables))
            self.assertEqual(status, 0, collective + out + err)
            self.assertEqual({json.loads(line)["wrong"] for line in out.splitlines()}, {0}, collective)
        daemon.check_serves()

    def plans(self, daemon, gpus):
        """What the ops of a communicator of these GPUs ran by."""
        visible = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus)), **self.variables}
        process = self.ranks(daemon, "hold", len(gpus), **visible)
        process.wait_for("the move", lambda ranks: "holding" in ranks.stdout())
        comm = max(comm["comm"] for comm in self.ctl_json(daemon, "comms")["comms"])
        plans = self.ctl_json(daemon, "explain", "--comm", comm)["plans"]
        process.say()
        self.assertEqual(process.wait(), 0, process.stderr())
        return plans

    def topology(self, daemon):
        """The daemon's, and a file that has it."""
        topology = self.ctl_json(daemon, "topology")
        path = os.path.join(self.directory(), "topology.json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(topology, file)
        return topology, path

    def ways(self, path, ranks):
        """By kind of way, the pairs of GPUs that it joins."""
        status, out, err = self.run_command(
            [BLINKCTL, "explain", "--topology", path, "--ranks", ranks, "--json"])
        self.assertEqual(status, 0, err)
        lines = [line.split(":") for line in json.loads(out)["ways"].splitlines()]
        return {title.split(" ways ")[1]: set(edges.split()) for title, edges in lines}

    def moved(self, daemon, kind):
        """Bytes over each link of a kind."""
        return [link["bytes"] for link in self.ctl_json(daemon, "links")["links"] if link["kind"] == kind]


class CubeMeshTest(PeersTest):
    def test_every_collective_over_nvlink(self):
        daemon = self.machine("dgx1v", MESH)
        for devices in ("0,1,2,3,4,5,6,7", "1,4,5,6"):
            self.check_collectives(daemon, devices)
        self.assertTrue(all(self.moved(daemon, "nvlink")))

    def test_no_edge_needs_the_host(self):
        daemon = self.machine("dgx1v", MESH)
        for gpus in (range(8), (1, 4, 5, 6)):
            self.assertEqual({plan["transport"] for plan in self.plans(daemon, gpus)}, {"local"})
        _, path = self.topology(daemon)
        for ranks in ("0,1,2,3,4,5,6,7", "1,4,5,6"):
            self.assertEqual(set(self.ways(path, ranks)), {"over NVLink"})

    def test_every_collective_over_nvlink_and_pcie(self):
        daemon = self.machine("dgx1v_hybrid", MESH)
        for devices in ("0,1,2,3,4,5,6,7", "1,4,5,6"):
            self.check_collectives(daemon, devices)
        self.assertTrue(all(self.moved(daemon, "nvlink")))
        self.assertTrue(any(self.moved(daemon, "pcie")))

    def test_every_format_of_slots_beside_the_host(self):
        for protocol in ("simple", "ll", "ll128"):
            daemon = self.machine("dgx1v_hybrid", MESH, "--protocol", protocol)
            self.check_collectives(daemon, "1,4,5,6", ["allreduce", "alltoall"])
            # Lines of 128 bytes are whole on NVLink alone.
            beside_host = "ll" if protocol == "ll128" else protocol
            plans = self.plans(daemon, (1, 4, 5, 6))
            self.assertEqual({(plan["protocol"], plan["transport"]) for plan in plans},
                             {(beside_host, "local, host memory")})

    def test_streams_and_graphs(self):
        daemon = self.machine("dgx1v_hybrid", MESH)
        for scenario in ("device-memory", "pools", "stream", "stream-group", "graph"):
            self.play(scenario, ranks=4, daemon=daemon, CUDA_VISIBLE_DEVICES="1,4,5,6", **self.variables)

    def test_who_is_told_of_it(self):
        daemon = self.machine("dgx1v_hybrid", MESH)
        topology, path = self.topology(daemon)
        # Of a named machine's NVLinks as much as multiprocessors reach.
        self.assertEqual({(link["kind"], link["GBps"]) for link in topology["links"]},
                         {("nvlink", 20.0), ("pcie", 11.0), ("qpi", 19.2)})
        apart = {frozenset(pair) for pair in topology["non_peers"]}
        self.assertEqual(len(apart), 12)
        for one, other in itertools.combinations(range(8), 2):
            peers = one // 4 == other // 4 or other == one + 4
            self.assertEqual(frozenset((f"gpu{one}", f"gpu{other}")) in apart, not peers)
        self.assertIn("gpu1  gpu4 gpu6 gpu7\n", self.ctl(daemon, "topology"))
        ways = self.ways(path, "1,4,5,6")
        self.assertTrue({"gpu1>gpu5", "gpu5>gpu4"} <= ways["over NVLink"])
        by_host = {frozenset(edge.split(">")) for edge in ways["through memory of the host"]}
        self.assertTrue(by_host and by_host <= apart)


class PcieTest(PeersTest):
    def test_one_pair_that_are_no_peers(self):
        daemon = self.machine("pcie8", BUT_ONE_PAIR)
        self.check_collectives(daemon, "0,1,2,3,4,5,6,7")
        self.check_collectives(daemon, "0,1")
        self.assertEqual({plan["transport"] for plan in self.plans(daemon, (0, 1))}, {"host memory"})
        self.assertNotIn("host memory", {plan["transport"] for plan in self.plans(daemon, (2, 3))})
        topology, path = self.topology(daemon)
        self.assertEqual(topology["non_peers"], [["gpu0", "gpu1"]])
        self.assertEqual(self.ways(path, "0,1"), {"through memory of the host": {"gpu0>gpu1", "gpu1>gpu0"}})

    def test_a_machine_whose_links_are_not_known(self):
        self.variables = {"STANDIN_CUDA_GPUS": 4, "STANDIN_CUDA_PEERS": "0+1,2+3"}
        daemon = self.gpu_daemon("cuda:all", **self.variables)
        self.check_collectives(daemon, "0,1,2,3")
