/* The table and the JSON lines of blink-perf. */
#include "report/report.h"

#include "names.h"
#include "tools/human.h"

#include "error.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define REAL_DIGITS 9 /* of JSON numbers */

/* Of the columns of the table. */
#define TIME_WIDTH    11u
#define TIME_DECIMALS 3u
#define RATE_WIDTH    11u
#define RATE_DECIMALS 6u

typedef struct bandwidth {
    double algbw_GBps, busbw_GBps, efficiency;
} bandwidth_t;

/* Of one op. */
static uint64_t bytes_of(const perf_report_t *report, const perf_result_t *result)
{
    const perf_options_t *options = report->options;
    return result->count * blink_datatype_bytes(result->datatype) *
           perf_collective_blocks(options->collective, options->rank_count);
}

static bandwidth_t bandwidth_of(const perf_report_t *report, const perf_result_t *result)
{
    const perf_options_t *options = report->options;
    double bytes = (double)bytes_of(report, result) * perf_op_count(options);
    double algbw_GBps = bytes / result->times.median_us / 1e3;
    double busbw_GBps = algbw_GBps * perf_collective_busbw_factor(options->collective, options->rank_count);
    return (bandwidth_t){algbw_GBps, busbw_GBps,
                         report->ideal_GBps > 0 ? busbw_GBps / report->ideal_GBps : 0};
}

/* NULL where there is none. */
static const char *datatype_of(const perf_report_t *report, const perf_result_t *result)
{
    return perf_collective_moves(report->options->collective) ? blink_name_datatype(result->datatype) : NULL;
}

static const char *redop_of(const perf_report_t *report, const perf_result_t *result)
{
    return perf_collective_reduces(report->options->collective) ? blink_name_redop(result->redop) : NULL;
}

static const char *memory_of(const perf_options_t *options)
{
    static const char *const names[] = {[PERF_MEMORY_REGISTERED] = "registered",
                                        [PERF_MEMORY_ORDINARY] = "malloc",
                                        [PERF_MEMORY_DEVICE] = "device memory"};
    return names[options->memory];
}

/* The driver of the tests says so in the names of its devices. */
static bool is_stand_in(const perf_report_t *report)
{
    return report->gpu_name && strstr(report->gpu_name, "stand-in");
}

static void print_line(json_t *line)
{
    json_dumpf(line, stdout, JSON_REAL_PRECISION(REAL_DIGITS));
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

/* ---- JSON ---- */

#define SCHEMA "blink-perf/1"

static json_t *number_or_null(double number)
{
    return number > 0 ? json_real(number) : json_null();
}

static json_t *pack_times(const perf_report_t *report, const perf_result_t *result)
{
    bandwidth_t bandwidth = bandwidth_of(report, result);
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "iterations", (json_int_t)result->iterations,
                     "time_us", result->times.median_us, "time_us_min", result->times.min_us, "time_us_p99",
                     result->times.p99_us, "algbw_GBps", bandwidth.algbw_GBps, "busbw_GBps",
                     bandwidth.busbw_GBps, "ideal_GBps", number_or_null(report->ideal_GBps), "efficiency",
                     number_or_null(bandwidth.efficiency));
}

static json_t *pack_circumstances(const perf_report_t *report)
{
    const perf_options_t *options = report->options;
    return json_pack("{s:f, s:s, s:s, s:s, s:s?, s:s?, s:s?, s:b, s:I, s:I, s:b}", "pace_scale",
                     report->pace_scale, "algorithm", blink_name_algorithm(options->algorithm), "protocol",
                     "simple", "memory", memory_of(options), "gpu_memory",
                     report->gpu_name ? perf_gpu_memory_name(options->gpu_memory) : NULL, "gpu",
                     report->gpu_name, "stream", perf_order_name(options->order), "stand_in",
                     is_stand_in(report), "groups", (json_int_t)options->group_count, "comms",
                     (json_int_t)options->comm_count, "threads", options->threads);
}

/* docs/json.md has what is in it. */
static void print_json(const perf_report_t *report, const perf_result_t *result, bool in_place)
{
    const perf_options_t *options = report->options;
    bool rooted = perf_collective_has_root(options->collective);
    json_t *times = pack_times(report, result), *circumstances = pack_circumstances(report);
    json_t *line =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:s?, s:s?, s:o, s:b, s:o}", "schema", SCHEMA, "collective",
                  perf_collective_name(options->collective), "ranks", (json_int_t)options->rank_count,
                  "bytes", (json_int_t)bytes_of(report, result), "count", (json_int_t)result->count, "dtype",
                  datatype_of(report, result), "op", redop_of(report, result), "root",
                  rooted ? json_integer(options->root) : json_null(), "in_place", in_place, "wrong",
                  options->check ? json_integer((json_int_t)result->wrong) : json_null());
    json_object_update(line, times);
    json_object_update(line, circumstances);
    json_decref(times);
    json_decref(circumstances);
    print_line(line);
}

/* ---- table ---- */

static void print_placement(const perf_report_t *report, const perf_result_t *result)
{
    char text[HUMAN_BYTES];
    if (!result->measured) {
        printf("  %11s  %11s  %11s  %6s", "-", "-", "-", "-");
        return;
    }
    bandwidth_t bandwidth = bandwidth_of(report, result);
    printf("  %s", human_column(result->times.median_us, TIME_WIDTH, TIME_DECIMALS, text));
    printf("  %s", human_column(bandwidth.algbw_GBps, RATE_WIDTH, RATE_DECIMALS, text));
    printf("  %s", human_column(bandwidth.busbw_GBps, RATE_WIDTH, RATE_DECIMALS, text));
    if (report->options->check)
        printf("  %6lu", (unsigned long)result->wrong);
    else
        printf("  %6s", "N/A");
}

