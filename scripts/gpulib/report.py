"""gpu-bench's results as Markdown, with the bars that they are held against. Pure."""
from figurelib import chart
from figurelib.text import number, size, table, wrap

from .results import (ALLREDUCE_BYTES, COLLECTIVES, COLLECTIVES_BYTES, COLLECTIVES_DEVICES, DEVICES, GRAPH,
                      MPS, MiB, PROTOCOLS, PROTOCOLS_BYTES,
                      PROTOCOLS_DEVICES, PROTOCOLS_TOPOLOGY, SHARINGS, STREAM, SWITCH_BYTES,
                      SWITCH_FLAGS, WAITED, Cell)

NOT_MEASURED = "not measured"
COPY_BAR, COPY_BAR_BYTES = 0.85, 256 * MiB
LATENCY_BAR_US, LATENCY_BYTES, LATENCY_DEVICES = 25, 8, 8


class Notes:
    """Why cells are empty, each reason once."""

    def __init__(self):
        self.reasons = []

    def cell(self, results, cell, value, digits):
        return self.missing(results.reason(cell)) if value is None else number(value, digits)

    def missing(self, reason):
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"{NOT_MEASURED} ({self.reasons.index(reason) + 1})"

    def text(self):
        return "\n".join(f"- ({i + 1}) {reason}." for i, reason in enumerate(self.reasons))


def copy_section(results, notes):
    is_missing = results.copy_GBps is None
    rate = notes.missing(results.why_not) if is_missing else f"{number(results.copy_GBps, 0)} GB/s"
    return (f"## Copy within the GPU\n\n{rate}: cuMemcpyAsync of {size(results.copy_bytes, 1024)} from "
            f"device memory to device memory, bytes read and bytes "
            "written (`gpu_copy`).")


def bars(results, notes):
    rows = []
    for sharing in SHARINGS:
        for devices in DEVICES:
            cell = Cell(sharing, STREAM, "allreduce", devices, COPY_BAR_BYTES)
            rows.append([f"allreduce, 256 MiB, {devices} devices, {sharing}, of the copy", f"≥ {COPY_BAR}",
                         *judged(results, notes, cell, results.of_copy(cell), lambda value: value >= COPY_BAR,
                                 2)])
    cell = Cell(MPS, STREAM, "allreduce", LATENCY_DEVICES, LATENCY_BYTES)
    rows.append([f"allreduce, 8 B, {LATENCY_DEVICES} devices, {MPS}, call to end on a stream, µs",
                 f"≤ {LATENCY_BAR_US}",
                 *judged(results, notes, cell, results.time_us(cell), lambda value: value <= LATENCY_BAR_US,
                         1)])
    return "## Bars\n\n" + table(["what", "bar", "measured", "verdict"], rows)


def judged(results, notes, cell, value, good, digits):
    verdict = "–" if value is None else "met" if good(value) else "not met"
    return notes.cell(results, cell, value, digits), verdict


def allreduce_section(results, notes, sharing):
    rows = []
    for count in ALLREDUCE_BYTES:
        row = [size(count, 1024)]
        for devices in DEVICES:
            waited, stream = (Cell(sharing, order, "allreduce", devices, count) for order in (WAITED, STREAM))
            row += [notes.cell(results, waited, results.time_us(waited), 1),
                    notes.cell(results, stream, results.time_us(stream), 1),
                    number(results.GBps(stream), 1), number(results.of_copy(stream))]
        rows.append(row)
    headers = ["size"]
    for devices in DEVICES:
        headers += [f"{devices}: waited, µs", f"{devices}: stream, µs", f"{devices}: GB/s",
                    f"{devices}: of copy"]
    return f"## AllReduce, {sharing}\n\n" + table(headers, rows)


def collectives_section(results, notes):
    rows = []
    for collective in COLLECTIVES:
        row = [collective]
        for sharing in SHARINGS:
            cell = Cell(sharing, STREAM, collective, COLLECTIVES_DEVICES, COLLECTIVES_BYTES)
            row += [notes.cell(results, cell, results.time_us(cell), 1), number(results.GBps(cell), 1),
                    number(results.of_copy(cell))]
        rows.append(row)
    headers = ["collective"]
    for sharing in SHARINGS:
        headers += [f"{sharing}: µs", f"{sharing}: GB/s", f"{sharing}: of copy"]
    return f"## Other collectives, 256 MiB, {COLLECTIVES_DEVICES} devices, on a stream\n\n" + table(headers,
                                                                                                    rows)


