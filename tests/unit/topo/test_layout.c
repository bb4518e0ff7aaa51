/*
 * Where things stand in pictures: no box is on another one, and no link runs through a box that is not its
 * own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "error.h"
#include "topo/show/layout.h"
#include "topo_check.h"

static const char *const machines[] = {"dgx1p",    "dgx1v",      "dgx1v_hybrid", "dgx2",
                                       "dgx_a100", "dgx_h100",   "pcie8",        "2xdgx1v@5",
                                       "4xdgx1v",  "2xdgx_h100", "2xpcie8"};

static bool overlap(const topo_layout_t *layout, uint32_t one, uint32_t other)
{
    const topo_place_t *a = &layout->places[one], *b = &layout->places[other];
    return fabs(a->x - b->x) < layout->box_width && fabs(a->y - b->y) < TOPO_BOX_HEIGHT;
}

static void check_boxes(const char *name, const topo_layout_t *layout)
{
    const topo_t *topo = layout->topo;
    for (uint32_t i = 0; i < topo->node_count; i++) {
        const topo_place_t *place = &layout->places[i];
        assert_true(place->x > 0 && place->x < layout->width && place->y > 0 && place->y < layout->height);
        for (uint32_t j = 0; j < i; j++)
            if (overlap(layout, i, j))
                fail_msg("%s: %s is on %s", name, topo->nodes[i].id, topo->nodes[j].id);
    }
}

static bool runs_through(const topo_layout_t *layout, const topo_curve_t *curve, uint32_t node)
{
    for (double at = 0; at <= 1; at += 1.0 / 64) {
        double a = (1 - at) * (1 - at), b = 2 * at * (1 - at), c = at * at;
        double x = a * curve->from.x + b * curve->by.x + c * curve->to.x - layout->places[node].x;
        double y = a * curve->from.y + b * curve->by.y + c * curve->to.y - layout->places[node].y;
        if (fabs(x) < layout->box_width / 2 && fabs(y) < TOPO_BOX_HEIGHT / 2.0)
            return true;
    }
    return false;
}

static void check_links(const char *name, const topo_layout_t *layout)
{
    const topo_t *topo = layout->topo;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_link_t *link = &topo->links[i];
        const topo_curve_t curve = topo_layout_route(layout, link->from, link->to);
        for (uint32_t node = 0; node < topo->node_count; node++)
            if (node != link->from && node != link->to && runs_through(layout, &curve, node))
                fail_msg("%s: the link of %s and %s runs through %s", name, topo->nodes[link->from].id,
                         topo->nodes[link->to].id, topo->nodes[node].id);
    }
}

/* Half of what a bundle of links may be wide. */
#define BUNDLE 12

/* A link of two nodes of a host stays in the host's frame. */
static void check_frames(const char *name, const topo_layout_t *layout)
{
    const topo_t *topo = layout->topo;
    for (uint32_t i = 0; i < topo->link_count; i++) {
        const topo_node_t *from = &topo->nodes[topo->links[i].from], *to = &topo->nodes[topo->links[i].to];
        const topo_curve_t curve = topo_layout_route(layout, topo->links[i].from, topo->links[i].to);
        for (uint32_t j = 0; j < layout->frame_count; j++) {
            const topo_frame_t *frame = &layout->frames[j];
            double low = (curve.from.y + 2 * curve.by.y + curve.to.y) / 4; /* halfway */
            if (strcmp(from->host, frame->host) == 0 && strcmp(to->host, frame->host) == 0 &&
                (low + BUNDLE > frame->y + frame->height || low - BUNDLE < frame->y))
                fail_msg("%s: the link of %s and %s leaves its host", name, from->id, to->id);
        }
    }
}

static void test_nothing_stands_or_runs_on_a_box(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        topo_t *topo = load(machines[i]);
        topo_layout_t layout;
        assert_int_equal(topo_layout_init(&layout, topo, 1), BLINK_OK);
        check_boxes(machines[i], &layout);
        check_links(machines[i], &layout);
        check_frames(machines[i], &layout);
        topo_layout_fini(&layout);
        topo_destroy(topo);
    }
}

static void test_hosts_are_framed_side_by_side(void **state)
{
    (void)state;
    topo_t *topo = load("4xdgx1v");
    topo_layout_t layout;
    assert_int_equal(topo_layout_init(&layout, topo, 1), BLINK_OK);
    assert_int_equal(layout.frame_count, 4);
    for (uint32_t i = 0; i < layout.frame_count; i++) {
        const topo_frame_t *frame = &layout.frames[i];
        for (uint32_t node = 0; node < topo->node_count; node++) {
            const topo_place_t *place = &layout.places[node];
            bool inside = place->x > frame->x && place->x < frame->x + frame->width && place->y > frame->y &&
                          place->y < frame->y + frame->height;
            assert_int_equal(inside, strcmp(topo->nodes[node].host, frame->host) == 0);
        }
    }
    topo_layout_fini(&layout);
    topo_destroy(topo);
}

/* The two quads of a DGX-1V: each has the corners of a parallelogram. */
static void test_quads_are_squares(void **state)
{
    (void)state;
    topo_t *topo = load("dgx1v");
    topo_layout_t layout;
    assert_int_equal(topo_layout_init(&layout, topo, 1), BLINK_OK);
    for (uint32_t quad = 0; quad < 2; quad++) {
        const topo_place_t *corners[4];
        for (uint32_t i = 0; i < 4; i++)
            corners[i] = &layout.places[topo->gpus[4 * quad + i]];
        assert_true(fabs(corners[0]->y - corners[3]->y) < 1 && fabs(corners[1]->y - corners[2]->y) < 1);
        assert_true(corners[1]->y > corners[0]->y + TOPO_BOX_HEIGHT);
        assert_true(fabs(corners[3]->x - corners[0]->x - (corners[2]->x - corners[1]->x)) < 1);
    }
    topo_layout_fini(&layout);
    topo_destroy(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_stands_or_runs_on_a_box),
        cmocka_unit_test(test_hosts_are_framed_side_by_side),
        cmocka_unit_test(test_quads_are_squares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
