"""The memory model of PTX: which outcomes of a litmus test it allows.

Takes straight-line tests in the format of Dat3M: ld, st, add, atom, red, fence and bar.cta.sync of the
generic proxy, and "y aliases x": y is another address of the place x. Causality joins accesses of a place by
two addresses only where a fence.proxy.alias is on the way, and morally strong are only accesses by the same.
The axioms are those of the chapter "Memory Consistency Model" of NVIDIA's PTX ISA manual. All
executions of a test are gone through: from which store each load reads, and in which order morally strong
stores to one place and fences that are sequentially consistent come.
"""
import itertools
import re
from dataclasses import dataclass


class Unsupported(Exception):
    """What the test uses is not known here."""


@dataclass
class Event:
    """What an instruction does to memory. A read-modify-write is two of them."""
    thread: int
    kind: str  # R, W, F: fence, B: barrier
    order: str = "weak"  # weak, relaxed, acquire, release, acq_rel, sc; of a fence also alias
    scope: str = "sys"
    location: str = ""
    address: str = ""  # by which the thread has the location; the location's name, or an alias of it
    target: str = ""  # register of a load
    formula: tuple = ()  # of a store's value: a number, a register's event or an operation of two
    barrier: str = ""
    number: int = -1
    pair: int = -1  # of the write of a read-modify-write: its read

    @property
    def strong(self):
        """Whether the operation is a strong one."""
        return self.synchronizes or (self.kind in "RW" and self.order != "weak")

    @property
    def synchronizes(self):
        """Whether it is a fence that orders what threads do. One between aliases does not."""
        return self.kind == "F" and self.order != "alias"


# ---- relations over n events: a bit mask of successors for each ----

def nothing(n):
    return [0] * n


def union(*relations):
    return [sum_of(masks) for masks in zip(*relations)]


def sum_of(masks):
    total = 0
    for mask in masks:
        total |= mask
    return total


def both(first, second):
    return [a & b for a, b in zip(first, second)]


def members(mask):
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def then(first, second):
    return [sum_of(second[i] for i in members(mask)) for mask in first]


def or_same(relation):
    return [mask | 1 << i for i, mask in enumerate(relation)]


def inverse(relation):
    result = nothing(len(relation))
    for i, mask in enumerate(relation):
        for j in members(mask):
            result[j] |= 1 << i
    return result


def closure(relation):
    result = list(relation)
    for k in range(len(result)):
        for i, mask in enumerate(result):
            if mask >> k & 1:
                result[i] |= result[k]
    return result


def is_irreflexive(relation):
    return not any(mask >> i & 1 for i, mask in enumerate(relation))


def is_acyclic(relation):
    return is_irreflexive(closure(relation))


def related(events, test):
    return [sum_of(1 << b.number for b in events if a is not b and test(a, b)) for a in events]


# ---- tests ----

TARGET = r"r\d+"


