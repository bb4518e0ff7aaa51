/*
 * Optimal trees for a plan: pack all links, or NVLink and the rest apart where that is as good. The way into
 * the packer.
 */
#include "error.h"
#include "names.h"
#include "plan/columns/tuning.h"
#include "plan/trees/pack.h"

#include <stdlib.h>

static blink_result_t check_collective(const plan_t *plan)
{
    if (collective_routes(plan->collective))
        return BLINK_FAIL(BLINK_ERR_UNSUPPORTED, "%s has no trees", blink_name_collective(plan->collective));
    return BLINK_OK;
}

/* ---- layers ---- */

/* NVLink and everything else, packed apart. Where that loses nothing, two small packings need fewer trees and
 * less time than one large one. */
enum { LAYERS = 2 };

typedef struct layers {
    bool *allowed[LAYERS]; /* per link */
    packer_t packers[LAYERS];
    bool used[LAYERS]; /* the packer is set up and solved */
} layers_t;

static void layers_fini(layers_t *l)
{
    for (uint32_t i = 0; i < LAYERS; i++) {
        free(l->allowed[i]);
        if (l->used[i])
            pack_fini(&l->packers[i]);
    }
}

/* Optimise one layer; ranks that it does not join leave it unused. */
static blink_result_t solve_layer(layers_t *l, uint32_t layer, const packer_t *whole)
{
    packer_t *p = &l->packers[layer];
    blink_result_t result = pack_init(p, whole->topo, whole->plan, l->allowed[layer]);
    if (result == BLINK_OK)
        result = pack_optimise(p);
    l->used[layer] = result == BLINK_OK;
    if (result != BLINK_OK)
        pack_fini(p);
    return result == BLINK_ERR_UNREACHABLE ? BLINK_OK : result;
}

/* Solve the layers; *enough says whether they reach what the whole does. */
static blink_result_t solve_layers(layers_t *l, const packer_t *whole, bool *enough)
{
    const topo_t *topo = whole->topo;
    double rate_GBps = 0.0;
    uint32_t counts[LAYERS] = {0};
    *enough = false;
    for (uint32_t i = 0; i < LAYERS; i++) {
        l->allowed[i] = calloc(topo->link_count + 1u, sizeof(*l->allowed[i]));
        if (!l->allowed[i])
            return BLINK_FAIL(BLINK_ERR_NO_MEMORY, "no memory for a layer of %u links", topo->link_count);
    }
    for (uint32_t link = 0; link < topo->link_count; link++) {
        uint32_t layer = topo_is_nvlink(&topo->links[link]) ? 0 : 1;
        l->allowed[layer][link] = true;
        counts[layer] += whole->master.net->link_of[link] != PLAN_NONE;
    }
    if (counts[0] == 0 || counts[1] == 0 || whole->master.large)
        return BLINK_OK;
    for (uint32_t i = 0; i < LAYERS; i++) {
        BLINK_TRY(solve_layer(l, i, whole));
        if (l->used[i])
            rate_GBps += pack_rate(&l->packers[i]) * l->packers[i].master.unit_GBps;
    }
    *enough = rate_GBps >= LAYERS_FLOOR * pack_rate(whole) * whole->master.unit_GBps;
    return BLINK_OK;
}

static blink_result_t thin_and_place(packer_t *p, plan_t *plan)
{
    BLINK_TRY(pack_thin(p));
    return pack_place(p, plan);
}

/* The layers' channels, if the layers are as good as the whole; *placed says. */
static blink_result_t place_layers(const packer_t *whole, plan_t *plan, bool *placed)
{
    layers_t l = {0};
    blink_result_t result = solve_layers(&l, whole, placed);
    for (uint32_t i = 0; *placed && i < LAYERS && result == BLINK_OK; i++)
        if (l.used[i])
            result = thin_and_place(&l.packers[i], plan);
    layers_fini(&l);
    return result;
}

static blink_result_t pack(packer_t *p, plan_t *plan, double *prices)
{
    bool placed = false;
    BLINK_TRY(pack_optimise(p));
    pack_write_prices(p->master.net, p->master.best_prices, prices);
    BLINK_TRY(place_layers(p, plan, &placed));
    if (!placed)
        BLINK_TRY(thin_and_place(p, plan));
    pack_master_finish(&p->master, plan);
    return BLINK_OK;
}

blink_result_t plan_pack_trees(const topo_t *topo, plan_t *plan, double *prices)
{
    packer_t p;
    BLINK_TRY(check_collective(plan));
    blink_result_t result = pack_init(&p, topo, plan, NULL);
    if (result == BLINK_OK)
        result = pack(&p, plan, prices);
    pack_fini(&p);
    return result;
}

blink_result_t plan_pack_prices(const topo_t *topo, const plan_t *plan, double *prices)
{
    packer_t p;
    BLINK_TRY(check_collective(plan));
    blink_result_t result = pack_init(&p, topo, plan, NULL);
    if (result == BLINK_OK)
        result = pack_optimise(&p);
    if (result == BLINK_OK)
        pack_write_prices(p.master.net, p.master.best_prices, prices);
    pack_fini(&p);
    return result;
}
