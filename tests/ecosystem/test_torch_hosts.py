"""torchrun on two hosts, which are network namespaces with a daemon in each. scripts/test-torch runs it."""
import os
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).parent
FOLDERS = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "net")]
sys.path += FOLDERS
from cluster import NetTest, can_make_namespaces  # noqa: E402

#: Trains once with each backend; what is seen of the other ranks' data is in the losses from step 2 on.
TRAIN = """
import torch
import torch.distributed as dist
from torch_ranks import model, train

def losses(group):
    torch.manual_seed(1)
    net = torch.nn.parallel.DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.01)
    return train(net, dist.get_rank())

dist.init_process_group("blink")
blink, gloo = losses(dist.group.WORLD), losses(dist.new_group(backend="gloo"))
torch.testing.assert_close(blink, gloo, rtol=0, atol=0)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: equal losses", flush=True)
dist.destroy_process_group()
"""


def setUpModule():
    why = can_make_namespaces() if os.geteuid() == 0 else "only root may make them"
    if why:
        print(f"SKIPPED: no network namespaces here: {why}", file=sys.stderr)
        raise unittest.SkipTest(why)


class TorchrunTest(NetTest):
    def start_torchrun(self, host, number, master, program):
        bin_folder = os.path.dirname(sys.executable)
        environment = os.environ | {"BLINK_SOCKET": host.daemon.socket, "GLOO_SOCKET_IFNAME": "eth0",
                                    "PATH": bin_folder + ":/usr/sbin:/usr/bin:/sbin:/bin",
                                    "PYTHONPATH": ":".join(FOLDERS)}
        return self.start(["ip", "netns", "exec", host.namespace, os.path.join(bin_folder, "torchrun"),
                           "--nnodes", 2, "--node-rank", number, "--nproc-per-node", 1,
                           "--master-addr", master.v4, "--master-port", 29400, program], env=environment)

    def test_ddp_trains_as_with_gloo(self):
        hosts = self.started(2)
        program = self.write_file("train.py", TRAIN)
        runs = [self.start_torchrun(host, number, hosts[0], program) for number, host in enumerate(hosts)]
        said = ""
        for run in runs:
            self.assertEqual(run.wait(), 0, run.describe())
            said += run.stdout()
        self.assertEqual(sorted(re.findall("rank . of .: equal losses", said)),
                         [f"rank {rank} of 2: equal losses" for rank in range(2)])
        for host in hosts:
            self.assertGreater(self.ctl_json(host.daemon, "status")["op_count"], 10)
