/*
 * Moving the bytes of one step: dsts <- srcs combined, each operand plain or in a scratch slot with flags
 * (the formats of daemon/exec/host/slot_format.h). Three loops: vectors of 16 bytes for operands that are
 * plain and aligned alike; words of 8 bytes for LL, for the ends of vectors, and for whatever is aligned
 * otherwise; parts of lines for LL128. In all of them a thread has read its share of every source before it
 * writes it to a destination, so a destination may be a source.
 */
#ifndef BLINK_KERNELS_MOVE_CUH
#define BLINK_KERNELS_MOVE_CUH

#include "switch.cuh"

#include "blink/types.h"

/* ---- the step ---- */

/* Flags in the upper bits of an operand's address. */
#define OPERAND_FLAGGED (UINT64_C(1) << 63) /* a slot with flags */
#define OPERAND_SCALED  (UINT64_C(1) << 62) /* source: multiplied as it is read */
#define OPERAND_ADDRESS (OPERAND_SCALED - 1)

/* What the threads of a block share of the step they move. Written by some before a barrier, read by all
 * after it. */
typedef struct frame_t {
    uint64_t srcs[LANE_ABI_OPERANDS_MAX], dsts[LANE_ABI_OPERANDS_MAX], scalars[LANE_ABI_OPERANDS_MAX];
    uint64_t bytes, epoch;
    uint32_t src_count, dst_count;
    uint32_t protocol, divisor;
    uint32_t copies; /* the only source is taken as it is, every bit of it */
    lane_abi_control_t *control;
    uint64_t wait_limit_ns;
    bool leaves; /* at that limit the block leaves, and nothing has failed */
} frame_t;

LANE_SHARED frame_t frame;

/* ---- waiting ---- */

/* How far one wait has come; it begins as {0, POLLS_FIRST, 0}. */
typedef struct patience_t {
    uint32_t polls, look;
    uint64_t since_ns;
} patience_t;

/* To be called after a look in vain. Whether the wait is to end, since the host says so or it has lasted too
 * long. */
LANE_FUNCTION bool patience_ends(patience_t *patience)
{
    poll_pause(patience->look == POLLS_MOST);
    if (++patience->polls < patience->look)
        return false;
    patience->polls = 0;
    patience->look = patience->look < POLLS_MOST ? 2 * patience->look : POLLS_MOST;
    if (load_flag(&frame.control->abort) != 0)
        return true;
    uint64_t now_ns = clock_ns();
    if (patience->since_ns == 0)
        patience->since_ns = now_ns;
    if (now_ns - patience->since_ns < frame.wait_limit_ns)
        return false;
    if (!frame.leaves)
        store_flag(&frame.control->failed, 1);
    return true;
}

/* ---- words anywhere ----
 *
 * Up to 8 bytes in the lower end of a word. load_word() is the platform's.
 */

/* Where address or number are odd in several accesses, in a loop to keep the code short. */
LANE_FUNCTION void store_word(uint64_t address, uint64_t word, uint32_t bytes)
{
    if (bytes == WORD_BYTES && address % WORD_BYTES == 0) {
        *(volatile uint64_t *)address = word;
        return;
    }
    uint32_t odd = (uint32_t)address | bytes;
    uint32_t step = odd & 1 ? 1 : odd & 2 ? 2 : 4;
    LANE_ROLL
    for (uint32_t i = 0; i < bytes; i += step) {
        uint64_t to = address + i;
        if (step == 4)
            *(volatile uint32_t *)to = (uint32_t)(word >> (8 * i));
        else if (step == 2)
            *(volatile uint16_t *)to = (uint16_t)(word >> (8 * i));
        else
            *(volatile uint8_t *)to = (uint8_t)(word >> (8 * i));
    }
}

/* ---- formats ----
 *
 * A format cuts a span into pieces of WORDS words. A thread takes PIECES at once, of LOADS sources before it
 * combines them, as they lie where they come from (raw_t); half as many of bytes, which take the longest
 * code.
 */

