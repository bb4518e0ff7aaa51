"""What gpu-bench measured, and why it did not measure the rest. Pure."""
import collections

ISOLATED, MPS = "isolated", "mps"
SHARINGS = [ISOLATED, MPS]
WAITED, STREAM, GRAPH = "waited", "stream", "graph"
DEVICES = [2, 4, 8]
KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
ALLREDUCE_BYTES = [8, 256, 8 * KiB, 256 * KiB, MiB, 16 * MiB, 256 * MiB, GiB]
COLLECTIVES = ["broadcast", "reduce", "allgather", "reducescatter", "alltoall", "sendrecv"]
COLLECTIVES_BYTES, COLLECTIVES_DEVICES = 256 * MiB, 8

# On one GPU nothing needs slots: its devices are laid out as those of another machine.
PROTOCOLS = ["simple", "ll", "ll128"]
PROTOCOLS_TOPOLOGY, PROTOCOLS_DEVICES = "dgx1v", 4
PROTOCOLS_BYTES = [8 << (3 * i) for i in range(8)]

# All GPUs of the machine, one device each: the plan by switches, beside what is chosen for sums of floats.
BY_SWITCH, CHOSEN = "multicast", "chosen"
SWITCH_FLAGS = {BY_SWITCH: ["--algorithm", "multicast"], CHOSEN: []}
SWITCH_BYTES = [64 * KiB << (4 * i) for i in range(4)]

Cell = collections.namedtuple("Cell", "sharing order collective devices bytes")


def moved_bytes(cell):
    """What has to be read and written at least: every input once, every output once. `bytes` is nccl-tests'
    size: of the buffer that holds a block of every rank where there is one."""
    whole = cell.devices * cell.bytes
    inputs = {"broadcast": cell.bytes, "allgather": cell.bytes}.get(cell.collective, whole)
    outputs = {"reduce": cell.bytes, "reducescatter": cell.bytes}.get(cell.collective, whole)
    return inputs + outputs


class Results:
    """`why_not`: of all that is not there, unless something more particular is known."""

    def __init__(self, why_not):
        self.copy_GBps, self.copy_bytes = None, GiB
        self.why_not = why_not
        self.gpu_count = 1
        self.times, self.reasons = {}, {}

    def add(self, sharing, order, line):
        """A JSON line of blink-perf."""
        cell = Cell(sharing, order, line["collective"], line["ranks"], line["bytes"])
        if line["wrong"]:
            self.reasons[cell] = f"{line['wrong']} elements were wrong"
        else:
            self.times[cell] = (line["time_us"], line["time_us_p99"])

    def refuse_run(self, sharing, order, collective, devices, reason):
        """Of the sizes that the run did not come to."""
        self.reasons[sharing, order, collective,
                     devices] = f"{collective}, {devices} devices, {sharing}: {reason}"

    def refuse_sharing(self, sharing, reason):
        self.reasons[sharing] = reason

    def refuse_plan(self, plan, reason):
        """`plan`: a protocol, or one of SWITCH_FLAGS."""
        self.reasons[plan] = reason

    def time_us(self, cell):
        return self.times[cell][0] if cell in self.times else None

    def p99_us(self, cell):
        return self.times[cell][1] if cell in self.times else None

    def reason(self, cell):
        return next((self.reasons[of] for of in (cell, cell[:-1], cell.sharing) if of in self.reasons),
                    self.why_not)

    def GBps(self, cell):
        time_us = self.time_us(cell)
        return None if time_us is None else moved_bytes(cell) / time_us / 1e3

    def of_copy(self, cell):
        GBps = self.GBps(cell)
        return None if GBps is None or not self.copy_GBps else GBps / self.copy_GBps
