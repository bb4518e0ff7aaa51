"""Processes as launchers start them: what they are told by environment variables, and a launcher that speaks
PMI-1.
"""
import os
import socket
import struct
import sys
import threading

from harness import BLINK_RANK, IntegrationTest, Rank

#: Two communicators, an op on each.
STEPS = ["launched", "allreduce:1000:float32:sum", "launched", "allreduce:10:int32:sum"]

#: What launchers tell; the machine that runs the tests may have been started by one.
TOLD = ("BLINK_RANK", "BLINK_SIZE", "BLINK_LOCAL_RANK", "BLINK_RENDEZVOUS", "BLINK_JOB", "BLINK_UNIQUE_ID",
        "BLINK_SSH", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
        "PMIX_NAMESPACE", "PMIX_RANK")
PREFIXES = ("TORCHELASTIC_", "OMPI_", "PMI_", "MPI_", "SLURM_")


def untold():
    """The environment without a launcher."""
    return {name: value for name, value in os.environ.items()
            if name not in TOLD and not name.startswith(PREFIXES)}


class LaunchTest(IntegrationTest):
    def start_told(self, daemon, told, steps=STEPS, **options):
        """A rank that is told these variables."""
        rank = Rank([BLINK_RANK, "--socket", daemon.socket, *steps], env={**untold(), **told}, **options)
        self.children.append(rank)
        return rank

    def start_blink(self, daemon, rank_count, steps=STEPS, **told):
        return [self.start_told(daemon, {"BLINK_RANK": str(rank), "BLINK_SIZE": str(rank_count), **told},
                                steps)
                for rank in range(rank_count)]

    def start_pmix(self, daemon, rank_count, steps=STEPS, which=None, **told):
        """As Open MPI's launcher does, over a libpmix.so.2 that is none: its files are in the directory that
        is returned first. which: only these ranks."""
        directory = self.directory()
        return directory, [self.start_told(daemon, {
            "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(rank_count),
            "PMIX_NAMESPACE": "job", "PMIX_RANK": str(rank), "STANDIN_PMIX_FILES": directory,
            "LD_LIBRARY_PATH": os.environ["STANDIN_PMIX"], **told}, steps)
            for rank in which or range(rank_count)]

    def check_all(self, ranks):
        """All have done all steps, each as the rank that it was started as."""
        for number, rank in enumerate(ranks):
            steps = rank.finish()
            self.assert_all_ok(steps)
            self.assertRegex(self.find(steps, "launched")["text"], f"^{number} of {len(ranks)}, ")


class Pmi:
    """A launcher that speaks PMI-1 to its ranks, each in a thread of its own."""

    def __init__(self, rank_count):
        self.values, self.barrier = {}, threading.Barrier(rank_count)
        self.ended = 0
        self.rank_count = rank_count

    def start(self, start_rank):
        """start_rank(variables, descriptor) for each rank."""
        ranks = []
        for number in range(self.rank_count):
            here, there = socket.socketpair()
            with there:
                told = {"PMI_RANK": str(number), "PMI_SIZE": str(self.rank_count),
                        "PMI_FD": str(there.fileno())}
                ranks.append(start_rank(told, there.fileno()))
            threading.Thread(target=self._serve, args=[here], daemon=True).start()
        return ranks

    def _serve(self, here):
        with here, here.makefile("r", encoding="ascii") as lines:
            for line in lines:
                words = dict(word.split("=", 1) for word in line.split())
                here.sendall(self._answer(words).encode() + b"\n")

    def _answer(self, words):
        if words["cmd"] == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if words["cmd"] == "get_my_kvsname":
            return "cmd=my_kvsname kvsname=kvs_0"
        if words["cmd"] == "put":
            self.values[words["key"]] = words["value"]
            return "cmd=put_result rc=0 msg=success"
        if words["cmd"] == "barrier_in":
            self.barrier.wait()
            return "cmd=barrier_out"
        if words["cmd"] == "get":
            return f"cmd=get_result rc=0 msg=success value={self.values[words['key']]}"
        self.ended += words["cmd"] == "finalize"
        return "cmd=finalize_ack"


class Store:
    """The store of torchrun's agent, as torch 2.2 and later speak it, at a port of the kernel's choice."""

    def __init__(self):
        self.values, self.changed = {}, threading.Condition()
        self.socket = socket.create_server(("", 0))
        self.port = self.socket.getsockname()[1]

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as asked:
            while kind := asked.read(1):
                connection.sendall(self._answer(kind[0], asked))

    @staticmethod
    def _number(asked, form="=Q"):
        return struct.unpack(form, asked.read(struct.calcsize(form)))[0]

    def _text(self, asked):
        return asked.read(self._number(asked))

    def _answer(self, kind, asked):
        if kind == 0:  # that this is such a connection
            self._number(asked, "=I")
            return b""
        if kind == 13:  # a number that is to come back
            return struct.pack("=I", self._number(asked, "=I"))
        with self.changed:
            if kind == 1:
                key = self._text(asked)
                self.values[key] = self._text(asked)
                self.changed.notify_all()
                return b""
            if kind == 6:  # wait for keys
                keys = [self._text(asked) for _ in range(self._number(asked))]
                self.changed.wait_for(lambda: all(key in self.values for key in keys))
                return b"\0"
            if kind == 3:
                value = self.values[self._text(asked)]
                return struct.pack("=Q", len(value)) + value
            assert kind == 8, kind  # forget a key
            return struct.pack("=Q", self.values.pop(self._text(asked), None) is not None)


if __name__ == "__main__":
    STORE = Store()
    print(STORE.port, flush=True)
    threading.Thread(target=STORE.serve, daemon=True).start()
    sys.stdin.read()