/* What a thread moves at a time. */
typedef struct piece_t {
    uint64_t at;    /* of the payload in its span */
    uint64_t slot;  /* in a slot with flags */
    uint32_t bytes; /* of payload; may be 0 */
    bool inside;    /* has a place in slots */
    bool has_flag;  /* with the flag in the last word */
} piece_t;

/* Words of payload, and LL: two words of the slot for each. Both are written even if the payload needs only
 * one, as slots end on lines. Whoever sees the flag may overwrite the source of the data beside it: the value
 * of that load went into the store of the flag, so the load came before. */
struct words_format {
    typedef vector_t raw_t;
    enum : uint32_t { WORDS = 1, PIECES = 1, LOADS = 4, STRIDE = BLOCK_THREADS };

    /* Bytes 0 to head and tail to end of the span. */
    uint64_t head, tail, end;
    uint32_t thread;

    LANE_MEMBER uint64_t head_words(void) const
    {
        return (head + WORD_BYTES - 1) / WORD_BYTES;
    }

    /* Whether nothing is left for a thread, and so for all later ones, from this piece of the block's on. */
    LANE_MEMBER bool is_beyond(uint64_t first) const
    {
        return first + thread >= head_words() + (end - tail + WORD_BYTES - 1) / WORD_BYTES;
    }

    LANE_MEMBER piece_t piece(uint64_t first) const
    {
        uint64_t index = first + thread, words = head_words();
        bool in_head = index < words;
        uint64_t at = in_head ? index * WORD_BYTES : tail + (index - words) * WORD_BYTES;
        uint64_t left = (in_head ? head : end) - at;
        return piece_t{at, 2 * at, left < WORD_BYTES ? (uint32_t)left : WORD_BYTES, true, false};
    }

    static LANE_MEMBER raw_t load(uint64_t operand, const piece_t &piece)
    {
        if (operand & OPERAND_FLAGGED)
            return load_flagged((operand & OPERAND_ADDRESS) + piece.slot);
        return vector_t{load_word((operand & OPERAND_ADDRESS) + piece.at, piece.bytes), 0};
    }

    static LANE_MEMBER bool is_missing(const piece_t &piece, raw_t raw)
    {
        uint32_t epoch = (uint32_t)frame.epoch;
        return raw.low >> 32 != epoch || (piece.bytes > 4 && raw.high >> 32 != epoch);
    }

    static LANE_MEMBER bool any(bool mine)
    {
        return mine;
    }

    static LANE_MEMBER uint64_t word(uint64_t operand, raw_t raw, uint32_t)
    {
        return operand & OPERAND_FLAGGED ? (raw.low & UINT32_MAX) | raw.high << 32 : raw.low;
    }

    static LANE_MEMBER void store(uint64_t operand, const piece_t &piece, const uint64_t *words)
    {
        if (operand & OPERAND_FLAGGED) {
            uint64_t flag = frame.epoch << 32;
            store_flagged((operand & OPERAND_ADDRESS) + piece.slot,
                          vector_t{flag | (words[0] & UINT32_MAX), flag | words[0] >> 32});
        } else {
            store_word((operand & OPERAND_ADDRESS) + piece.at, words[0], piece.bytes);
        }
    }
};

/* Lines of LL128: LINE_THREADS neighbours move one line, and the last word of the last thread is the flag.
 * That thread calculates something in the flag's place too, which is thrown away. A warp loads and stores its
 * lines whole: therefore it meets at barriers, and all its threads stay together even where only some have a
 * line. As the store is one for all threads, all of them have read what they need before it. */
struct lines_format {
    typedef line_part_t raw_t;
    enum : uint32_t { WORDS = LINE_WORDS, PIECES = 2, LOADS = 2, STRIDE = BLOCK_THREADS / LINE_THREADS };

    uint64_t end, lines;
    uint32_t thread;