class Test:
    """A litmus test: threads, events, what is to be asked."""

    def __init__(self, text):
        head, body = text.split("{", 1)
        begin, body = body.split("}", 1)
        self.name = head.split()[1]
        self.initial = {}
        self.aliases = {}  # address: location
        self.registers = {}
        self.events = []
        self.finals = {}  # (thread, register): formula
        self.places = []  # (cta, gpu) of each thread
        self.read_initial(begin)
        rows, question = self.split_question(body)
        self.read_threads(rows)
        self.read_question(question)

    def read_initial(self, text):
        for item in filter(None, (part.strip() for part in text.split(";"))):
            alias = re.fullmatch(r"(\w+)\s+aliases\s+(\w+)", item)
            if alias:
                self.aliases[alias.group(1)] = alias.group(2)
                continue
            match = re.fullmatch(r"(?:P(\d+):(r\d+)|(\w+))\s*=\s*(-?\d+)", item)
            if not match:
                raise Unsupported(item)
            thread, register, location, value = match.groups()
            if location:
                self.initial[location] = int(value)
            else:
                self.registers[int(thread), register] = int(value)

    @staticmethod
    def split_question(body):
        match = re.search(r"(~\s*exists|exists|forall)\s*(.*)\Z", body, re.S)
        if not match or "filter" in body:
            raise Unsupported("no question, or a filter")
        rows = [row for row in body[:match.start()].split(";") if row.strip()]
        return rows, match

    def read_threads(self, rows):
        heads = [cell.strip() for cell in rows[0].split("|")]
        for head in heads:
            match = re.fullmatch(r"P\d+\s*@\s*cta\s+(\d+)\s*,\s*gpu\s+(\d+)", head)
            if not match:
                raise Unsupported(head)
            self.places.append(tuple(map(int, match.groups())))
        for location in self.initial:
            self.add(Event(-1, "W", location=location, formula=("number", self.initial[location])))
        for thread in range(len(heads)):
            known = {name: ("number", value) for (t, name), value in self.registers.items() if t == thread}
            for row in rows[1:]:
                cells = row.split("|")
                self.read_instruction(thread, cells[thread].strip() if thread < len(cells) else "", known)
            self.finals.update({(thread, name): formula for name, formula in known.items()})

    def add(self, event):
        event.number = len(self.events)
        event.address = event.location
        event.location = self.aliases.get(event.address, event.address)
        self.events.append(event)
        if event.location and event.location not in self.initial:
            raise Unsupported(f"{event.location} has no initial value")
        return event.number

    @staticmethod
    def formula_of(text, known):
        if re.fullmatch(r"-?\d+", text):
            return ("number", int(text))
        if re.fullmatch(TARGET, text):
            return known.get(text, ("number", 0))
        raise Unsupported(text)

    def read_instruction(self, thread, text, known):
        if not text:
            return
        name, _, rest = text.partition(" ")
        parts, arguments = name.split("."), [a.strip() for a in rest.split(",")] if rest.strip() else []
        if parts[0] == "ld" and len(parts) == 1:
            known[arguments[0]] = self.formula_of(arguments[1], known)
        elif parts[0] in ("ld", "st"):
            self.read_access(thread, parts, arguments, known)
        elif parts[0] in ("add", "sub") and len(parts) == 1:
            operands = [self.formula_of(a, known) for a in arguments[1:]]
            known[arguments[0]] = (parts[0], *operands)
        elif parts[0] in ("atom", "red"):
            self.read_atomic(thread, parts, arguments, known)
        elif parts[0] == "fence" and parts[1] in ("acq_rel", "sc"):
            self.add(Event(thread, "F", order=parts[1], scope=parts[2]))
        elif parts == ["fence", "proxy", "alias"]:
            self.add(Event(thread, "F", order="alias"))
        elif parts[:3] == ["bar", "cta", "sync"] and len(arguments) == 1:
            self.add(Event(thread, "B", barrier=arguments[0]))
        else:
            raise Unsupported(text)

    def read_access(self, thread, parts, arguments, known):
        order, scope = parts[1], parts[2] if len(parts) > 2 else "sys"
        if parts[0] == "ld":
            read = self.add(Event(thread, "R", order, scope, arguments[1], target=arguments[0]))
            known[arguments[0]] = ("event", read)
        else:
            self.add(Event(thread, "W", order, scope, arguments[0],
                           formula=self.formula_of(arguments[1], known)))

    def read_atomic(self, thread, parts, arguments, known):
        order, scope, operation = parts[1:]
        if operation not in ("add", "sub", "exch"):
            raise Unsupported(operation)
        target, location, value = arguments if parts[0] == "atom" else ["", *arguments]
        reads = "acquire" if order in ("acquire", "acq_rel") else "relaxed"
        writes = "release" if order in ("release", "acq_rel") else "relaxed"
        read = self.add(Event(thread, "R", reads, scope, location, target=target))
        formula = self.formula_of(value, known)
        if operation != "exch":
            formula = (operation, ("event", read), formula)
        self.add(Event(thread, "W", writes, scope, location, formula=formula, pair=read))
        if target:
            known[target] = ("event", read)

    def read_question(self, match):
        self.quantifier = match.group(1).replace(" ", "")
        text = match.group(2)
        if re.search(r"[A-Za-z_]\w*\s*[!=]?=", re.sub(r"P?\d+:r\d+", "", text)):
            raise Unsupported("asks for a location")
        text = re.sub(r"(?<![!=])=(?!=)", "==", text)
        text = re.sub(r"P?(\d+):(r\d+)", r'of[\1,"\2"]', text.replace("/\\", " and ").replace("\\/", " or "))
        text = re.sub(r"\bnot\b|~", " not ", text)
        self.asks = compile(" ".join(text.split()), self.name, "eval")

    # ---- executions ----

    def value_of(self, formula, sources, under_way=()):
        """None: the value would be made of itself."""
        if formula[0] == "number":
            return formula[1]
        if formula[0] == "event":
            if formula[1] in under_way:
                return None
            store = self.events[sources[formula[1]]]
            return self.value_of(store.formula, sources, (*under_way, formula[1]))
        first, second = (self.value_of(part, sources, under_way) for part in formula[1:])
        if first is None or second is None:
            return None
        return first + second if formula[0] == "add" else first - second

    def outcomes(self):
        """Whether the question is true, for each execution that the model allows."""
        reads = [e for e in self.events if e.kind == "R"]
        stores = [[w.number for w in self.events if w.kind == "W" and w.location == r.location and
                   w.pair != r.number] for r in reads]
        model = Model(self)
        for chosen in itertools.product(*stores):
            sources = {r.number: w for r, w in zip(reads, chosen)}
            values = {key: self.value_of(formula, sources) for key, formula in self.finals.items()}
            if None in values.values():
                continue
            answer = bool(eval(self.asks, {}, {"of": Known(values)}))
            wanted = self.quantifier != "forall"
            if answer == wanted and model.allows(sources):
                yield answer

    def holds(self):
        """Whether the test's statement is true."""
        found = any(True for _ in self.outcomes())
        return found if self.quantifier == "exists" else not found