static void print_efficiency(const perf_report_t *report, const perf_result_t *result)
{
    if (report->ideal_GBps > 0 && result->measured)
        printf("  %5.1f%%", 100 * bandwidth_of(report, result).efficiency);
    else
        printf("  %6s", "-");
}

static void print_row(const perf_report_t *report, const perf_result_t results[2])
{
    const perf_options_t *options = report->options;
    const perf_result_t *any = results[0].measured ? &results[0] : &results[1];
    const char *datatype = datatype_of(report, any), *redop = redop_of(report, any);
    char root[16] = "-1", ideal[HUMAN_BYTES];
    if (perf_collective_has_root(options->collective))
        snprintf(root, sizeof(root), "%u", options->root);
    printf("%12lu  %12lu  %11s  %9s  %4s", (unsigned long)bytes_of(report, any), (unsigned long)any->count,
           datatype ? datatype : "none", redop ? redop : "none", root);
    print_placement(report, &results[0]);
    print_placement(report, &results[1]);
    printf("  %11s",
           report->ideal_GBps > 0 ? human_column(report->ideal_GBps, RATE_WIDTH, RATE_DECIMALS, ideal) : "-");
    print_efficiency(report, &results[0]);
    print_efficiency(report, &results[1]);
    putchar('\n');
    fflush(stdout);
}

static void print_circumstances(const perf_report_t *report)
{
    static const char *const orders[] = {[PERF_ORDER_HOST] = "ops are waited for",
                                         [PERF_ORDER_STREAM] = "ops are on a stream",
                                         [PERF_ORDER_GRAPH] = "ops are in a graph"};
    const perf_options_t *options = report->options;
    if (report->gpu_name)
        printf("# device memory (%s) of %s, %s\n", perf_gpu_memory_name(options->gpu_memory),
               report->gpu_name, orders[options->order]);
    else
        printf("# %s memory\n", memory_of(options));
    if (report->pace_scale > 0)
        printf("# links are paced at %g of their capacity\n", report->pace_scale);
    if (is_stand_in(report))
        printf("# stand-in driver, host memory: no measurement of a GPU\n");
    if (perf_op_count(options) > 1 || options->threads)
        printf("# %u op%s in a group, %u communicator%s at a time, ranks are %s\n", options->group_count,
               human_plural(options->group_count), options->comm_count, human_plural(options->comm_count),
               options->threads ? "threads" : "processes");
}

void perf_report_header(const perf_report_t *report)
{
    const perf_options_t *options = report->options;
    if (options->json)
        return;
    printf("# blink-perf %s: %s, %u rank%s, algorithm %s, ", BLINK_VERSION,
           perf_collective_name(options->collective), options->rank_count, human_plural(options->rank_count),
           blink_name_algorithm(options->algorithm));
    if (options->seconds > 0)
        printf("iterations for %g s after %u\n", options->seconds, options->warmup);
    else
        printf("%u iteration%s after %u\n", options->iterations, human_plural(options->iterations),
               options->warmup);
    print_circumstances(report);
    printf("#\n#%56s%29s%47s%44s\n", "", "out-of-place", "in-place", "efficiency");
    printf("#%11s  %12s  %11s  %9s  %4s", "size", "count", "type", "redop", "root");
    for (int i = 0; i < 2; i++)
        printf("  %11s  %11s  %11s  %6s", "time", "algbw", "busbw", "#wrong");
    printf("  %11s  %6s  %6s\n", "ideal", "out-of", "in");
    printf("#%11s  %12s  %11s  %9s  %4s", "(B)", "(elements)", "", "", "");
    for (int i = 0; i < 2; i++)
        printf("  %11s  %11s  %11s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    printf("  %11s  %6s  %6s\n", "(GB/s)", "place", "place");
    fflush(stdout);
}

void perf_report_size(perf_report_t *report, const perf_result_t results[2])
{
    for (int i = 0; i < 2; i++) {
        if (!results[i].measured)
            continue;
        report->busbw_sum_GBps += bandwidth_of(report, &results[i]).busbw_GBps;
        report->result_count++;
        report->wrong += results[i].wrong;
        if (report->options->json)
            print_json(report, &results[i], i == 1);
    }
    if (!report->options->json)
        print_row(report, results);
}

/* Whether all that was printed has arrived. */
static blink_result_t finish_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        return BLINK_FAIL_ERRNO("standard output");
    return BLINK_OK;
}

blink_result_t perf_report_footer(const perf_report_t *report)
{
    char average[HUMAN_BYTES];
    if (report->options->json)
        return finish_output();
    if (report->options->check)
        printf("# Out of bounds values : %lu %s\n", (unsigned long)report->wrong,
               report->wrong == 0 ? "OK" : "FAILED");
    printf("# Avg bus bandwidth    : %s\n#\n",
           human_number(report->busbw_sum_GBps / report->result_count, average));
    return finish_output();
}

blink_result_t perf_report_nop(const perf_options_t *options, const perf_times_t *times)
{
    if (options->json)
        print_line(json_pack("{s:s, s:s, s:I, s:f, s:f, s:f}", "schema", "blink-perf-nop/1", "collective",
                             "nop", "iterations", (json_int_t)options->iterations, "time_us",
                             times->median_us, "time_us_min", times->min_us, "time_us_p99", times->p99_us));
    else
        printf(
            "# blink-perf %s: empty operation, one client\n#  iterations  median (us)  p99 (us)  min (us)\n"
            "%13u  %11.3f  %8.3f  %8.3f\n",
            BLINK_VERSION, options->iterations, times->median_us, times->p99_us, times->min_us);
    return finish_output();
}