    LANE_MEMBER bool is_beyond(uint64_t first) const
    {
        return first + thread / WARP_THREADS * (WARP_THREADS / LINE_THREADS) >= lines;
    }

    LANE_MEMBER piece_t piece(uint64_t first) const
    {
        uint64_t line = first + thread / LINE_THREADS;
        uint32_t part = thread % LINE_THREADS * (LINE_BYTES / LINE_THREADS);
        uint64_t at = line * LINE_DATA_BYTES + part;
        uint64_t left = at < end ? end - at : 0;
        uint32_t most = LINE_DATA_BYTES - part;
        most = most < WORDS * WORD_BYTES ? most : WORDS * WORD_BYTES;
        return piece_t{at, line * LINE_BYTES + part, left < most ? (uint32_t)left : most, line < lines,
                       thread % LINE_THREADS == LINE_THREADS - 1};
    }

    static LANE_MEMBER uint32_t word_bytes(const piece_t &piece, uint32_t word)
    {
        if (piece.bytes <= word * WORD_BYTES)
            return 0;
        uint32_t left = piece.bytes - word * WORD_BYTES;
        return left < WORD_BYTES ? left : WORD_BYTES;
    }

    static LANE_MEMBER raw_t load(uint64_t operand, const piece_t &piece)
    {
        uint64_t address = operand & OPERAND_ADDRESS;
        line_part_t raw = {};
        if (operand & OPERAND_FLAGGED) {
            warp_barrier();
            return piece.inside ? load_line(address + piece.slot) : raw;
        }
        LANE_UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            raw.words[i] = load_word(address + piece.at + i * WORD_BYTES, word_bytes(piece, i));
        return raw;
    }

    static LANE_MEMBER bool is_missing(const piece_t &piece, const raw_t &raw)
    {
        return piece.inside && piece.has_flag && raw.words[WORDS - 1] != frame.epoch;
    }

    static LANE_MEMBER bool any(bool mine)
    {
        return warp_any(mine);
    }

    static LANE_MEMBER uint64_t word(uint64_t, const raw_t &raw, uint32_t i)
    {
        return raw.words[i];
    }

    static LANE_MEMBER void store(uint64_t operand, const piece_t &piece, const uint64_t *words)
    {
        uint64_t address = operand & OPERAND_ADDRESS;
        if (operand & OPERAND_FLAGGED) {
            line_part_t line;
            LANE_UNROLL
            for (uint32_t i = 0; i < WORDS; i++)
                line.words[i] = piece.has_flag && i == WORDS - 1 ? frame.epoch : words[i];
            warp_barrier();
            if (piece.inside)
                store_line(address + piece.slot, line);
            return;
        }
        LANE_UNROLL
        for (uint32_t i = 0; i < WORDS; i++)
            store_word(address + piece.at + i * WORD_BYTES, words[i], word_bytes(piece, i));
    }
};

/* ---- the loops ---- */

/* Memory that is copied onto itself is not written: it need not be writable. */
LANE_FUNCTION bool is_in_place(uint64_t dst)
{
    return frame.copies && dst == frame.srcs[0];
}

/* Load again until all has arrived. Returns false if the wait ended before. */
template <class format>
LANE_FUNCTION bool await_pieces(uint64_t operand, const piece_t *pieces, typename format::raw_t *raw)
{
    patience_t patience = {0, POLLS_FIRST, 0};
    while (operand & OPERAND_FLAGGED) {
        bool missing = false;
        LANE_UNROLL
        for (uint32_t p = 0; p < format::PIECES; p++)
            missing |= format::is_missing(pieces[p], raw[p]);
        if (!format::any(missing))
            return true;
        if (format::any(patience_ends(&patience)))
            return false;
        LANE_UNROLL
        for (uint32_t p = 0; p < format::PIECES; p++)
            raw[p] = format::load(operand, pieces[p]);
    }
    return true;
}

