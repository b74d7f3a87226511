/*
 * Blocks of NDJSON become Arrow columns.
 *
 * Belongs here: the grammar of JSON, the declared types, the rules that a row must keep, and the buffers of the columns.
 * Does not belong here: the reason of a reject. A line that is not plainly as declared leaves no trace in the columns; of
 * it the verdict is returned where it is certain, so that Python (records.py) need not read millions of bad lines.
 *
 * Plain C11 and libc, called through ctypes (native.py), which describes the columns as a tree of nodes.
 *
 * Reading never looks at the block's end: every line that is parsed in place is followed by a line feed and at least
 * PAD more bytes of the block, and the last lines are copied to where that holds. No token goes over a line feed.
 */

#define _GNU_SOURCE
#include <float.h>
#include <locale.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#if defined(__SSE2__)
#include <emmintrin.h>
#endif
#if defined(__SSE2__) && defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>
#define HAVE_AVX2_PATH 1
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Raised whenever an argument, a structure or a result changes: native.py takes no other library. */
#define VERSION 6
/* More than any fixed look ahead: a vector, a declared name, a time, a pair of surrogates. */
#define PAD 64
#define NAME_MAX_LENGTH 48
#define DEPTH_MAX 64
#define EXACT_DOUBLE 9007199254740992LL
/* The offsets of Arrow's strings are of 32 bits. */
#define BLOCK_MAX (INT32_MAX - 4096)
/* Keys of the objects that are open at once in a value that is kept as JSON; lines with more are refused. */
#define KEYS_MAX 512
/* Longer lines that break a rule are read in Python: to take their rows out of a batch, all its bodies are copied. */
#define BROKEN_MAX 4096

/* --- Arrow's C data interface ------------------------------------------------------------------------------------ */

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

/* --- What native.py hands over and gets back --------------------------------------------------------------------- */

/* Verdicts on a line, as rejected.py names them. BROKEN: it is a row of the batch, as declared, and breaks a rule. */
enum verdict { UNDECIDED, SHORT, NO_OBJECT, MISTYPED, BROKEN };
enum kind { ROUTE, STRUCT, LIST, TEXT, INTEGER, DOUBLE, WHOLE, BOOL, TIME };
enum { REQUIRED = 1, NOT_EMPTY = 2, DISCARD = 4, DEFAULT = 8, JSON = 16 };

/*
 * A place in the record: an object on the way (ROUTE), a column, or a part of a nested column. A column that does not
 * stand in the record is nobody's child. Its values, if it may have some only, are `value_count` names from `first_value`
 * on, and with DEFAULT the first of these is the one where there is none. Its sources are nodes. A TEXT with JSON holds any
 * value, byte for byte as it stands in the record.
 */
struct description {
    int32_t kind, flags, first_child, child_count, name, first_value, value_count, first_source, source_count;
};

struct name {
    int32_t at, length;
};

/* What the archive says of a column, and each row must say as well. Without a text it is a number; where `length` is below 0,
 * the greatest that a row may have. */
struct given {
    int64_t node, number, length;
    const char *text;
};

struct result {
    int64_t line_count;    /* without the blank ones */
    int64_t row_count;
    int64_t unknown_count; /* each six numbers: row, route, start and end of the key and of the value */
    const int64_t *unknown;
    int64_t row_lines_count;
    const int64_t *row_lines; /* for each row with something unknown: row, line from 0, start, end */
    int64_t left_count; /* lines that are no good rows: line from 0, rows before it, start, start and end, verdict */
    const int64_t *left_lines, *left_rows, *left_starts;
    const int32_t *left_bounds;
    const int8_t *left_verdicts;
};

/* --- Buffers ----------------------------------------------------------------------------------------------------- */

struct buffer {
    uint8_t *at;
    size_t size;
};

/* A column or a part of one. Slots below `length` are written; those that were passed over are null. */
struct builder {
    int64_t length, room, data_length, null_count;
    struct buffer valid, values, data;
};

/* The memory of one batch. The decoder and the batch each hold a reference; it is written again when `idle`. */
struct arena {
    atomic_int references, live, idle;
    int64_t keep_bytes;
    int32_t count;
    struct builder *builders;
    struct ArrowArray *arrays;
    struct ArrowArray **pointers;
    const void **buffers;
};

struct node {
    struct description is;
    const char *name;
    int32_t name_length;
    int32_t next;  /* the sibling that came after this one last time */
    int32_t first; /* the child that came first last time */
    int64_t seen;  /* the line a route was seen in */
};

struct decoder {
    struct node *nodes;
    struct name *names;
    int32_t count, column_count, rule_count, given_count, arena_count;
    int32_t *columns, *sources, *rules;
    char *texts;
    const struct given *given;
    struct arena **arenas;
    struct builder *builders;
    locale_t locale;
    int64_t row, line, keep_bytes, values_max, least_bytes;
    const uint8_t *origin; /* where the bytes lie that are parsed, and which place in the block that is */
    int64_t origin_place;
    int failed;            /* no memory */
    int mistyped;          /* a value of the line is certainly not as declared, if the line is JSON */
    int zoneless;          /* the time that was read last has no zone */
    int wide;              /* the processor has AVX2 */
    struct buffer tail;
    struct buffer unknown, row_lines, left_lines, left_rows, left_starts, left_bounds, left_verdicts;
    int64_t unknown_count, row_lines_count, left_count;
};

static int reserve(struct buffer *buffer, size_t size) {
    if (likely(size <= buffer->size)) return 1;
    size_t larger = buffer->size * 2 > size ? buffer->size * 2 : size;
    if (larger < 64) larger = 64;
    uint8_t *at = realloc(buffer->at, larger);
    if (!at) return 0;
    buffer->at = at;
    buffer->size = larger;
    return 1;
}

static void drop(struct buffer *buffer) {
    free(buffer->at);
    buffer->at = NULL;
    buffer->size = 0;
}

INLINE int64_t place_of(const struct decoder *d, const uint8_t *p) { return p - d->origin + d->origin_place; }

static int note(struct decoder *d, struct buffer *buffer, int64_t *count, const int64_t *numbers, size_t each) {
    if (!reserve(buffer, (size_t)(*count + 1) * each * sizeof *numbers)) return d->failed = 1, 0;
    memcpy(buffer->at + (size_t)*count * each * sizeof *numbers, numbers, each * sizeof *numbers);
    ++*count;
    return 1;
}

static int more_left(struct decoder *d) {
    size_t each = sizeof(int64_t), room = (size_t)d->left_count * 2 + 64;
    return reserve(&d->left_lines, room * each) && reserve(&d->left_rows, room * each) &&
           reserve(&d->left_starts, room * each) && reserve(&d->left_bounds, room * each) &&
           reserve(&d->left_verdicts, room);
}

/* The verdicts are the buffer of least bytes, and tell how much room there is. */
INLINE int note_left(struct decoder *d, int64_t line, int64_t start, int64_t end, int verdict) {
    int64_t i = d->left_count++;
    if (unlikely((size_t)i >= d->left_verdicts.size) && !more_left(d)) return d->failed = 1, 0;
    ((int64_t *)(void *)d->left_lines.at)[i] = line;
    ((int64_t *)(void *)d->left_rows.at)[i] = d->row;
    ((int64_t *)(void *)d->left_starts.at)[i] = start;
    int32_t *bounds = (int32_t *)(void *)d->left_bounds.at + 2 * i;
    bounds[0] = (int32_t)start;
    bounds[1] = (int32_t)end;
    ((int8_t *)d->left_verdicts.at)[i] = (int8_t)verdict;
    return 1;
}