def latency_section(results, notes):
    rows = []
    for sharing in SHARINGS:
        row = [sharing]
        for order in (WAITED, STREAM, GRAPH):
            cell = Cell(sharing, order, "allreduce", LATENCY_DEVICES, LATENCY_BYTES)
            row += [notes.cell(results, cell, results.time_us(cell), 1), number(results.p99_us(cell), 1)]
        rows.append(row)
    headers = ["sharing"]
    for order in ("blink_wait()", "stream", "graph"):
        headers += [f"{order}: median", "p99"]
    kernel = notes.missing("blinkd does not say how long its kernels run, and no profiler is run beside a "
                           "measurement")
    return (f"## Latency: allreduce of 8 B, {LATENCY_DEVICES} devices, µs\n\nFrom the client's call to the "
            f"return of blink_wait(), "
            "to the end of cuStreamSynchronize after the call on a stream, and to its end after the replay "
            "of a graph.\n\n"
            + table(headers, rows) + f"\nTime of the kernel on the device: {kernel}.")


def protocol_cell(protocol, count):
    return Cell(protocol, STREAM, "allreduce", PROTOCOLS_DEVICES, count)


def protocols_section(results, notes):
    rows = []
    for count in PROTOCOLS_BYTES:
        cells = [protocol_cell(protocol, count) for protocol in PROTOCOLS]
        times = {cell.sharing: results.time_us(cell) for cell in cells if results.time_us(cell) is not None}
        rows.append([size(count, 1024),
                     *(notes.cell(results, cell, results.time_us(cell), 1) for cell in cells),
                     min(times, key=times.get) if len(times) == len(cells) else "–"])
    return (f"## Where LL, LL128 and Simple meet\n\nAllReduce on a stream, {PROTOCOLS_DEVICES} devices of "
            f"the GPU laid out as a "
            f"`{PROTOCOLS_TOPOLOGY}` (`blinkd --devices cuda:0x{PROTOCOLS_DEVICES} --topology "
            f"{PROTOCOLS_TOPOLOGY} --protocol P`): "
            "that machine's plan, with this GPU's memory for links.\n\n"
            + table(["size", *(f"{protocol}, µs" for protocol in PROTOCOLS), "fastest"], rows))


def protocols_chart(results):
    """An SVG; None if any protocol lacks a size."""
    series = {protocol: [(count, results.time_us(protocol_cell(protocol, count)))
                         for count in PROTOCOLS_BYTES]
              for protocol in PROTOCOLS}
    if any(time_us is None for points in series.values() for _, time_us in points):
        return None
    names = {count: size(count, 1024) for count in PROTOCOLS_BYTES}
    return chart.lines(f"AllReduce, {PROTOCOLS_DEVICES} devices of one GPU, by protocol", "bytes", "µs",
                       series, names, log_y=True)


def switches_section(results, notes):
    rows = []
    for count in SWITCH_BYTES:
        row = [size(count, 1024)]
        for plan in SWITCH_FLAGS:
            cell = Cell(plan, STREAM, "allreduce", results.gpu_count, count)
            time_us = results.time_us(cell)
            bus = time_us and 2 * (results.gpu_count - 1) / results.gpu_count * count / time_us / 1e3
            row += [notes.cell(results, cell, time_us, 1), number(bus, 1)]
        rows.append(row)
    headers = ["size"]
    for plan in SWITCH_FLAGS:
        headers += [f"{plan}: µs", f"{plan}: bus GB/s"]
    return ("## By switches that reduce\n\nAllReduce on a stream of all GPUs of the machine, one device each "
            "(`blinkd --devices cuda:all`): by `--algorithm multicast`, and as the daemon chooses. Bus GB/s "
            "are nccl-tests'.\n\n" + table(headers, rows))


def nccl_section(notes):
    """What nothing measures yet."""
    nccl = notes.missing("NCCL takes one rank per GPU, and these are several devices of one GPU")
    return f"## Against NCCL\n\n{nccl}."


def write(head, results):
    notes = Notes()
    sections = [bars(results, notes), copy_section(results, notes),
                *(allreduce_section(results, notes, sharing) for sharing in SHARINGS),
                latency_section(results, notes), collectives_section(results, notes),
                protocols_section(results, notes), switches_section(results, notes), nccl_section(notes)]
    how = ("Devices are shares of one GPU (`blinkd --devices cuda:0xN`), ranks are processes, memory is "
           "cuMemCreate's, float32, "
           "sum, out of place, every result checked (a sample of those above 4 MiB). A time is the slowest "
           "rank's from a barrier "
           "on, the median of the iterations. Rates are GB/s (1e9 bytes per second) of what has to be "
           "moved: every input read "
           "once, every output written once; \"of copy\" is that over the rate of the copy, in the same run.")
    return wrap("\n\n".join([head, how, *sections, "## Why not\n\n" + notes.text()]))
