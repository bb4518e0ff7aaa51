/*
 * What the planner is tuned with, in one place. Behind each constant stands what guards it: a unit test, or
 * the benches bench_plan (B) and bench_plan_hard (H), whose times or ratios to the bound it moves. Work is
 * counted in plan_lp_work()'s units where a program is solved, and in pairs of ranks where trees are grown,
 * so that plans do not depend on how fast a machine is.
 */
#ifndef BLINK_PLAN_TUNING_H
#define BLINK_PLAN_TUNING_H

/* ---- the working graph and its symmetries (columns/net.c, columns/symmetry.c) ---- */

/* Widest link over narrowest: beyond this the linear program's arithmetic fails. unit.plan. */
#define NET_SPAN_MAX 1e10
/* Most symmetries of a plan: rotations of hosts by class, of gpus within the root's host and within the
 * others. unit.symmetry. */
#define SYMMETRIES_MAX 4u
/* Images of all symmetries together beyond which a template stands for more than anyone could write out.
 * unit.symmetry. */
#define SYMMETRY_IMAGES_MAX 65536u

/* ---- linear programs (columns/lp.c) ---- */

/* Programs of no more rows have all of them from the start; larger ones only those that limit. H:
 * complete-64. */
#define LP_EAGER_ROWS_MAX 1024u

/* ---- paths (columns/paths.c) ---- */

/* A relay of as many links is a hub, if there are no more hubs than that. B: allgather, broadcast. */
#define PATHS_HUB_LINKS 32u
#define PATHS_HUBS_MAX  8u

/* ---- packed trees (trees/pack.c), and what columns/master.c does with large programs ---- */

/* Up to so many ranks plans are exact and thin; above, templates under symmetries stand for many.
 * unit.symmetry. */
#define PACK_SMALL_RANKS 16u
/* The same where every rank is a root: there are many trees anyhow, so symmetries pay sooner. unit.symmetry.
 */
#define PACK_SMALL_PER_RANK 8u
/* A program of more rows, or of more work without an end, is large, however few its ranks. H: all of 16. */
#define PACK_SMALL_ROWS 96u
#define PACK_SMALL_WORK 200000u
/* A rate as near to its bound is optimal, and a column (also of routes) that gains less is no gain; how near
 * the rate of a large plan must be, whose steps cost more. unit.plan_random, B. */
#define PACK_GAIN       1e-9
#define PACK_GAIN_LARGE 1e-3
/* Values below this part of the rate are noise of the solver. unit.plan_random. */
#define PACK_NOISE 1e-9
/* Rounds, and work, that may go into an optimum: a second or so. H: complete-32, regular-64. */
#define PACK_ROUNDS_MAX 2000u
#define PACK_WORK_MAX   5000000u
/* How far the prices of a large plan are pulled toward the best ones. B: broadcast. */
#define PACK_SMOOTHING 0.9
/* Roots priced per round where all are alike. B: allreduce. */
#define PACK_REVERSIBLE_ROOTS 4u
/* By up to this rows of a large plan are loosened, each differently, lest the simplex method stall. H:
 * mesh-64. */
#define PACK_LOOSENING 1e-4
/* Differing columns that a round of a large plan adds, at most, and the work for them; by how much each makes
 * what it crosses dearer for the next; what rows that cost nothing are taken to cost, of the mean. H:
 * torus-64, torus-128. */
#define VARIETY_COLUMNS 32u
#define VARIETY_WORK    2000000u
#define VARIETY_RAISE   0.3
#define VARIETY_FLOOR   1e-3
/* What two layers packed apart may fall short of the whole. unit.plan. */
#define LAYERS_FLOOR 0.9995

/* ---- trees (trees/grow.c) ---- */

/* What one level of a tree may cost, of the mean path cost: enough to decide ties, too little to change an
 * optimum. unit.choose, unit.plan_random. */
#define GROW_LEVEL_PENALTY 1e-10

/* ---- trees under a limit (trees/limit.c) ---- */

/* Such trees are for payloads that care little for the last percent of the rate. unit.shallow. */
#define LIMIT_GAIN 3e-4
/* Where no tree seems to gain, this many tastes are tried before that is believed; how much cheaper or dearer
 * than it is an edge may seem to another taste. unit.shallow. */
#define LIMIT_TASTES 6u
#define LIMIT_TASTE  0.5
/* Sums of latencies that differ by less are equal. Costs that differ by no more of themselves are equal. What
 * a rank must save by hanging elsewhere: prices are noisy. unit.shallow. */
#define LIMIT_ROUNDING_US 1e-6
#define LIMIT_TIE         1e-7
#define LIMIT_SAVING      1e-12
/* A small piece: of two ways with as many hops the one that such a piece passes sooner is the better one.
 * unit.shallow. */
#define LIMIT_PIECE_BYTES 8192.0

/* ---- the first packing (trees/spread.c) ---- */

/* How much dearer the busiest row is than an idle one, as an exponent: at first; after how many trees it
 * is 1.4 times that, growing with the root of their number; at most. H: complete-32 to complete-128. */