INLINE void set_bit(uint8_t *bits, int64_t i) { bits[i >> 3] |= (uint8_t)(1u << (i & 7)); }
INLINE void clear_bit(uint8_t *bits, int64_t i) { bits[i >> 3] &= (uint8_t)~(1u << (i & 7)); }
INLINE int get_bit(const uint8_t *bits, int64_t i) { return bits[i >> 3] >> (i & 7) & 1; }
INLINE int32_t *offsets_of(struct builder *b) { return (int32_t *)(void *)b->values.at; }
INLINE int64_t *integers_of(struct builder *b) { return (int64_t *)(void *)b->values.at; }
INLINE double *doubles_of(struct builder *b) { return (double *)(void *)b->values.at; }

static int grow(struct decoder *d, struct builder *b, int kind, int64_t wanted) {
    int64_t room = b->room * 2 > wanted ? b->room * 2 : wanted;
    if (room < 256) room = 256;
    room = (room + 7) & ~(int64_t)7;
    size_t bits = (size_t)room >> 3, old = b->valid.size, size = 0;
    if (!reserve(&b->valid, bits)) return d->failed = 1, 0;
    memset(b->valid.at + old, 0, b->valid.size - old);
    switch (kind) {
    case TEXT:
    case LIST: size = (size_t)(room + 1) * sizeof(int32_t); break;
    case BOOL: size = bits; break;
    case STRUCT: break;
    default: size = (size_t)room * sizeof(int64_t);
    }
    old = b->values.size;
    if (!reserve(&b->values, size)) return d->failed = 1, 0;
    if (kind == BOOL) memset(b->values.at + old, 0, b->values.size - old);
    else if (!old && b->values.size) memset(b->values.at, 0, sizeof(int64_t));
    b->room = room;
    return 1;
}

/* The next slot is null. */
INLINE void put_null(struct builder *b, int kind) {
    int64_t i = b->length++;
    clear_bit(b->valid.at, i);
    switch (kind) {
    case TEXT:
    case LIST: offsets_of(b)[i + 1] = (int32_t)b->data_length; break;
    case BOOL: clear_bit(b->values.at, i); break;
    case STRUCT: break;
    default: integers_of(b)[i] = 0;
    }
}

/* Make slot `i` the last one; it is for the caller to write. 0 if it was written before: a key that stands twice. */
INLINE int slot(struct decoder *d, struct builder *b, int kind, int64_t i) {
    if (unlikely(b->length > i)) return 0;
    if (unlikely(i >= b->room) && !grow(d, b, kind, i + 1)) return 0;
    while (b->length < i) put_null(b, kind);
    b->length = i + 1;
    return 1;
}

/* For lists, `data_length` is the number of elements that whole slots hold. */
static void cut(struct decoder *d, int32_t n, int64_t length) {
    struct node *node = &d->nodes[n];
    struct builder *b = &d->builders[n];
    if (b->length <= length) return;
    b->length = length;
    int32_t child = node->is.first_child;
    switch (node->is.kind) {
    case TEXT: b->data_length = offsets_of(b)[length]; break;
    case LIST:
        b->data_length = offsets_of(b)[length];
        cut(d, child, b->data_length);
        break;
    case STRUCT:
        for (int32_t k = 0; k < node->is.child_count; k++) cut(d, child + k, length);
        break;
    default: break;
    }
}

static int complete(struct decoder *d, int32_t n, int64_t length) {
    struct node *node = &d->nodes[n];
    struct builder *b = &d->builders[n];
    int kind = node->is.kind;
    if (b->room < length + 1 && !grow(d, b, kind, length + 1)) return 0;
    while (b->length < length) put_null(b, kind);
    int64_t valid = 0;
    for (int64_t i = 0; i < length >> 3; i++) valid += __builtin_popcount(b->valid.at[i]);
    if (length & 7) valid += __builtin_popcount(b->valid.at[length >> 3] & ((1u << (length & 7)) - 1));
    b->null_count = length - valid;
    if (kind == LIST) return complete(d, node->is.first_child, b->data_length);
    if (kind == STRUCT)
        for (int32_t k = 0; k < node->is.child_count; k++)
            if (!complete(d, node->is.first_child + k, length)) return 0;
    return 1;
}

/* --- Text -------------------------------------------------------------------------------------------------------- */

static const int8_t HEX[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};
static const uint8_t ESCAPED[256] = {
    ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t',
};

/* The number of four hexadecimal digits, or one below 0. */
INLINE int32_t hex4(const uint8_t *p) {
    int32_t a = HEX[p[0]] - 1, b = HEX[p[1]] - 1, c = HEX[p[2]] - 1, e = HEX[p[3]] - 1;
    return (int32_t)((uint32_t)a << 12 | (uint32_t)b << 8 | (uint32_t)c << 4 | (uint32_t)e);
}

/* Decode the escape at `p`. Behind it, or NULL. */
INLINE const uint8_t *unescape(const uint8_t *p, uint8_t **to) {
    uint8_t *out = *to;
    if (likely(p[1] == 'u')) {
        int32_t code = hex4(p + 2);
        p += 6;
        if (likely((uint32_t)code < 0x80)) {
            *out++ = (uint8_t)code;
        } else if (code < 0) {
            return NULL;
        } else if (code < 0x800) {
            *out++ = (uint8_t)(0xC0 | code >> 6);
            *out++ = (uint8_t)(0x80 | (code & 0x3F));
        } else if (code < 0xD800 || code > 0xDFFF) {
            *out++ = (uint8_t)(0xE0 | code >> 12);
            *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
            *out++ = (uint8_t)(0x80 | (code & 0x3F));
        } else {
            if (code > 0xDBFF || p[0] != '\\' || p[1] != 'u') return NULL;
            int32_t low = hex4(p + 2);
            if (low < 0xDC00 || low > 0xDFFF) return NULL;
            p += 6;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            *out++ = (uint8_t)(0xF0 | code >> 18);
            *out++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
            *out++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
            *out++ = (uint8_t)(0x80 | (code & 0x3F));
        }
    } else {
        uint8_t plain = ESCAPED[p[1]];
        if (!plain) return NULL;
        *out++ = plain;
        p += 2;
    }
    *to = out;
    return p;
}

/* Whether the bytes are UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF. */
static int valid_utf8(const uint8_t *p, const uint8_t *end) {
    while (p < end) {
        uint64_t eight;
        while (end - p >= 8 && (memcpy(&eight, p, 8), !(eight & 0x8080808080808080u))) p += 8;
        while (p < end && *p < 0x80) p++;
        while (p < end && *p >= 0x80) {
            ptrdiff_t left = end - p;
            uint8_t lead = *p;
            if (lead >= 0xC2 && lead < 0xE0) {
                if (left < 2 || (p[1] & 0xC0) != 0x80) return 0;
                p += 2;
            } else if ((lead & 0xF0) == 0xE0) {
                if (left < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) return 0;
                if ((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F)) return 0;
                p += 3;
            } else if (lead >= 0xF0 && lead < 0xF5) {
                if (left < 4 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) return 0;
                if ((lead == 0xF0 && p[1] < 0x90) || (lead == 0xF4 && p[1] > 0x8F)) return 0;
                p += 4;
            } else {
                return 0;
            }
        }
    }
    return 1;
}