/* Add a word of a source to what it is calculated in. */
template <class reducing>
LANE_FUNCTION void add_word(typename reducing::value_t *sums, uint64_t word, uint64_t operand,
                            uint32_t source)
{
    if constexpr (reducing::ADDS) {
        if (operand & OPERAND_SCALED) {
            reducing::add_scaled(sums, word, frame.scalars[source]);
            return;
        }
    }
    reducing::add(sums, word);
}

/* One word after the other, in memory: the code is long and seldom run, and exists once for all words. */
template <class reducing, uint32_t count> LANE_FUNCTION void divide_values(typename reducing::value_t *values)
{
    typename reducing::value_t copies[count];
    LANE_UNROLL
    for (uint32_t i = 0; i < count; i++)
        copies[i] = values[i];
    LANE_ROLL
    for (uint32_t i = 0; i < count; i++)
        copies[i] = reducing::divide(copies[i], frame.divisor);
    LANE_UNROLL
    for (uint32_t i = 0; i < count; i++)
        values[i] = copies[i];
}

/* Divide the words that a thread has combined, if the run averages, and round them. */
template <class reducing, uint32_t words>
LANE_FUNCTION void end_words(typename reducing::value_t *sums, uint64_t *ended)
{
    if constexpr (reducing::ADDS) {
        if (frame.divisor > 1)
            divide_values<reducing, words * reducing::VALUES>(sums);
    }
    LANE_UNROLL
    for (uint32_t i = 0; i < words; i++)
        ended[i] = reducing::end(&sums[i * reducing::VALUES]);
}

/* Combine all sources of some pieces; `last` are the words of the last source. Returns false if a wait ended
 * before all had arrived. */
template <class reducing, class format>
LANE_FUNCTION bool gather_pieces(const piece_t *pieces, typename reducing::value_t *sums, uint64_t *last)
{
    constexpr uint32_t WORDS = format::PIECES * format::WORDS;
    constexpr uint32_t LOADS = reducing::PARTS > 2 ? format::LOADS / 2 : format::LOADS;
    LANE_UNROLL
    for (uint32_t i = 0; i < WORDS; i++)
        reducing::begin(&sums[i * reducing::VALUES]);
    LANE_ROLL
    for (uint32_t s = 0; s < frame.src_count; s += LOADS) {
        typename format::raw_t raw[LOADS][format::PIECES] = {}; /* as in gather_vectors() */
        LANE_UNROLL
        for (uint32_t i = 0; i < LOADS * format::PIECES; i++) {
            uint32_t l = i / format::PIECES, p = i % format::PIECES;
            if (s + l < frame.src_count)
                raw[l][p] = format::load(frame.srcs[s + l], pieces[p]);
        }
        LANE_UNROLL
        for (uint32_t l = 0; l < LOADS; l++) {
            if (s + l >= frame.src_count)
                continue;
            typename format::raw_t arrived[format::PIECES];
            LANE_UNROLL
            for (uint32_t p = 0; p < format::PIECES; p++)
                arrived[p] = raw[l][p];
            if (!await_pieces<format>(frame.srcs[s + l], pieces, arrived))
                return false;
            LANE_UNROLL
            for (uint32_t i = 0; i < WORDS; i++) {
                last[i] = format::word(frame.srcs[s + l], arrived[i / format::WORDS], i % format::WORDS);
                add_word<reducing>(&sums[i * reducing::VALUES], last[i], frame.srcs[s + l], s + l);
            }
        }
    }
    return true;
}

/* Write what was combined to all destinations. */
template <class format> LANE_FUNCTION void spread_pieces(const piece_t *pieces, const uint64_t *words)
{
    LANE_ROLL
    for (uint32_t d = 0; d < frame.dst_count; d++) {
        if (is_in_place(frame.dsts[d]))
            continue;
        LANE_UNROLL
        for (uint32_t p = 0; p < format::PIECES; p++)
            format::store(frame.dsts[d], pieces[p], &words[p * format::WORDS]);
    }
}