class Known(dict):
    """Registers; those that nothing was loaded into hold 0."""

    def __missing__(self, key):
        return 0


class Model:
    """The relations of a test that are the same in all executions, and the axioms."""

    def __init__(self, test):
        self.test = test
        events = self.events = test.events
        self.n = len(events)
        self.po = related(events, lambda a, b: a.thread == b.thread >= 0 and a.number < b.number)
        self.same_place = related(events, lambda a, b: a.location == b.location != "")
        self.strong = related(events, self.is_morally_strong)
        self.bars = related(events, lambda a, b: a.kind == b.kind == "B" and a.barrier == b.barrier and
                            test.places[a.thread] == test.places[b.thread])
        self.rmw = nothing(self.n)
        for event in events:
            if event.pair >= 0:
                self.rmw[event.pair] |= 1 << event.number
        self.release = self.patterns("W", "release", False)
        self.acquire = inverse(self.patterns("R", "acquire", True))
        self.by_aliases = related(events, lambda a, b: a.location == b.location != "" and
                                  not self.is_same_address(a, b))
        self.alias_fences = sum_of(1 << e.number for e in events if e.kind == "F" and e.order == "alias")
        self.begins = related(events, lambda a, b: b.kind == "W" and a.thread < 0 and
                              a.location == b.location)

    @staticmethod
    def is_same_address(a, b):
        """What a location begins with is there at all of its addresses."""
        return a.location == b.location and (a.address == b.address or a.thread < 0 or b.thread < 0)

    def includes(self, a, b):
        """Whether a's scope includes b's thread."""
        if a.thread < 0 or b.thread < 0:
            return True
        (a_cta, a_gpu), (b_cta, b_gpu) = self.test.places[a.thread], self.test.places[b.thread]
        return {"cta": (a_cta, a_gpu) == (b_cta, b_gpu), "gpu": a_gpu == b_gpu, "sys": True}[a.scope]

    def is_morally_strong(self, a, b):
        ordered = a.thread == b.thread >= 0
        scoped = a.strong and b.strong and self.includes(a, b) and self.includes(b, a)
        overlap = self.is_same_address(a, b) or not (a.location and b.location)
        return (ordered or scoped) and overlap

    def patterns(self, kind, order, backwards):
        """From what releases to the strong store that tells of it, or, backwards, from what acquires to the
        strong load that was told."""
        def test(a, b):
            before = b.number < a.number if backwards else a.number < b.number
            follows = a.thread == b.thread >= 0 and before and b.kind == kind and b.strong
            fence = a.synchronizes
            access = a.kind == kind and a.order == order and a.address == b.address
            return follows and (fence or access)
        result = related(self.events, test)
        for event in self.events:
            if event.kind == kind and event.order == order:
                result[event.number] |= 1 << event.number
        return result

    def allows(self, sources):
        """Whether some order of stores and fences makes this a legal execution."""
        rf = nothing(self.n)
        for read, store in sources.items():
            rf[store] |= 1 << read
        if not is_acyclic(union(rf, self.dependencies())):
            return False  # out of thin air
        fences = [e.number for e in self.events if e.kind == "F" and e.order == "sc"]
        return any(self.is_legal(rf, order) for order in itertools.permutations(fences))

    def dependencies(self):
        def reads(formula):
            if formula[:1] == ("event",):
                return 1 << formula[1]
            return sum_of(reads(part) for part in formula if isinstance(part, tuple))
        sources = [reads(e.formula) if e.kind == "W" else 0 for e in self.events]
        return inverse(sources)

    def causes(self, rf, order):
        """Observation, and causality in full, if fences come in this order."""
        step = both(rf, self.strong)
        observed = then(step, or_same(closure(then(self.rmw, step))))
        sync = both(then(then(self.release, observed), self.acquire), self.strong)
        fences = nothing(self.n)
        for i, first in enumerate(order):
            fences[first] = sum_of(1 << later for later in order[i + 1:]) & self.strong[first]
        po = or_same(self.po)
        base = union(closure(then(then(po, union(sync, fences, self.bars)), po)), self.po)
        base = self.preserved(base)
        return fences, union(base, then(observed, base))

    def preserved(self, base):
        """What is left of causality among accesses by aliases: what goes by a fence between them."""
        fenced = then([mask & self.alias_fences for mask in base], base)
        return [mask & ~apart | mask & through
                for mask, apart, through in zip(base, self.by_aliases, fenced)]

    def is_legal(self, rf, order):
        fences, cause = self.causes(rf, order)
        if not is_irreflexive(then(fences, cause)):
            return False
        writes = sum_of(1 << e.number for e in self.events if e.kind == "W")
        forced = both(cause, self.same_place)
        forced = [mask & writes if writes >> i & 1 else 0 for i, mask in enumerate(forced)]
        forced = closure(union(forced, self.begins))
        pairs = [(i, j) for i in range(self.n) for j in members(self.strong[i] & self.same_place[i] & writes)
                 if i < j and writes >> i & 1 and not (forced[i] >> j & 1 or forced[j] >> i & 1)]
        return any(self.is_coherent(rf, cause, forced, choice, pairs)
                   for choice in itertools.product((False, True), repeat=len(pairs)))

    def is_coherent(self, rf, cause, forced, choice, pairs):
        co = list(forced)
        for turned, (i, j) in zip(choice, pairs):
            co[j if turned else i] |= 1 << (i if turned else j)
        co = closure(co)
        fr = then(inverse(rf), co)
        talks = both(union(rf, co, fr), self.strong)
        atomic = both(then(both(fr, self.strong), both(co, self.strong)), self.rmw)
        return (is_irreflexive(co) and is_irreflexive(then(union(rf, fr), cause)) and not any(atomic) and
                is_acyclic(union(both(self.po, self.same_place), talks)))
