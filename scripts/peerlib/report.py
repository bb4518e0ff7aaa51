"""The measurements as Markdown, each with the target it has."""
import collections

from figurelib.text import number, size, table, wrap

MiB = 1 << 20
BEGIN, END = "<!-- written by hand: begin -->", "<!-- written by hand: end -->"
NO_NOTES = "## What was tuned\n\nNothing is written down yet."

# The ratio of one program's rate to another's that a job must reach, by the other's name.
Target = collections.namedtuple("Target", "other least")


def targets_of(job):
    """Of rates."""
    if job.collective == "alltoall":
        return []
    if job.bytes in (16 * MiB, 64 * MiB) and job.collective != "allreduce":
        return [Target("limit", 0.8)]
    if job.collective != "allreduce":
        return []
    if job.bytes == MiB:
        return [Target("Open MPI", {2: 1.5, 8: 3}[job.ranks])] if job.ranks in (2, 8) else []
    if job.bytes not in (16 * MiB, 64 * MiB):
        return []
    others = [Target("Open MPI", 8), Target("gloo", 8)] if job.ranks in (4, 8) else []
    return [Target("limit", 0.85 if job.bytes == 64 * MiB else 0.75), *others]


def latency_target_us(job, measurements):
    """The most that the small allreduce may take, and how that is said."""
    if job.collective != "allreduce":
        return None, "–"
    if job.ranks == 2:
        return 8, "≤ 8"
    other_us = measurements.time_us(job, "Open MPI")
    return other_us, "–" if other_us is None else "≤ Open MPI"


class Verdicts:
    """Which targets are met."""

    def __init__(self):
        self.met, self.missed = 0, []

    def judge(self, good, job, what):
        if good:
            self.met += 1
            return "met"
        self.missed.append(f"{job.collective}, {job.ranks} ranks, {size(job.bytes, 1024)}: {what}")
        return "not met"


def ratio_cell(job, other, measurements, verdicts):
    ours, theirs = measurements.GBps(job, "blinkd"), measurements.GBps(job, other)
    least = next((target.least for target in targets_of(job) if target.other == other), None)
    if ours is None or theirs is None:
        return "–" if least is None else f"– (≥ {least:g}: no number)"
    ratio = ours / theirs
    if least is None:
        return number(ratio)
    verdict = verdicts.judge(ratio >= least, job, f"{number(ratio)} of {other}, not {least:g}")
    return f"{number(ratio)} (≥ {least:g}: {verdict})"


def large_table(jobs, names, measurements, verdicts):
    others = [name for name in names if name in ("limit", "Open MPI", "gloo")]
    rows = []
    for job in jobs:
        rates = [number(measurements.GBps(job, name)) for name in names]
        rows.append([size(job.bytes, 1024), job.ranks, *rates,
                     *(ratio_cell(job, other, measurements, verdicts) for other in others)])
    return table(["size", "ranks", *names, *(f"blinkd / {other}" for other in others)], rows)


def small_table(jobs, names, measurements, verdicts):
    rows = []
    for job in jobs:
        ours_us = measurements.time_us(job, "blinkd")
        most_us, target = latency_target_us(job, measurements)
        if ours_us is not None and most_us is not None:
            what = f"{number(ours_us, 1)} µs, not {number(most_us, 1)}"
            target += f": {verdicts.judge(ours_us <= most_us, job, what)}"
        rows.append([size(job.bytes, 1024), job.ranks,
                     *(number(measurements.time_us(job, name), 1) for name in names),
                     target])
    return table(["size", "ranks", *names, "target"], rows)


def sections(jobs, programs, measurements, verdicts):
    names = [program.name for program in programs]
    small_names = [program.name for program in programs if program.measures_latency]
    collectives = list(dict.fromkeys(job.collective for job in jobs))
    for title, wanted, of_names, written in (("rates in GB/s", False, names, large_table),
                                             ("times in µs", True, small_names, small_table)):
        for collective in collectives:
            chosen = [job for job in jobs if job.collective == collective and job.is_latency == wanted]
            if chosen:
                yield f"## {collective.capitalize()}, {title}\n\n" + written(chosen, of_names, measurements,
                                                                             verdicts)


def failures(programs, measurements):
    """Programs that failed alike for a collective share a line."""
    lines = [f"{program.name} is left out: {program.why_not}" for program in programs if program.why_not]
    alike = collections.Counter((name, job.collective, why) for (name, job),
                                why in measurements.failures.items())
    lines += [f"{name}, {collective}, {count} of the cells: {why}" for (name, collective, why),
              count in alike.items()]
    return "\n".join(f"- {line}" for line in lines)


def judgement(verdicts):
    if not verdicts.met and not verdicts.missed:
        return "No target was measured."
    text = f"{verdicts.met} of {verdicts.met + len(verdicts.missed)} targets that could be judged are met."
    return text + ("\n\nNot met:\n\n" + "\n".join(f"- {line}" for line in verdicts.missed) if verdicts.missed
                   else "")


def notes_in(path):
    """What somebody wrote between the two marks of the report that is there."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return NO_NOTES
    _, begin, rest = text.partition(BEGIN)
    notes, end, _ = rest.partition(END)
    return notes.strip("\n") if begin and end else NO_NOTES


def write(path, head, jobs, programs, measurements, notes_from=None):
    """Notes are those of the file that is there, else of another one."""
    verdicts = Verdicts()
    tables = "\n\n".join(sections(jobs, programs, measurements, verdicts))
    failed = failures(programs, measurements)
    parts = [head, judgement(verdicts), "Not measured:\n\n" + failed if failed else "", tables]
    notes = notes_in(path if path.exists() or not notes_from else notes_from)
    text = wrap("\n\n".join(part for part in parts if part)) + f"\n{BEGIN}\n{notes}\n{END}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return judgement(verdicts)
