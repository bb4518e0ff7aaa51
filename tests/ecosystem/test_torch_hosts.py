"""torchrun on two hosts, which are network namespaces with a daemon in each. scripts/test-torch runs it."""
import os
import pathlib
import re
import signal
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

#: Rank 0, which has PyTorch's store, is lost. The second group is made with the store that the first one has.
#: Who forms a group aborts the one before, so that all ranks are through with their ops by then.
REFORM = """
import os
import signal
import blink_torch
import torch
import torch.distributed as dist
from torch_ranks import expect_failure, model, train

dist.init_process_group("blink")
dist.all_reduce(torch.ones(1))
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    while store.add("reduced", 0) < 2:  # the op may end on another host later than here
        pass
    os.kill(os.getpid(), signal.SIGKILL)
store.add("reduced", 1)
expect_failure(dist.DistBackendError, "rank 0", dist.all_reduce, torch.ones(1))
for group in range(2):
    if group > 0:
        store = dist.distributed_c10d._get_default_store()
        store.add("trained", 1)
        while store.add("trained", 0) < 2:
            pass
    blink_torch.reform()
    torch.manual_seed(dist.get_rank())
    net = torch.nn.parallel.DistributedDataParallel(model())
    train(net, dist.get_rank(), steps=2)
    weights = net.module[0].weight.sum().item()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {weights}", flush=True)
dist.destroy_process_group()
"""


def setUpModule():
    why = can_make_namespaces() if os.geteuid() == 0 else "only root may make them"
    if why:
        print(f"SKIPPED: no network namespaces here: {why}", file=sys.stderr)
        raise unittest.SkipTest(why)


BIN = os.path.dirname(sys.executable)


class HostsTest(NetTest):
    def start_inside(self, host, *command, **variables):
        environment = os.environ | variables | {
            "BLINK_SOCKET": host.daemon.socket, "GLOO_SOCKET_IFNAME": "eth0",
            "PATH": BIN + ":/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": ":".join(FOLDERS)}
        return self.start(["ip", "netns", "exec", host.namespace, *command], env=environment)

    def start_torchrun(self, host, number, master, program):
        return self.start_inside(host, os.path.join(BIN, "torchrun"), "--nnodes", 2, "--node-rank", number,
                                 "--nproc-per-node", 1, "--master-addr", master.v4, "--master-port", 29400,
                                 program)

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

    def test_those_that_are_left_form_a_group(self):
        """Of hosts whose name is no address: only who has met by PyTorch's store knows addresses."""
        first, second = hosts = self.started(2)
        program = self.write_file("reform.py", REFORM)
        ranks = [self.start_inside(host, sys.executable, program, RANK=str(rank), LOCAL_RANK=local,
                                   WORLD_SIZE="3", MASTER_ADDR=hosts[0].v4, MASTER_PORT="29400")
                 for rank, (host, local) in enumerate([(first, "0"), (second, "0"), (first, "1")])]
        said = ""
        for rank in ranks:
            self.assertEqual(rank.wait(), -signal.SIGKILL if rank is ranks[0] else 0, rank.describe())
            said += rank.stdout()
        seen = re.findall(r"(rank . of .): (\S+)", said)
        self.assertEqual(sorted(who for who, _ in seen), 2 * ["rank 0 of 2"] + 2 * ["rank 1 of 2"])
        self.assertEqual(len({weights for _, weights in seen}), 1, seen)
