#!/usr/bin/env python3
"""mutants.py CC: that the search of test_flow_model.c finds what it is for.

Takes one rule at a time away from the flows, the landings or the hosts of the model, or makes it wrong by
one, and runs the search over the result: it must find a story in which that goes wrong. Prints each that it
finds, and exits with 1 if one survives.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent.parent
SOURCES = ["daemon/net/flow/flow.c", "daemon/net/flow/landing.c", "daemon/net/flow/standing.c",
           "proto/error.c", "tests/model/hosts.c", "tests/model/streams.c", "tests/model/world.c",
           "tests/model/search.c", "tests/model/test_flow_model.c"]
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-DFLOW_WINDOW=3u", "-DSTANDING_MOST=2u"]
SECONDS_MOST = 300

# What is taken away; the file; what it is there; what it becomes.
FLOW, LANDING, STANDING = "daemon/net/flow/flow.c", "daemon/net/flow/landing.c", "daemon/net/flow/standing.c"
HOSTS, STREAMS = "tests/model/hosts.c", "tests/model/streams.c"
MUTANTS = [
    ("the sender's credit is one too high", FLOW,
     "sender->posted >= sender->credit", "sender->posted > sender->credit"),
    ("a sender goes on after its FAIL", FLOW, "if (sender->stopped || ", "if ("),
    ("FAIL forgets what is still read", FLOW, "return sender->posted;", "return sender->done;"),
    ("a sender is settled one move early", FLOW,
     "sender->done == sender->posted &&", "sender->done + 1 >= sender->posted &&"),
    ("what is lost with a fence does not go again", FLOW, "sender->again = ~came & ", "sender->again = 0 & "),
    ("what is lost does not go again after FAIL", FLOW,
     "if (sender->again) {", "if (sender->again && !sender->stopped) {"),
    ("what goes again is counted from the wrong move", FLOW,
     "    sender->again = without_first(sender->again, count);\n", ""),
    ("the first grant is one too many", FLOW,
     "return least(moves, window_of(places));", "return least(moves, window_of(places) + 1);"),
    ("a move that was overtaken counts as come", FLOW,
     "receiver->arrived += count;", "receiver->arrived = sequence + 1;"),
    ("places are free when their moves have come", FLOW,
     "receiver->consumed + least(receiver->places, receiver->moves - receiver->consumed)",
     "receiver->arrived + least(receiver->places, receiver->moves - receiver->arrived)"),
    ("more is granted than the map holds", FLOW,
     "uint32_t limit = least(by_places, by_window);", "uint32_t limit = by_places + 0 * by_window;"),
    ("the last grants are put off for ever", FLOW,
     "limit - receiver->granted < worth", "limit - receiver->granted <= worth"),
    ("a receiver is settled one move early", FLOW,
     "receiver->arrived == receiver->moves", "receiver->arrived + 1 >= receiver->moves"),
    ("a receiver is settled as soon as the end is known", FLOW,
     "receiver->ends && receiver->arrived == receiver->moves", "receiver->ends"),
    ("FAIL is taken for one move less", FLOW,
     "return end_at(receiver, sent);", "return end_at(receiver, sent - (sent > 0));"),
    ("a fence leaves claims behind", FLOW, "receiver->claimed = receiver->came;", ""),
    ("a landing is settled with one flow that is not", LANDING,
     "return landing->unsettled == 0;", "return landing->unsettled <= 1;"),
    ("what comes for an earlier op is taken in", LANDING, "move->sequence > UINT32_MAX / 2 || ", ""),
    ("a standing landing is used again while a move is written to it", HOSTS,
     "drop_from_streams(link, landing);", ""),
    ("a standing landing is used again before its op has ended", HOSTS,
     "uint32_t ended = count_ended(host, comm);", "uint32_t ended = count_ended(host, comm) + 1;"),
    ("rounds are not told apart", STANDING, "k / standing->count, 0", "0 * k, 0"),
    ("an op begins one too early", STANDING,
     "return k < standing->ended + standing->count;", "return k <= standing->ended + standing->count;"),
    ("a sender sends one op too early", "daemon/net/flow/standing.h",
     "return k < ended + count;", "return k <= ended + count;"),
    ("ops begin as they like", HOSTS, "!standing_may_begin(", "false && !standing_may_begin("),
    ("an op ends without the peer's BEGIN", HOSTS,
     " && link_between(flow->from, host)->begun[op]", ""),
    ("a failed op does not wait to be settled", HOSTS,
     "return !lane->lent || landing_is_settled(&lane->landing);", "return true;"),
    ("FAIL tells how far was sent to a standing landing", HOSTS,
     "if (plan_of(op)->standing)\n        sent = 0;", ""),
    ("a fence ends flows of which nothing was sent", HOSTS,
     "else if (lane->sender.posted > 0)", "else"),
    ("immediates that have come are lost with a fence", STREAMS,
     "if (stream->writing && setting.plan->verbs)", "if (stream->writing && 0)"),
    ("a NIC says that it is done before it has written", STREAMS,
     "(setting.plan->fences > 0 || setting.plan->verbs) && ", "0 && "),
]


def compile_to(compiler, source, target, overlay):
    subprocess.run([compiler, *FLAGS, "-I", str(overlay / "daemon"), "-I", str(TOP / "daemon"), "-I",
                    str(TOP / "proto"), "-I", str(TOP / "tests/model"), "-c", str(source), "-o", str(target)],
                   check=True)


def compile_all(compiler, folder, overlay, names):
    for name in names:
        source = overlay / name if (overlay / name).exists() else TOP / name
        compile_to(compiler, source, folder / (Path(name).stem + ".o"), overlay)


def story_of(compiler, folder, whole, path, old, new):
    """What the search finds wrong with the mutant."""
    text = (TOP / path).read_text()
    if text.count(old) != 1:
        sys.exit(f"mutants: {path} has {text.count(old)} places with: {old}")
    overlay = folder / "overlay"
    (overlay / path).parent.mkdir(parents=True, exist_ok=True)
    (overlay / path).write_text(text.replace(old, new))
    changed = [path] if path.endswith(".c") else [s for s in SOURCES if not s.endswith("error.c")]
    compile_all(compiler, folder, overlay, changed)
    own = {Path(n).stem + ".o" for n in changed}
    names = [Path(s).stem + ".o" for s in SOURCES]
    objects = [str((folder if name in own else whole) / name) for name in names]
    subprocess.run([compiler, *objects, "-lcmocka", "-o", str(folder / "mutant")], check=True)
    ran = subprocess.run([str(folder / "mutant")], capture_output=True, text=True, timeout=SECONDS_MOST,
                         env={**os.environ, "FLOW_MODEL_STOP": "1"}, check=False)
    said = [line for line in (ran.stdout + ran.stderr).splitlines()
            if line.startswith("found: ") or "Assertion" in line]
    return said[0] if ran.returncode != 0 and said else None


def main():
    compiler, survivors = sys.argv[1], []
    with tempfile.TemporaryDirectory() as work:
        whole = Path(work)
        compile_all(compiler, whole, whole, SOURCES)
        for number, (what, path, old, new) in enumerate(MUTANTS):
            folder = whole / str(number)
            folder.mkdir()
            story = story_of(compiler, folder, whole, path, old, new)
            print(f"{what}: {story or 'NOT FOUND'}", flush=True)
            if not story:
                survivors.append(what)
    print(f"mutants: {len(MUTANTS)}, not found: {len(survivors)}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