/* Returns false if a wait ended before all had arrived. */
template <class reducing, class format> LANE_FUNCTION bool move_pieces(const format &shape)
{
    LANE_ROLL
    for (uint64_t first = 0; !shape.is_beyond(first); first += format::PIECES * format::STRIDE) {
        piece_t pieces[format::PIECES];
        LANE_UNROLL
        for (uint32_t p = 0; p < format::PIECES; p++)
            pieces[p] = shape.piece(first + p * format::STRIDE);
        constexpr uint32_t WORDS = format::PIECES * format::WORDS;
        typename reducing::value_t sums[WORDS * reducing::VALUES];
        uint64_t words[WORDS] = {};
        if (!gather_pieces<reducing, format>(pieces, sums, words))
            return false;
        if (!frame.copies)
            end_words<reducing, WORDS>(sums, words);
        spread_pieces<format>(pieces, words);
    }
    return true;
}

/* Vectors that a thread combines at a time, and of how many sources it loads them before: 8 in flight, fewer
 * of bytes, where the code is long. */
template <class reducing> struct vectors_shape {
    enum : uint32_t {
        VECTORS = reducing::COPIES ? 8 : 4 / reducing::PARTS,
        LOADS = reducing::PARTS > 2 ? 4 : 8 / VECTORS,
        VALUES = 2 * reducing::VALUES /* of a vector */
    };
};

/* Combine all sources of the vectors at `at` and BLOCK_THREADS further each, as far as there are any. */
template <class reducing>
LANE_FUNCTION void gather_vectors(uint64_t at, uint64_t left, typename reducing::value_t *sums)
{
    typedef vectors_shape<reducing> shape;
    LANE_UNROLL
    for (uint32_t i = 0; i < shape::VECTORS * 2; i++)
        reducing::begin(&sums[i * reducing::VALUES]);
    LANE_ROLL
    for (uint32_t s = 0; s < frame.src_count; s += shape::LOADS) {
        /* Cleared, or the compiler would keep in registers what the previous round loaded. */
        vector_t loaded[shape::LOADS][shape::VECTORS] = {};
        LANE_UNROLL
        for (uint32_t l = 0; l < shape::LOADS; l++) {
            if (s + l < frame.src_count) {
                uint64_t address = (frame.srcs[s + l] & OPERAND_ADDRESS) + at;
                LANE_UNROLL
                for (uint32_t v = 0; v < shape::VECTORS; v++)
                    if (v * BLOCK_THREADS < left)
                        loaded[l][v] = load_vector(address + v * BLOCK_THREADS * sizeof(vector_t));
            }
        }
        LANE_UNROLL
        for (uint32_t l = 0; l < shape::LOADS; l++) {
            if (s + l < frame.src_count) {
                LANE_UNROLL
                for (uint32_t v = 0; v < shape::VECTORS; v++) {
                    typename reducing::value_t *low = &sums[v * shape::VALUES],
                                               *high = low + reducing::VALUES;
                    add_word<reducing>(low, loaded[l][v].low, frame.srcs[s + l], s + l);
                    add_word<reducing>(high, loaded[l][v].high, frame.srcs[s + l], s + l);
                }
            }
        }
    }
}

template <uint32_t vectors>
LANE_FUNCTION void spread_vectors(uint64_t at, uint64_t left, const uint64_t *words)
{
    LANE_ROLL
    for (uint32_t d = 0; d < frame.dst_count; d++) {
        uint64_t address = frame.dsts[d];
        if (is_in_place(address))
            continue;
        LANE_UNROLL
        for (uint32_t v = 0; v < vectors; v++)
            if (v * BLOCK_THREADS < left)
                store_vector(address + at + v * BLOCK_THREADS * sizeof(vector_t),
                             vector_t{words[2 * v], words[2 * v + 1]});
    }
}

