"""GOAL schedules read back as an outside simulator would, and replayed."""
import collections
import heapq
import re

OP = re.compile(r"(\w+): (?:(send|recv) ([1-9]\d*)b (?:to|from) (\d+) tag (\d+)|calc (\d+))"
                r"(?: cpu (\d+))?(?: nic (\d+))?")
REQUIRES = re.compile(r"(\w+) requires (\w+)")

Message = collections.namedtuple("Message", "source destination tag bytes")


class Goal:
    """A GOAL text, checked while it is read: every line is an operation or a dependency on labels that
    came before."""

    def __init__(self, text):
        lines = iter(text.splitlines())
        self.ranks = int(re.fullmatch(r"num_ranks (\d+)", next(lines))[1])
        self.sends, self.receives = {}, {}  # (rank, label) -> Message
        self.calcs = {}  # (rank, label) -> ns
        self.units = {}  # (rank, label) -> (cpu, nic)
        self.needs = collections.defaultdict(list)  # (rank, label) -> those it requires
        for rank in range(self.ranks):
            assert next(lines) == f"rank {rank} {{"
            self.read_rank(rank, lines)
        assert next(lines, None) is None

    def read_rank(self, rank, lines):
        labels = set()
        while (line := next(lines)) != "}":
            if dependency := REQUIRES.fullmatch(line):
                assert labels.issuperset(dependency.groups()), line
                self.needs[rank, dependency[1]].append((rank, dependency[2]))
                continue
            label, kind, size, peer, tag, ns, cpu, nic = OP.fullmatch(line).groups()
            assert label not in labels, line
            assert int(cpu or 0) < 256 and int(nic or 0) < 256, line
            labels.add(label)
            self.units[rank, label] = (int(cpu or 0), int(nic or 0))
            if kind == "send":
                self.sends[rank, label] = Message(rank, int(peer), int(tag), int(size))
            elif kind == "recv":
                self.receives[rank, label] = Message(int(peer), rank, int(tag), int(size))
            else:
                self.calcs[rank, label] = int(ns)

    def size(self):
        return len(self.sends) + len(self.receives) + len(self.calcs)

    def ways(self):
        """What a receive finds its send by."""
        return [(message.source, message.destination, message.tag) for message in self.sends.values()]

    def order(self):
        """All operations, each behind what it needs; a receive needs its send. Shorter than all if there
        is a cycle."""
        needs = {op: list(self.needs[op]) for op in [*self.sends, *self.receives, *self.calcs]}
        sender = {message: op for op, message in self.sends.items()}
        for op, message in self.receives.items():
            needs[op].append(sender[message])
        users = collections.defaultdict(list)
        for op, needed in needs.items():
            for other in needed:
                users[other].append(op)
        left = {op: len(needed) for op, needed in needs.items()}
        ready = [op for op, count in left.items() if count == 0]
        for op in ready:
            for user in users[op]:
                left[user] -= 1
                if left[user] == 0:
                    ready.append(user)
        return ready


class Replay:
    """Goal in the LogGP model, as LogGOPSim has it: a calc takes its cpu; a send takes its nic at the sender
    for as long as its bytes take, and so it does, with its cpu, at the receiver. What waits for an operation
    begins when that has ended, on whatever cpu."""

    def __init__(self, goal, ns_per_byte, latency_ns):
        self.goal, self.ns_per_byte, self.latency_ns = goal, ns_per_byte, latency_ns
        self.receiver = {message: op for op, message in goal.receives.items()}
        self.users = collections.defaultdict(list)
        self.left = {op: len(goal.needs[op]) for op in [*goal.sends, *goal.receives, *goal.calcs]}
        for op in self.left:
            for needed in goal.needs[op]:
                self.users[needed].append(op)
        self.busy = collections.defaultdict(float)  # ("cpu", "out" or "in", rank, number) -> until when
        self.agenda = [(0.0, number, self.start, op) for number, op in enumerate(self.left)
                       if self.left[op] == 0 and op not in goal.receives]
        self.entered = len(self.left)
        self.end_ns = 0.0

    def run_us(self):
        while self.agenda:
            now, _, happen, op = heapq.heappop(self.agenda)
            happen(op, now)
        return self.end_ns / 1000

    def enter(self, at_ns, happen, op):
        self.entered += 1
        heapq.heappush(self.agenda, (at_ns, self.entered, happen, op))

    def take(self, now, units, for_ns, happen, op):
        """Whether the units are free; else it happens again when they are."""
        free = max(self.busy[unit] for unit in units)
        if free > now:
            self.enter(free, happen, op)
            return False
        self.busy.update({unit: now + for_ns for unit in units})
        return True

    def start(self, op, now):
        cpu, nic = self.goal.units[op]
        if op in self.goal.calcs:
            if self.take(now, [("cpu", op[0], cpu)], self.goal.calcs[op], self.start, op):
                self.enter(now + self.goal.calcs[op], self.finish, op)
        elif self.busy["cpu", op[0], cpu] > now:
            self.enter(self.busy["cpu", op[0], cpu], self.start, op)
        else:
            for_ns = self.goal.sends[op].bytes * self.ns_per_byte
            if self.take(now, [("out", op[0], nic)], for_ns, self.start, op):
                self.enter(now + self.latency_ns, self.arrive, op)
                self.enter(now + for_ns, self.finish, op)

    def arrive(self, op, now):
        cpu, nic = self.goal.units[op]
        message = self.goal.sends[op]
        for_ns = message.bytes * self.ns_per_byte
        units = [("cpu", message.destination, cpu), ("in", message.destination, nic)]
        if self.take(now, units, for_ns, self.arrive, op):
            self.enter(now + for_ns, self.finish, self.receiver[message])

    def finish(self, op, now):
        self.end_ns = max(self.end_ns, now)
        for user in self.users[op]:
            self.left[user] -= 1
            if self.left[user] == 0:
                self.enter(now, self.start, user)