#define SPREAD_EXPONENT       10.0
#define SPREAD_EXPONENT_TREES 50.0
#define SPREAD_EXPONENT_MAX   200.0
/* Trees, sweeps over all roots, and work, after which the program goes on; programs of fewer rows need none,
 * nor any variety of columns. H, B. */
#define SPREAD_TREES      400u
#define SPREAD_SWEEPS     10u
#define SPREAD_WORK       20000000u
#define SPREAD_ROWS_LEAST 100u
/* Trees and work where the program is too large to be solved. H: complete-64, complete-128. */
#define SPREAD_FINISH_TREES 8000u
#define SPREAD_FINISH_WORK  80000000u
/* Of the bound: a packing as near needs no program. H: hypercube-64. */
#define SPREAD_ENOUGH 0.003

/* ---- fewer trees (trees/thin.c) ---- */

/* What a favoured column may cost the others, and so the dive of the rate. unit.plan_random. */
#define THIN_FAVOUR 0.005
/* While diving, columns that gain less are not worth adding. unit.plan_random. */
#define THIN_DIVE_GAIN 1e-3
/* The dive ends when the fixed columns lack no more than this part of the optimum (of a single root's part
 * where each rank is one), or after so many steps. unit.plan_random. */
#define THIN_DIVE_REST  0.0045
#define THIN_DIVE_STEPS 40u
/* Work that may go into all of it; further tries while they promise to stay below the second; most tries. H:
 * all of 16, unit.plan for the number of trees on built-ins. */
#define THIN_WORK_MAX     400000u
#define THIN_WORK_TRY_MAX 100000u
#define THIN_TRIES_MAX    6u
/* Where every rank is a root its trees carry multiples of one grain, if a root's part has so many of them at
 * most and comes as near to a multiple. unit.plan. */
#define THIN_GRAINS_MAX  16.0
#define THIN_GRAIN_ROUND 0.01
/* Programs of more entries are left as they are. H: torus-64. */
#define THIN_PROGRAM_MAX 250000u
/* How much wider or narrower than it is a tree may seem to another taste. unit.plan. */
#define THIN_TASTE 0.3
/* Of the optimum, what is kept where fewer trees are worth more; of the rate, what elimination may cost
 * otherwise. unit.plan_random: 0.99 of the bound. */
#define THIN_FLOOR       0.9905
#define THIN_EXACT_FLOOR (1.0 - 5e-5)

/* ---- routes (routes/route.c) ---- */

/* A rate as near to its bound is optimal. unit.route. */
#define ROUTE_ENOUGH 1e-6
/* The same where ranks are many. H: unequal-64/alltoall. */
#define ROUTE_ENOUGH_LARGE 0.001
/* What one hop of a route costs besides, of the dearest path: of equally cheap routes one of few hops is
 * found. unit.route. */
#define ROUTE_HOP_PENALTY 1e-10
/* Rounds, and work, that may go into an optimum: some seconds. H: torus-64/alltoall. */
#define ROUTE_ROUNDS_MAX 500u
#define ROUTE_WORK_MAX   400000000u
/* A program of so few demands ends at the optimum and soon: those of 16 ranks. None is made for more than the
 * second. H: all of 16, complete-64/alltoall; unit.route. */
#define ROUTE_FEW_DEMANDS         240u
#define ROUTE_PROGRAM_DEMANDS_MAX 2200u
/* Of the bound: where balancing came as near, no program goes on. H: duplex-32/alltoall, unit.route. */
#define ROUTE_BALANCED 0.993
/* Prices grow with loads as SPREAD_EXPONENT says; how many sources go by the same prices. unit.plan_random:
 * no time. */
#define ROUTE_EXPONENT 10.0
#define ROUTE_SOURCES  8u
/* Balancing: by how much the exponent grows with each sweep, and where it ends; every so many sweeps new
 * routes are looked for; Newton's steps for a shift, and when they are near enough. H: all of alltoall. */
#define BALANCE_SHARPER      1.007
#define BALANCE_EXPONENT_MAX 3000.0
#define BALANCE_SEARCH       12u
#define BALANCE_STEPS        20u
#define BALANCE_NEAR         0.001
/* What the prices of now are in the mean that proves bounds, too. H: complete-64/alltoall. */
#define BALANCE_MEAN 0.3
/* Merging routes: sweeps that mend what a merger left, the first one's exponent and its growth; rounds of
 * both. H: torus-64/alltoall, unequal-64/alltoall, all of 16. */
#define BALANCE_MEND_SWEEPS   20u
#define BALANCE_MEND_EXPONENT 100.0
#define BALANCE_MEND_SHARPER  1.2
#define BALANCE_THIN_ROUNDS   20u
/* An alltoall of more ranks is scheduled and not solved; how often prices are new meanwhile. unit.route. */
#define ROUTE_PROGRAM_RANKS_MAX 128u
#define ROUTE_SCHEDULE_PRICES   8u
/* Values below this part of what a pair gets are noise, or not worth a route. unit.route. */
#define ROUTE_NOISE 1e-3
/* Of the optimum, what is kept where fewer routes do. unit.route. */
#define ROUTE_THIN_FLOOR 0.999

#endif