/* Whether all operands are plain and lie at the same distance from the next vector. */
LANE_FUNCTION bool are_aligned_alike(void)
{
    uint64_t differences = 0;
    for (uint32_t s = 1; s < frame.src_count; s++)
        differences |= frame.srcs[s] ^ frame.srcs[0];
    for (uint32_t d = 0; d < frame.dst_count; d++)
        differences |= frame.dsts[d] ^ frame.srcs[0];
    return differences % sizeof(vector_t) == 0;
}

/* Move the vectors of plain operands that are aligned alike, and leave what is before and behind them. */
template <class reducing> LANE_FUNCTION void move_vectors(words_format *rest)
{
    typedef vectors_shape<reducing> shape;
    uint64_t head = (0 - frame.srcs[0]) % sizeof(vector_t);
    if (frame.bytes < head + sizeof(vector_t))
        return;
    uint64_t count = (frame.bytes - head) / sizeof(vector_t);
    rest->head = head;
    rest->tail = head + count * sizeof(vector_t);
    LANE_ROLL
    for (uint64_t i = rest->thread; i < count; i += shape::VECTORS * BLOCK_THREADS) {
        typename reducing::value_t sums[shape::VECTORS * shape::VALUES];
        uint64_t words[2 * shape::VECTORS];
        uint64_t at = head + i * sizeof(vector_t);
        gather_vectors<reducing>(at, count - i, sums);
        end_words<reducing, 2 * shape::VECTORS>(sums, words);
        spread_vectors<shape::VECTORS>(at, count - i, words);
    }
}

/* Move the step of the frame, whose only source and only destination are a switch's. The result is ended as
 * any other: an average is divided. */
template <class reducing> LANE_FUNCTION void move_by_switch(void)
{
    typedef typename by_switch<reducing>::unit_t unit_t;
    typedef switch_unit<unit_t> shape;
    uint64_t end = (frame.bytes + sizeof(unit_t) - 1) / sizeof(unit_t) * sizeof(unit_t);
    const uint64_t stride = BLOCK_THREADS * sizeof(unit_t);
    LANE_ROLL
    for (uint64_t at = thread_index() * sizeof(unit_t); at < end; at += shape::AT_ONCE * stride) {
        unit_t loaded[shape::AT_ONCE] = {};
        LANE_UNROLL
        for (uint32_t u = 0; u < shape::AT_ONCE; u++)
            if (at + u * stride < end)
                loaded[u] = by_switch<reducing>::load(frame.srcs[0] + at + u * stride);
        LANE_UNROLL
        for (uint32_t u = 0; u < shape::AT_ONCE; u++) {
            typename reducing::value_t sums[shape::WORDS * reducing::VALUES];
            uint64_t words[shape::WORDS];
            shape::open(loaded[u], words);
            LANE_UNROLL
            for (uint32_t w = 0; w < shape::WORDS; w++) {
                reducing::begin(&sums[w * reducing::VALUES]);
                reducing::add(&sums[w * reducing::VALUES], words[w]);
            }
            end_words<reducing, shape::WORDS>(sums, words);
            if (at + u * stride < end)
                switch_store(frame.dsts[0] + at + u * stride, shape::close(words));
        }
    }
}

/* Move the step of the frame. Returns false in a thread whose wait ended before all had arrived. */
template <class reducing> LANE_FUNCTION bool move_step(void)
{
    if (frame.protocol == BLINK_PROTOCOL_LL128)
        return move_pieces<reducing>(
            lines_format{frame.bytes, (frame.bytes + LINE_DATA_BYTES - 1) / LINE_DATA_BYTES, thread_index()});
    words_format words = {0, 0, frame.bytes, thread_index()};
    if (frame.protocol == BLINK_PROTOCOL_SIMPLE && are_aligned_alike()) {
        if (frame.copies)
            move_vectors<copying>(&words);
        else
            move_vectors<reducing>(&words);
    }
    return move_pieces<reducing>(words);
}

#endif