/* Room for one more vector behind `*out`. */
static int more_room(struct decoder *d, struct builder *b, uint8_t **out, uint8_t **limit) {
    size_t used = b->data.at ? (size_t)(*out - b->data.at) : 0;
    if (!reserve(&b->data, used + 2 * PAD)) return d->failed = 1, 0;
    *out = b->data.at + used;
    *limit = b->data.at + b->data.size - PAD;
    return 1;
}

/*
 * The text whose opening quote stands before `p`, decoded behind the builder's data; `*length` is its length there.
 * Behind the closing quote, or NULL.
 *
 * A vector is copied before it is known where in it something stops the copying: what is too much is written over.
 */
#define TEXT_LOOP(VECTOR, WIDTH, LOAD, STORE, STOPS, SEEN)                                                             \
    uint8_t *out = b->data.at ? b->data.at + b->data_length : NULL;                                                    \
    uint8_t *limit = b->data.at ? b->data.at + b->data.size - PAD : NULL;                                              \
    for (;;) {                                                                                                         \
        if (unlikely(!out || out > limit) && !more_room(d, b, &out, &limit)) return NULL;                              \
        VECTOR v = LOAD(p);                                                                                            \
        STORE(out, v);                                                                                                 \
        SEEN;                                                                                                          \
        uint32_t stops = STOPS(v);                                                                                     \
        const uint8_t *next = p + WIDTH;                                                                               \
        while (stops) {                                                                                                \
            const uint8_t *stop = next - WIDTH + __builtin_ctz(stops);                                                 \
            out += stop - p;                                                                                           \
            p = stop;                                                                                                  \
            if (likely(*p == '\\')) {                                                                                  \
                p = unescape(p, &out);                                                                                 \
                if (unlikely(!p)) return NULL;                                                                         \
                if (p >= next) break;                                                                                  \
                STORE(out, LOAD(p));                                                                                   \
                stops &= ~0u << (p - (next - WIDTH));                                                                  \
            } else if (likely(*p == '"')) {                                                                            \
                goto whole;                                                                                            \
            } else {                                                                                                   \
                return NULL;                                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        if (p < next) {                                                                                                \
            out += next - p;                                                                                           \
            p = next;                                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
whole:;                                                                                                                \
    uint8_t *start = b->data.at + b->data_length;

#if defined(HAVE_AVX2_PATH)
#define AVX2 __attribute__((target("avx2")))
#define LOAD32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE32(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define STOPS32(v)                                                                                                     \
    (uint32_t)_mm256_movemask_epi8(_mm256_or_si256(                                                                    \
        _mm256_or_si256(_mm256_cmpeq_epi8(v, quote), _mm256_cmpeq_epi8(v, backslash)),                                 \
        _mm256_cmpeq_epi8(_mm256_min_epu8(v, control), v)))

AVX2 static const uint8_t *text_32(struct decoder *d, struct builder *b, const uint8_t *p, int64_t *length) {
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\'), control = _mm256_set1_epi8(0x1F);
    __m256i seen = _mm256_setzero_si256();
    TEXT_LOOP(__m256i, 32, LOAD32, STORE32, STOPS32, seen = _mm256_or_si256(seen, v))
    if (_mm256_movemask_epi8(seen) && !valid_utf8(start, out)) return NULL;
    *length = out - start;
    return p + 1;
}
#endif

#if defined(__SSE2__)
#define LOAD16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE16(p, v) _mm_storeu_si128((__m128i *)(void *)(p), v)
#define STOPS16(v)                                                                                                     \
    (uint32_t)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),     \
                                             _mm_cmpeq_epi8(_mm_min_epu8(v, control), v)))

static const uint8_t *text_16(struct decoder *d, struct builder *b, const uint8_t *p, int64_t *length) {
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    __m128i seen = _mm_setzero_si128();
    TEXT_LOOP(__m128i, 16, LOAD16, STORE16, STOPS16, seen = _mm_or_si128(seen, v))
    if (_mm_movemask_epi8(seen) && !valid_utf8(start, out)) return NULL;
    *length = out - start;
    return p + 1;
}
#else
/* Eight bytes in a word: a bit for each byte that stops the copying. Bits above the lowest may be wrong. */
INLINE uint64_t load_8(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

static const uint8_t *text_16(struct decoder *d, struct builder *b, const uint8_t *p, int64_t *length) {
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    uint64_t seen = 0;
    uint8_t *out = b->data.at ? b->data.at + b->data_length : NULL;
    uint8_t *limit = b->data.at ? b->data.at + b->data.size - PAD : NULL;
    for (;;) {
        if (unlikely(!out || out > limit) && !more_room(d, b, &out, &limit)) return NULL;
        uint64_t v = load_8(p), quote = v ^ ones * '"', backslash = v ^ ones * '\\';
        memcpy(out, p, 8);
        seen |= v;
        uint64_t stops = (((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | ((v - ones * 0x20) & ~v)) & tops;
        if (!stops) {
            p += 8;
            out += 8;
            continue;
        }
        int at = __builtin_ctzll(stops) >> 3;
        p += at;
        out += at;
        if (*p == '\\') {
            p = unescape(p, &out);
            if (unlikely(!p)) return NULL;
        } else if (likely(*p == '"')) {
            break;
        } else {
            return NULL;
        }
    }
    uint8_t *start = b->data.at + b->data_length;
    if ((seen & tops) && !valid_utf8(start, out)) return NULL;
    *length = out - start;
    return p + 1;
}
#endif

INLINE const uint8_t *text(struct decoder *d, struct builder *b, const uint8_t *p, int64_t *length) {
#if defined(HAVE_AVX2_PATH)
    if (d->wide) return text_32(d, b, p, length);
#endif
    return text_16(d, b, p, length);
}

/* --- Other values ------------------------------------------------------------------------------------------------ */

INLINE const uint8_t *space(const uint8_t *p) {
    while (unlikely(*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p;
}

INLINE int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

INLINE int is_null(const uint8_t *p) { return *p == 'n' && !memcmp(p, "null", 4); }

/* A whole number without fraction or exponent, between -2^63 and 2^63 - 1. Not -0, which is a number of its own. */
static const uint8_t *integer(const uint8_t *p, int64_t *value) {
    int negative = *p == '-';
    p += negative;
    const uint8_t *start = p;
    uint64_t number = 0;
    while (is_digit(*p) && p - start < 19) number = number * 10 + (uint64_t)(*p++ - '0');
    ptrdiff_t digits = p - start;
    if (!digits || is_digit(*p) || *p == '.' || *p == 'e' || *p == 'E') return NULL;
    if (*start == '0' && (digits > 1 || negative)) return NULL;
    if (number > (uint64_t)INT64_MAX + (uint64_t)negative) return NULL;
    *value = negative ? (int64_t)(0 - number) : (int64_t)number;
    return p;
}

static const uint8_t *number(struct decoder *d, const uint8_t *p, double *value) {
    static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const uint8_t *start = p;
    int negative = *p == '-';
    p += negative;
    uint64_t mantissa = 0;
    int digits = 0, fraction = 0;
    if (!is_digit(*p) || (*p == '0' && is_digit(p[1]))) return NULL;
    for (; is_digit(*p); p++, digits++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    if (*p == '.') {
        if (!is_digit(*++p)) return NULL;
        for (; is_digit(*p); p++, digits++, fraction++) mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    }
    int plain = digits <= 18 && FLT_EVAL_METHOD == 0;
    if (*p == 'e' || *p == 'E') {
        plain = 0;
        p++;
        p += *p == '+' || *p == '-';
        if (!is_digit(*p)) return NULL;
        while (is_digit(*p)) p++;
    }
    if (plain && mantissa <= (uint64_t)EXACT_DOUBLE && fraction <= 22) { /* both exact, so one rounding, as it must be */
        double exact = (double)mantissa / TENS[fraction];
        *value = negative ? -exact : exact;
        return p;
    }
    char copy[400];
    size_t length = (size_t)(p - start);
    if (length >= sizeof copy) return NULL;
    memcpy(copy, start, length);
    copy[length] = 0;
    *value = strtod_l(copy, NULL, d->locale);
    if (*value == 0) /* what no double can tell from zero */
        for (const char *c = copy; *c && *c != 'e' && *c != 'E'; c++)
            if (*c >= '1' && *c <= '9') return NULL;
    return *value - *value == 0 ? p : NULL; /* not infinite */
}

INLINE int two(const uint8_t *p) {
    return is_digit(p[0]) && is_digit(p[1]) ? (p[0] - '0') * 10 + (p[1] - '0') : -1;
}

INLINE int is_day(int year, int month, int day) {
    static const uint8_t DAYS[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month >= 1 && month <= 12 && day >= 1 && day <= DAYS[month] + (month == 2 && leap);
}

/* YYYY-MM-DDTHH:MM:SS, up to six digits of a second, Z or no zone; microseconds since 1970. */
static const uint8_t *moment(const uint8_t *p, int64_t *value, int *zoneless) {
    if (*p != '"') return NULL;
    p++;
    int century = two(p), year = two(p + 2), month = two(p + 5), day = two(p + 8);
    int hour = two(p + 11), minute = two(p + 14), second = two(p + 17);
    if ((century | year | month | day | hour | minute | second) < 0) return NULL;
    if (p[4] != '-' || p[7] != '-' || p[10] != 'T' || p[13] != ':' || p[16] != ':') return NULL;
    year += century * 100;
    if (!year || !is_day(year, month, day) || hour > 23 || minute > 59 || second > 59) return NULL;
    p += 19;
    int64_t micros = 0;
    if (*p == '.') {
        int count = 0;
        for (p++; is_digit(*p) && count < 6; count++) micros = micros * 10 + (*p++ - '0');
        if (!count) return NULL;
        for (; count < 6; count++) micros *= 10;
    }
    *zoneless = *p == '"';
    p += *p == 'Z';
    if (*p != '"') return NULL;
    /* days since 1970, with years that begin in March */
    int shifted = year - (month <= 2);
    int64_t days = (int64_t)shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 +
                   (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 719469;
    *value = ((days * 24 + hour) * 60 + minute) * 60000000LL + second * 1000000LL + micros;
    return p + 1;
}

/* --- Objects and lists ------------------------------------------------------------------------------------------- */

/* The first quote, backslash or control character; there is one before the end of every block. */
INLINE const uint8_t *text_stop(const uint8_t *p) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    uint32_t stops;
    while (!(stops = STOPS16(LOAD16(p)))) p += 16;
    p += __builtin_ctz(stops);
#else
    while (*p != '"' && *p != '\\' && *p >= 0x20) p++;
#endif
    return p;
}

/* Behind the string whose opening quote stands before `p`; its inside is looked at by whoever reads the value. */
static const uint8_t *skip_text(const uint8_t *p) {
    for (;;) {
        p = text_stop(p);
        if (*p == '"') return p + 1;
        if (*p != '\\' || p[1] < 0x20) return NULL;
        p += 2;
    }
}

/* Behind a value that nothing is declared for. Whether it is JSON is for its reader to say. */
static const uint8_t *skip(const uint8_t *p) {
    int depth = 0;
    const uint8_t *start = p;
    for (;;) {
        switch (*p) {
        case '"':
            p = skip_text(p + 1);
            if (!p || !depth) return p;
            continue;
        case '{':
        case '[':
            if (++depth > DEPTH_MAX) return NULL;
            break;
        case '}':
        case ']':
            if (!depth) return p == start ? NULL : p;
            if (!--depth) return p + 1;
            break;
        case ',':
        case ' ':
        case '\t':
        case '\r':
            if (!depth) return p == start ? NULL : p;
            break;
        default:
            if (*p < 0x20) return NULL;
        }
        p++;
    }
}

/* What `strict_value` found: `unsure` where the value is not plain and was not read to its end, `half` a surrogate pair. */
struct findings {
    int unsure, half;
};

/* Behind the string whose opening quote stands before `p`, if its escapes are those of JSON; `*plain` if it has none. */
static const uint8_t *strict_text(const uint8_t *p, int *plain, struct findings *found) {
    *plain = 1;
    for (;;) {
        p = text_stop(p);
        if (*p == '"') return p + 1;
        if (*p != '\\') return NULL;
        *plain = 0;
        uint8_t out[8], *to = out;
        const uint8_t *behind = unescape(p, &to);
        if (!behind) {
            int32_t code = p[1] == 'u' ? hex4(p + 2) : -1;
            if (code < 0xD800 || code > 0xDFFF) return NULL;
            found->half = 1;
            behind = p + 6;
        }
        p = behind;
    }
}

static const uint8_t *strict_number(const uint8_t *p) {
    p += *p == '-';
    if (!is_digit(*p) || (*p == '0' && is_digit(p[1]))) return NULL;
    while (is_digit(*p)) p++;
    if (*p == '.') {
        if (!is_digit(*++p)) return NULL;
        while (is_digit(*p)) p++;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '+' || *p == '-';
        if (!is_digit(*p)) return NULL;
        while (is_digit(*p)) p++;
    }
    return p;
}

struct key {
    const uint8_t *at;
    ptrdiff_t length;
};

/*
 * Behind the value at `p` if it is JSON, with no key twice in an object; NULL if it is not, or not plainly: nested deeply,
 * with keys that are many or written with escapes. Whether it is UTF-8 is for the caller to see.
 */
static const uint8_t *strict_value(const uint8_t *p, struct findings *found) {
    struct key keys[KEYS_MAX];
    int32_t first[DEPTH_MAX]; /* the keys of each open object begin there; -1: a list */
    int32_t depth = 0, count = 0;
    for (;;) {
        int plain;
        p = space(p);
        switch (*p) {
        case '{':
        case '[':
            if (depth == DEPTH_MAX) return found->unsure = 1, NULL;
            first[depth++] = *p == '{' ? count : -1;
            p = space(p + 1);
            if (*p == (first[depth - 1] < 0 ? ']' : '}')) {
                p++;
                depth--;
                break;
            }
            if (first[depth - 1] < 0) continue;
            goto key;
        case '"':
            if (!(p = strict_text(p + 1, &plain, found))) return NULL;
            break;
        case 't':
            if (memcmp(p, "true", 4)) return NULL;
            p += 4;
            break;
        case 'f':
            if (memcmp(p, "false", 5)) return NULL;
            p += 5;
            break;
        case 'n':
            if (!is_null(p)) return NULL;
            p += 4;
            break;
        default:
            if (!(p = strict_number(p))) return NULL;
        }
        for (;;) { /* behind a value */
            if (!depth) return p;
            p = space(p);
            if (*p == ',') break;
            if (*p != (first[depth - 1] < 0 ? ']' : '}')) return NULL;
            if (first[--depth] >= 0) count = first[depth];
            p++;
        }
        p = space(p + 1);
        if (first[depth - 1] < 0) continue;
    key:
        if (*p != '"') return NULL;
        if (count == KEYS_MAX) return found->unsure = 1, NULL;
        struct key *key = &keys[count];
        key->at = p + 1;
        if (!(p = strict_text(p + 1, &plain, found))) return NULL;
        if (!plain) return found->unsure = 1, NULL;
        key->length = p - 1 - key->at;
        for (int32_t k = first[depth - 1]; k < count; k++)
            if (keys[k].length == key->length && !memcmp(keys[k].at, key->at, (size_t)key->length)) return NULL;
        count++;
        p = space(p);
        if (*p != ':') return NULL;
        p++;
    }
}

/* The value at `p`, as it is written, behind the builder's data. */
static const uint8_t *json(struct decoder *d, struct builder *b, const uint8_t *p, int64_t *length) {
    struct findings found = {0, 0};
    const uint8_t *end = strict_value(p, &found);
    if (!end || found.half || !valid_utf8(p, end)) return NULL;
    *length = end - p;
    if (!reserve(&b->data, (size_t)(b->data_length + *length) + PAD)) return d->failed = 1, NULL;
    memcpy(b->data.at + b->data_length, p, (size_t)*length);
    return end;
}

/* How many values a line of JSON holds, as examine.py counts them: commas and opening brackets, outside of texts. */
static int64_t values_in(const uint8_t *p, const uint8_t *end) {
    int64_t count = 0;
    while (p && p < end) {
        if (*p == '"') {
            p = skip_text(p + 1);
            continue;
        }
        count += *p == ',' || *p == '[' || *p == '{';
        p++;
    }
    return count;
}

/* The child of `n` that the key at `p` (behind its opening quote) names, -1 if none; `*behind` its closing quote. */
INLINE int32_t child_of(struct decoder *d, int32_t n, int32_t *guess, const uint8_t *p, const uint8_t **behind) {
    struct node *nodes = d->nodes;
    if (likely(*guess >= 0)) {
        struct node *node = &nodes[*guess];
        int32_t length = node->name_length;
        if (likely(p[length] == '"' && !memcmp(p, node->name, (size_t)length))) {
            *behind = p + length;
            return *guess;
        }
    }
    const uint8_t *end = p;
    while (*end != '"') {
        if (*end == '\\' || *end < 0x20) return *behind = NULL, -1;
        end++;
    }
    *behind = end;
    int32_t first = nodes[n].is.first_child, last = first + nodes[n].is.child_count;
    ptrdiff_t length = end - p;
    for (int32_t child = first; child < last; child++) {
        if (nodes[child].name_length == length && !memcmp(nodes[child].name, p, (size_t)length)) {
            *guess = child;
            return child;
        }
    }
    return -1;
}

static const uint8_t *value(struct decoder *d, const uint8_t *p, int32_t n, int64_t i);

/* Whether a text (behind its quote) is certainly no time in any of the forms that examine.py knows. */
static int is_no_time(const uint8_t *p) {
    const uint8_t *end = text_stop(p);
    if (*end != '"') return 0; /* written with escapes, or no text */
    ptrdiff_t length = end - p;
    if (length < 10 || p[4] != '-' || p[7] != '-') return 1;
    int century = two(p), year = two(p + 2), month = two(p + 5), day = two(p + 8);
    if ((century | year | month | day) < 0 || !is_day(century * 100 + year, month, day)) return 1;
    if (length == 10 || p[10] == 'Z' || p[10] == '+' || p[10] == '-') return 0;
    if ((p[10] != 'T' && p[10] != ' ') || length < 13 || two(p + 11) < 0 || two(p + 11) > 24) return 1;
    if (p[13] != ':') return 0;
    if (length < 16 || two(p + 14) < 0 || two(p + 14) > 59) return 1;
    if (p[16] != ':') return 0;
    if (length < 19 || two(p + 17) < 0 || two(p + 17) > 59) return 1;
    p += 19;
    if (*p == '.') {
        int count = 0;
        for (p++; is_digit(*p); p++) count++;
        if (!count || count > 6) return 1;
    }
    return *p == 'Z' ? p + 1 != end : *p != '"' && *p != '+' && *p != '-';
}

/* Whether the value at `p`, which was not read, is certainly not as declared, if it is JSON. */
static int is_other(struct decoder *d, const struct node *node, const uint8_t *p) {
    int kind = node->is.kind;
    double number_there;
    struct findings found = {0, 0};
    const uint8_t *end;
    switch (kind) {
    case TEXT: return !(node->is.flags & JSON) && *p != '"';
    case TIME: return *p != '"' || is_no_time(p + 1);
    case BOOL: return *p != 't' && *p != 'f';
    case STRUCT:
    case ROUTE: return *p != '{';
    case LIST: return *p != '[';
    default: break;
    }
    if (*p != '-' && !is_digit(*p)) return 1;
    if (!(end = strict_value(p, &found))) return 0;
    if (kind == INTEGER) return end - p != 2 || memcmp(p, "-0", 2);
    if (kind == DOUBLE) return end - p < 400; /* it is beyond every double, or none can tell it from zero */
    if (!number(d, p, &number_there)) return 0;
    if (number_there >= (double)EXACT_DOUBLE || number_there <= -(double)EXACT_DOUBLE) return 1;
    return number_there != (double)(int64_t)number_there;
}

/* A field that goes beyond the declaration, in an object on the way. */
static int note_unknown(struct decoder *d, int32_t n, const uint8_t *key, const uint8_t *key_end, const uint8_t *start,
                        const uint8_t *end) {
    d->zoneless = 0;
    if (d->nodes[n].is.kind != ROUTE || d->unknown_count >= d->values_max) return 0;
    int64_t found[] = {d->row, n, place_of(d, key), place_of(d, key_end), place_of(d, start), place_of(d, end)};
    return note(d, &d->unknown, &d->unknown_count, found, 6);
}

/* The members of an object, from behind its brace. Columns of a route stand in slot `i`, as fields of a struct do. */
static const uint8_t *members(struct decoder *d, const uint8_t *p, int32_t n, int64_t i) {
    int32_t *guess = &d->nodes[n].first;
    p = space(p);
    if (*p == '}') return p + 1;
    for (;;) {
        if (unlikely(*p != '"')) return NULL;
        const uint8_t *key = p + 1;
        int32_t child = child_of(d, n, guess, key, &p);
        if (unlikely(!p)) return NULL;
        const uint8_t *key_end = p;
        p = space(p + 1);
        if (unlikely(*p != ':')) return NULL;
        p = space(p + 1);
        if (likely(child >= 0)) {
            const uint8_t *start = p;
            p = value(d, p, child, i);
            if (unlikely(!p)) return d->mistyped |= is_other(d, &d->nodes[child], start), NULL;
            if (unlikely(d->zoneless) && !note_unknown(d, n, key, key_end, start, p)) return NULL;
            guess = &d->nodes[child].next;
        } else {
            const uint8_t *start = p;
            p = skip(p);
            if (!p || !note_unknown(d, n, key, key_end, start, p)) return NULL;
        }
        p = space(p);
        if (likely(*p == ',')) {
            p = space(p + 1);
            continue;
        }
        return *p == '}' ? p + 1 : NULL;
    }
}

static const uint8_t *elements(struct decoder *d, const uint8_t *p, int32_t n, int64_t *count) {
    int32_t child = d->nodes[n].is.first_child;
    p = space(p);
    if (*p == ']') return p + 1;
    for (;;) {
        const uint8_t *start = p;
        p = value(d, p, child, (*count)++);
        if (unlikely(!p)) return d->mistyped |= is_other(d, &d->nodes[child], start), NULL;
        if (unlikely(d->zoneless)) return NULL;
        p = space(p);
        if (*p == ',') {
            p = space(p + 1);
            continue;
        }
        return *p == ']' ? p + 1 : NULL;
    }
}

/* The value at `p` into slot `i` of node `n`. Behind it, or NULL where it is not plainly as declared. */
static const uint8_t *value(struct decoder *d, const uint8_t *p, int32_t n, int64_t i) {
    struct node *node = &d->nodes[n];
    struct builder *b = &d->builders[n];
    int kind = node->is.kind;
    if (kind == ROUTE) {
        if (node->seen == d->line) return NULL;
        node->seen = d->line;
        if (*p == '{') return members(d, p + 1, n, i);
        return is_null(p) ? p + 4 : NULL;
    }
    if (unlikely(!slot(d, b, kind, i))) return NULL;
    if (is_null(p)) {
        b->length--;
        put_null(b, kind);
        return p + 4;
    }
    switch (kind) {
    case TEXT: {
        int64_t length;
        if (node->is.flags & JSON) {
            if (!(p = json(d, b, p, &length))) return NULL;
        } else if (*p != '"' || !(p = text(d, b, p + 1, &length))) {
            return NULL;
        }
        if (unlikely(node->is.flags & DISCARD)) {
            b->length--;
            put_null(b, kind);
            return p;
        }
        b->data_length += length;
        if (unlikely(b->data_length > BLOCK_MAX)) return NULL;
        offsets_of(b)[i + 1] = (int32_t)b->data_length;
        break;
    }
    case INTEGER:
        if (!(p = integer(p, &integers_of(b)[i]))) return NULL;
        break;
    case WHOLE:
        if (!(p = integer(p, &integers_of(b)[i]))) return NULL;
        if (integers_of(b)[i] >= EXACT_DOUBLE || integers_of(b)[i] <= -EXACT_DOUBLE) return NULL;
        break;
    case DOUBLE:
        if (!(p = number(d, p, &doubles_of(b)[i]))) return NULL;
        break;
    case TIME:
        if (!(p = moment(p, &integers_of(b)[i], &d->zoneless))) return NULL;
        break;
    case BOOL:
        if (!memcmp(p, "true", 4)) {
            set_bit(b->values.at, i);
            p += 4;
        } else if (!memcmp(p, "false", 5)) {
            clear_bit(b->values.at, i);
            p += 5;
        } else {
            return NULL;
        }
        break;
    case STRUCT:
        if (*p != '{' || !(p = members(d, p + 1, n, i))) return NULL;
        break;
    case LIST: {
        int64_t count = b->data_length;
        if (*p != '[' || !(p = elements(d, p + 1, n, &count))) return NULL;
        b->data_length = count;
        offsets_of(b)[i + 1] = (int32_t)count;
        break;
    }
    default: return NULL;
    }
    set_bit(b->valid.at, i);
    return p;
}

/* --- Rows -------------------------------------------------------------------------------------------------------- */

INLINE int is_there(const struct builder *b, int64_t row) { return b->length > row && get_bit(b->valid.at, row); }

INLINE const char *text_at(struct builder *b, int64_t row, int64_t *length) {
    *length = offsets_of(b)[row + 1] - offsets_of(b)[row];
    return (const char *)b->data.at + offsets_of(b)[row];
}

static int put_text(struct decoder *d, struct builder *b, int64_t row, const char *text, int64_t length) {
    if (b->length <= row && !slot(d, b, TEXT, row)) return 0;
    if (!reserve(&b->data, (size_t)(b->data_length + length) + PAD)) return d->failed = 1, 0;
    memcpy(b->data.at + b->data_length, text, (size_t)length);
    b->data_length += length;
    if (b->data_length > BLOCK_MAX) return 0;
    offsets_of(b)[row + 1] = (int32_t)b->data_length;
    set_bit(b->valid.at, row);
    return 1;
}

/* The first of its sources that is there gives a column its value. */
static int put_first(struct decoder *d, const struct node *node, struct builder *b, int64_t row) {
    for (int32_t k = 0; k < node->is.source_count; k++) {
        struct builder *from = &d->builders[d->sources[node->is.first_source + k]];
        if (!is_there(from, row)) continue;
        if (node->is.kind == TEXT) {
            int64_t length;
            const char *text = text_at(from, row, &length);
            return put_text(d, b, row, text, length);
        }
        if (!slot(d, b, node->is.kind, row)) return 0;
        if (node->is.kind != BOOL) integers_of(b)[row] = integers_of(from)[row];
        else if (get_bit(from->values.at, row)) set_bit(b->values.at, row);
        else clear_bit(b->values.at, row);
        set_bit(b->valid.at, row);
        return 1;
    }
    return 1;
}

static int is_known(const struct decoder *d, const struct node *node, const char *text, int64_t length) {
    for (int32_t k = 0; k < node->is.value_count; k++) {
        const struct name *known = &d->names[node->is.first_value + k];
        if (known->length == length && !memcmp(d->texts + known->at, text, (size_t)length)) return 1;
    }
    return 0;
}

/*
 * The columns that follow from others, and whether the row breaks a rule; -1 where it cannot be a row. Those with sources
 * come behind all others.
 */
static int finish_row(struct decoder *d) {
    int64_t row = d->row, length;
    int broken = 0;
    for (int32_t k = 0; k < d->rule_count; k++) {
        const struct node *node = &d->nodes[d->rules[k]];
        struct builder *b = &d->builders[d->rules[k]];
        int flags = node->is.flags;
        if (node->is.source_count && !put_first(d, node, b, row)) return -1;
        if (!is_there(b, row)) {
            const struct name *first = &d->names[node->is.first_value];
            if (flags & DEFAULT && !put_text(d, b, row, d->texts + first->at, first->length)) return -1;
            broken |= !(flags & DEFAULT) && flags & REQUIRED;
            continue;
        }
        if (node->is.kind != TEXT) continue;
        const char *text = text_at(b, row, &length);
        broken |= flags & NOT_EMPTY && !length;
        broken |= node->is.value_count && !is_known(d, node, text, length);
    }
    for (int32_t k = 0; k < d->given_count; k++) {
        const struct given *given = &d->given[k];
        struct builder *b = &d->builders[given->node];
        if (!is_there(b, row)) continue;
        if (!given->text) {
            int64_t number = integers_of(b)[row];
            broken |= given->length < 0 ? number > given->number : number != given->number;
            continue;
        }
        const char *text = text_at(b, row, &length);
        broken |= length != given->length || memcmp(text, given->text, (size_t)length);
    }
    return broken;
}

/* The verdict on a line: `otherwise` where it is one object without a fault, UNDECIDED where that is not certain. */
static int verdict_on(struct decoder *d, const uint8_t *start, const uint8_t *end, int otherwise) {
    static const uint8_t MARK[] = {0xEF, 0xBB, 0xBF};
    struct findings found = {0, 0};
    if (end - start > d->values_max || !memcmp(start, MARK, sizeof MARK)) return UNDECIDED;
    if (!valid_utf8(start, end)) return NO_OBJECT;
    const uint8_t *p = space(start);
    int is_object = *p == '{';
    p = strict_value(p, &found);
    if (found.unsure) return UNDECIDED;
    if (!p || space(p) != end || !is_object) return NO_OBJECT;
    return d->mistyped || found.half ? MISTYPED : otherwise;
}

/* One line that is not blank: a row, or left to others. Its end is looked for only where it is no row. */
static const uint8_t *line(struct decoder *d, const uint8_t *p, int64_t number, const uint8_t *end) {
    int64_t unknown = d->unknown_count;
    const uint8_t *start = p;
    int verdict = UNDECIDED, is_row = 0;
    d->line++;
    d->mistyped = d->zoneless = 0;
    p = space(p);
    if (likely(*p == '{' && (p = members(d, p + 1, 0, d->row)))) {
        p = space(p);
        int crowded = p - start > d->values_max && values_in(start, p) > d->values_max;
        int broken = likely(*p == '\n' && !crowded) ? finish_row(d) : -1;
        if (likely(!broken && d->unknown_count == unknown)) {
            d->row++;
            return p;
        }
        if (broken > 0 && p - start > BROKEN_MAX) broken = -1;
        if (broken >= 0) { /* what is unknown was not read strictly */
            verdict = broken ? BROKEN : UNDECIDED;
            if (d->unknown_count > unknown) verdict = verdict_on(d, start, p, verdict);
            is_row = verdict == BROKEN || (verdict == UNDECIDED && !broken);
        }
    }
    if (d->failed) return NULL;
    if (!is_row) {
        for (int32_t k = 0; k < d->column_count; k++) cut(d, d->columns[k], d->row);
        p = memchr(start, '\n', (size_t)(end - start));
        if (!verdict) verdict = verdict_on(d, start, p, UNDECIDED);
    }
    int64_t place[] = {d->row, number, place_of(d, start), place_of(d, p)};
    if (is_row && verdict == UNDECIDED) {
        if (!note(d, &d->row_lines, &d->row_lines_count, place, 4)) return NULL;
    } else {
        d->unknown_count = unknown;
        if (!note_left(d, number, place[2], place[3], verdict)) return NULL;
    }
    d->row += is_row;
    return p;
}

/* The lines from `p` to `end`, which stands behind a line feed; the number of the line behind them, -1 without memory. */
static int64_t lines(struct decoder *d, const uint8_t *p, const uint8_t *end, int64_t number, int64_t *line_count) {
    for (; p < end; p++, number++) {
        const uint8_t *first = space(p);
        if (*first == '\n') {
            p = first;
            continue;
        }
        ++*line_count;
        /* what is too short for a record is not parsed: there may be millions of such lines */
        size_t seen = end - p < d->least_bytes ? (size_t)(end - p) : (size_t)d->least_bytes;
        const uint8_t *stop = memchr(p, '\n', seen);
        if (unlikely(stop)) {
            if (!note_left(d, number, place_of(d, p), place_of(d, stop), SHORT)) return -1;
            p = stop;
            continue;
        }
        p = line(d, p, number, end);
        if (!p) return -1;
    }
    return number;
}

/* --- Arenas ------------------------------------------------------------------------------------------------------ */

static int64_t bytes_of(const struct arena *arena) {
    size_t bytes = 0;
    for (int32_t n = 0; n < arena->count; n++) {
        const struct builder *b = &arena->builders[n];
        bytes += b->valid.size + b->values.size + b->data.size;
    }
    return (int64_t)bytes;
}

static void empty_arena(struct arena *arena) {
    for (int32_t n = 0; n < arena->count; n++) {
        struct builder *b = &arena->builders[n];
        drop(&b->valid);
        drop(&b->values);
        drop(&b->data);
        b->room = 0;
    }
}

static void unreference(struct arena *arena) {
    if (atomic_fetch_sub(&arena->references, 1) > 1) return;
    empty_arena(arena);
    free(arena->builders);
    free(arena->arrays);
    free(arena->pointers);
    free(arena->buffers);
    free(arena);
}

/* Each array gives its arena back; parts that were moved out of a batch may live longer than the batch. */
static void release_array(struct ArrowArray *array) {
    struct arena *arena = array->private_data;
    for (int64_t k = 0; k < array->n_children; k++)
        if (array->children[k]->release) array->children[k]->release(array->children[k]);
    array->release = NULL;
    if (atomic_fetch_sub(&arena->live, 1) > 1) return;
    if (bytes_of(arena) > arena->keep_bytes) empty_arena(arena);
    atomic_store(&arena->idle, 1);
    unreference(arena);
}

static struct arena *new_arena(int32_t count, int64_t keep_bytes) {
    struct arena *arena = calloc(1, sizeof *arena);
    if (!arena) return NULL;
    atomic_init(&arena->references, 1);
    atomic_init(&arena->live, 0);
    atomic_init(&arena->idle, 1);
    arena->keep_bytes = keep_bytes;
    arena->count = count;
    size_t each = (size_t)count;
    arena->builders = calloc(each, sizeof *arena->builders);
    arena->arrays = calloc(each, sizeof *arena->arrays);
    arena->pointers = calloc(each * 2, sizeof *arena->pointers);
    arena->buffers = calloc(each * 3, sizeof *arena->buffers);
    if (arena->builders && arena->arrays && arena->pointers && arena->buffers) return arena;
    unreference(arena);
    return NULL;
}

static struct arena *take_arena(struct decoder *d) {
    for (int32_t k = 0; k < d->arena_count; k++)
        if (atomic_load(&d->arenas[k]->idle)) return d->arenas[k];
    struct arena **arenas = realloc(d->arenas, (size_t)(d->arena_count + 1) * sizeof *arenas);
    if (!arenas) return NULL;
    d->arenas = arenas;
    struct arena *arena = new_arena(d->count, d->keep_bytes);
    if (arena) d->arenas[d->arena_count++] = arena;
    return arena;
}

static void fill_array(struct decoder *d, struct arena *arena, int32_t n, int64_t length) {
    struct node *node = &d->nodes[n];
    struct builder *b = &arena->builders[n];
    struct ArrowArray *array = &arena->arrays[n];
    const void **buffers = &arena->buffers[n * 3];
    int kind = node->is.kind;
    *array = (struct ArrowArray){.length = length,
                                 .null_count = b->null_count,
                                 .n_buffers = 2,
                                 .buffers = buffers,
                                 .release = release_array,
                                 .private_data = arena};
    buffers[0] = b->null_count ? b->valid.at : NULL;
    buffers[1] = b->values.at;
    buffers[2] = b->data.at ? (void *)b->data.at : (void *)b->values.at; /* of no bytes then, but never NULL */
    if (kind == TEXT) array->n_buffers = 3;
    if (kind == STRUCT) array->n_buffers = 1;
    if (kind == STRUCT || kind == LIST) {
        array->n_children = node->is.child_count;
        array->children = &arena->pointers[node->is.first_child];
        for (int32_t k = 0; k < node->is.child_count; k++) {
            int32_t child = node->is.first_child + k;
            arena->pointers[child] = &arena->arrays[child];
            fill_array(d, arena, child, kind == LIST ? b->data_length : length);
        }
    }
    atomic_fetch_add(&arena->live, 1);
}

/* --- Called from native.py --------------------------------------------------------------------------------------- */

EXPORT int32_t wme_version(void) { return VERSION; }

EXPORT void wme_close(struct decoder *d) {
    if (!d) return;
    for (int32_t k = 0; k < d->arena_count; k++) unreference(d->arenas[k]);
    free(d->arenas);
    free(d->nodes);
    free(d->names);
    free(d->texts);
    free(d->columns);
    free(d->sources);
    free(d->rules);
    drop(&d->tail);
    drop(&d->left_lines);
    drop(&d->unknown);
    drop(&d->row_lines);
    drop(&d->left_rows);
    drop(&d->left_starts);
    drop(&d->left_bounds);
    drop(&d->left_verdicts);
    if (d->locale) freelocale(d->locale);
    free(d);
}

static void *copy_of(const void *from, size_t size) {
    void *copy = malloc(size ? size : 1);
    if (copy && size) memcpy(copy, from, size);
    return copy;
}

/*
 * A decoder for columns that are described by `count` nodes, the record itself first, the children of each one behind
 * another. `names` are pieces of `texts`, the name of each node among them; `columns` the node of each column; `rules` the
 * nodes that a row must be looked at for, those with sources last; `sources` the nodes that these take their value from.
 * Lines of more values than `values_max` are refused, and as soon as a block has so many unknown fields, lines with further
 * ones. Lines of fewer bytes than `least_bytes` are not parsed. NULL without memory.
 */
EXPORT struct decoder *wme_open(const struct description *nodes, int32_t count, const struct name *names,
                                int32_t name_count, const char *texts, int32_t texts_length, const int32_t *columns,
                                int32_t column_count, const int32_t *rules, int32_t rule_count, const int32_t *sources,
                                int32_t source_count, int64_t keep_bytes, int64_t values_max,
                                int64_t least_bytes) {
    struct decoder *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    d->count = count;
    d->keep_bytes = keep_bytes;
    d->values_max = values_max;
    d->least_bytes = least_bytes;
    d->column_count = column_count;
    d->rule_count = rule_count;
    d->nodes = calloc((size_t)count, sizeof *d->nodes);
    d->names = copy_of(names, (size_t)name_count * sizeof *names);
    d->texts = copy_of(texts, (size_t)texts_length);
    d->columns = copy_of(columns, (size_t)column_count * sizeof *columns);
    d->rules = copy_of(rules, (size_t)rule_count * sizeof *rules);
    d->sources = copy_of(sources, (size_t)source_count * sizeof *sources);
    d->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
#if defined(HAVE_AVX2_PATH)
    d->wide = __builtin_cpu_supports("avx2");
#endif
    int whole = d->nodes && d->names && d->texts && d->columns && d->rules && d->sources && d->locale;
    for (int32_t n = 0; whole && n < count; n++) {
        struct node *node = &d->nodes[n];
        node->is = nodes[n];
        node->name = d->texts + d->names[nodes[n].name].at;
        node->name_length = d->names[nodes[n].name].length;
        node->next = node->first = -1;
        if (node->name_length > NAME_MAX_LENGTH) whole = 0;
    }
    if (whole) return d;
    wme_close(d);
    return NULL;
}

/* Bytes of the buffers that a decoder keeps, without those of living batches. Only the tests ask for it. */
EXPORT int64_t wme_bytes(const struct decoder *d) {
    int64_t bytes = (int64_t)(d->tail.size + d->unknown.size + d->row_lines.size + d->left_lines.size +
                              d->left_rows.size + d->left_starts.size + d->left_bounds.size + d->left_verdicts.size);
    for (int32_t k = 0; k < d->arena_count; k++)
        if (atomic_load(&d->arenas[k]->idle)) bytes += bytes_of(d->arenas[k]);
    return bytes;
}

/*
 * The rows of a block of lines. `array` receives a struct array of the columns, to be released by whoever takes it;
 * `result` the rest, valid until the next call. 0, or -1 without memory or where the block is too large.
 */
EXPORT int32_t wme_decode(struct decoder *d, const uint8_t *data, int64_t size, const struct given *given,
                          int32_t given_count, struct ArrowArray *array, struct result *result) {
    array->release = NULL;
    if (size > BLOCK_MAX) return -1;
    struct arena *arena = take_arena(d);
    if (!arena) return -1;
    d->builders = arena->builders;
    for (int32_t n = 0; n < d->count; n++) d->builders[n].length = d->builders[n].data_length = 0;
    d->given = given;
    d->given_count = given_count;
    d->row = d->unknown_count = d->row_lines_count = d->left_count = 0;
    d->failed = 0;

    /* what is followed by enough bytes is parsed in place, the rest in a copy that is */
    int64_t whole = size > PAD ? size - PAD : 0, number = 0, line_count = 0;
#if defined(__linux__)
    const uint8_t *last = whole ? memrchr(data, '\n', (size_t)whole) : NULL;
    whole = last ? last + 1 - data : 0;
#else
    while (whole && data[whole - 1] != '\n') whole--;
#endif
    size_t rest = (size_t)(size - whole);
    if (!reserve(&d->tail, rest + 2 * PAD)) return -1;
    d->origin = data;
    d->origin_place = 0;
    number = lines(d, data, data + whole, 0, &line_count);
    if (number >= 0 && rest) {
        memcpy(d->tail.at, data + whole, rest);
        memset(d->tail.at + rest, 0, PAD + 1);
        int open = d->tail.at[rest - 1] != '\n';
        if (open) d->tail.at[rest] = '\n';
        d->origin = d->tail.at;
        d->origin_place = whole;
        number = lines(d, d->tail.at, d->tail.at + rest + open, number, &line_count);
    }
    if (number >= 0) {
        for (int32_t k = 0; k < d->column_count; k++)
            if (!complete(d, d->columns[k], d->row)) break;
    }
    if (d->tail.size > (size_t)d->keep_bytes) drop(&d->tail);
    if (d->failed || number < 0) return -1;

    for (int32_t k = 0; k < d->column_count; k++) {
        int32_t n = d->columns[k];
        arena->pointers[d->count + k] = &arena->arrays[n];
        fill_array(d, arena, n, d->row);
    }
    arena->buffers[0] = NULL; /* node 0 is the record, so its place is free for the batch's own */
    *array = (struct ArrowArray){.length = d->row,
                                 .n_buffers = 1,
                                 .n_children = d->column_count,
                                 .buffers = arena->buffers,
                                 .children = arena->pointers + d->count,
                                 .release = release_array,
                                 .private_data = arena};
    atomic_fetch_add(&arena->live, 1);
    atomic_fetch_add(&arena->references, 1);
    atomic_store(&arena->idle, 0);

    *result = (struct result){.line_count = line_count,
                              .row_count = d->row,
                              .unknown_count = d->unknown_count,
                              .unknown = (const int64_t *)(void *)d->unknown.at,
                              .row_lines_count = d->row_lines_count,
                              .row_lines = (const int64_t *)(void *)d->row_lines.at,
                              .left_count = d->left_count,
                              .left_lines = (const int64_t *)(void *)d->left_lines.at,
                              .left_rows = (const int64_t *)(void *)d->left_rows.at,
                              .left_starts = (const int64_t *)(void *)d->left_starts.at,
                              .left_bounds = (const int32_t *)(void *)d->left_bounds.at,
                              .left_verdicts = (const int8_t *)d->left_verdicts.at};
    return 0;
}
