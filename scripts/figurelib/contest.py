"""AUTO's contest against what others would do, from bench_contest. A section as in dgx1.py."""
from figurelib.text import number, size, table

HEADERS = ["topology", "points", "a baseline is faster", "by over 1 %", "worst ratio", "the worst point",
           "planning, ms"]


def worst_point(worst):
    devices = "all devices" if worst["devices"] == "all" else "devices " + worst["devices"].replace(",", " ")
    algorithms = f"{worst['algorithm']}, {worst['baseline']}"
    return f"{worst['collective']}, {size(worst['bytes'], 1024)}, {devices}: {algorithms}"


def rows(measured):
    """A row per topology and one for all; times of planning are means and are not added."""
    listed = [[m["topology"], m["points"], m["faster"], m["beyond_tie"], number(m["worst"]["ratio"], 3),
               worst_point(m["worst"]), number(m["choice_ms"], 1)] for m in measured]
    totals = [sum(m[key] for m in measured) for key in ("points", "faster", "beyond_tie")]
    return [*listed, ["all", *totals, number(max(m["worst"]["ratio"] for m in measured), 3), "", ""]]


def contest(blinkctl, _):
    return f"""`bench_contest --json`: what AUTO's own plans are predicted to take against NCCL's rings and
double binary trees and against Blink, for allreduce, broadcast, reduce, allgather and reducescatter of 64 B,
256 B, … 1 GiB. A point is a set of devices, a collective and a payload. The sets are all devices of a machine
and, of the DGX-1s, every set of at least two devices that NVLink connects. Of the baselines AUTO itself plans
rings alone. The worst ratio is AUTO's time over the fastest baseline's; at the worst point AUTO's algorithm
stands before the baseline. Planning is the processor time of one choice.

{table(HEADERS, rows(blinkctl.contest()))}"""
