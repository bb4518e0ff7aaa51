"""Rules of the interpreter of lanes, each of which test_lane_model.c must miss."""

TEST = "tests/model/lanes/test_lane_model.c"
CONSTANT = ["tests/model/lanes/views.c", "tests/model/lanes/views_walk.c", "tests/model/walk.c", TEST]
SOURCES = [*CONSTANT, "tests/model/lanes/lane_world.cpp"]
HEADERS = ["kernels"]
INCLUDED = ["kernels", "tests/model/lanes", "tests/model", "proto"]
FLAGS = ["-O2", "-U_FORTIFY_SOURCE", "-fno-strict-aliasing"]
ENVIRONMENT = {}

LANE, MOVE = "kernels/lane.cuh", "kernels/move.cuh"

# What is taken away; the file; what it is there; what it becomes.
MUTANTS = [
    ("a slot is written while it is still read", LANE,
     "after - (is_full ? 0 : moment.binding->slots)", "after - (is_full ? 0 : moment.binding->slots + 1)"),
    ("the first use of a slot waits for one before it", LANE,
     "after <= moment.binding->slots", "after < moment.binding->slots"),
    ("a slot is read before it is full", LANE, "(is_full ? 0 :", "(is_full ? 1 :"),
    ("threads move before another has seen the semaphore", LANE,
     "if (block_any(!step_wait(run, moment)))", "if (!step_wait(run, moment))"),
    ("a step is signalled before all threads have moved", LANE,
     "if (block_any(leaves))", "if (leaves)"),
    ("who has waited for a switch's step has no fence", LANE,
     "if (moment.by_switch && thread_index() < moment.step.wait_count)", "if (0)"),
    ("who signals what a switch has moved has no fence", LANE,
     "if (moment.by_switch && thread_index() < moment.step.signal_count)", "if (0)"),
    ("slots with flags are not given back", LANE, "if (signal.announces_data && ", "if ("),
    ("a block ends before its threads do", LANE,
     "block_barrier();\n    if (thread_index() == 0 && count", "if (thread_index() == 0 && count"),
    ("the first block to end says that the run is over", LANE,
     "count_down((uint32_t *)run.blocks_left, block.count)",
     "(count_down((uint32_t *)run.blocks_left, block.count), block.index == 0)"),
    ("chunks have one epoch", LANE, "run.epoch_base + moment.chunk + 1", "run.epoch_base + 1"),
    ("who waits does not look at the abort word", MOVE,
     "if (load_flag(&frame.control->abort) != 0)", "if (0)"),
    ("only one word of LL is looked at", MOVE, "raw.low >> 32 != epoch || ", ""),
    ("nobody looks at the flag of a line", MOVE, "piece.inside && piece.has_flag && ", "0 && "),
    ("what has not arrived is not awaited", MOVE,
     "if (!format::any(missing))", "if (true || !format::any(missing))"),
    ("threads of a warp go on without the one that has the flag", MOVE,
     "if (!format::any(missing))", "if (!missing)"),
    ("threads of a warp leave a wait alone", MOVE,
     "if (format::any(patience_ends(&patience)))", "if (patience_ends(&patience))"),
]
