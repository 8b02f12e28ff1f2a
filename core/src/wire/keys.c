/* keys.c - key names, hash tags and the shard of an id. */
#include "wire/keys.h"
#include "wire/resp.h"

#include <string.h>

const char *const srt_shard_kinds[SRT_SHARD_KINDS + 1] = {"state",    "jobs",    "ready",   "due",    "running",
                                                          "next",     "retry",   "dead",    "died",   "parked",
                                                          "unproven", "suspect", "overrun", "claims", NULL};

const char *const srt_queue_kinds[SRT_QUEUE_KINDS + 1] = {"layout",  "settings",  "deleted",
                                                          "history", "run_times", NULL};

const char *const srt_ick_kinds[SRT_ICK_KINDS + 1] = {"about", "pset", "again", "held", "tokens", "ends", NULL};

/* CRC-32 with zlib's polynomial, four bits a step. */
uint32_t srt_crc32(const void *data, size_t len)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const unsigned char *at = data;
    uint32_t crc = 0xffffffff;
    while (len--) {
        crc ^= *at++;
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

/* CRC-16 with the polynomial 0x1021 (XMODEM), four bits a step. */
static unsigned key_crc16(const char *data, size_t len)
{
    static const uint16_t table[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;
    for (; len > 0; len--, data++) {
        unsigned byte = (unsigned char)*data;
        crc = ((crc << 4) ^ table[((crc >> 12) ^ (byte >> 4)) & 15]) & 0xffff;
        crc = ((crc << 4) ^ table[((crc >> 12) ^ byte) & 15]) & 0xffff;
    }
    return crc;
}

unsigned srt_key_slot(const char *key, size_t len)
{
    const char *open = len ? memchr(key, '{', len) : NULL;
    const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;
    if (close && close - open > 1)
        return key_crc16(open + 1, (size_t)(close - open - 1)) % SRT_SLOTS;
    return key_crc16(key, len) % SRT_SLOTS;
}

unsigned seriatim_shard_of(const char *id, size_t len, unsigned shards_count)
{
    return shards_count ? srt_crc32(id, len) % shards_count : 0;
}

static int key_is_safe(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == ':' || c == '-' || c >= 0x80;
}

void srt_key_escape(srt_bytes *out, const char *name, size_t len)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t i;
    for (i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];
        if (key_is_safe(c)) {
            srt_bytes_addc(out, name[i]);
        } else {
            srt_bytes_addc(out, '%');
            srt_bytes_addc(out, hex[c >> 4]);
            srt_bytes_addc(out, hex[c & 15]);
        }
    }
}

static void key_open(srt_bytes *out, const char *ns)
{
    srt_key_escape(out, ns, strlen(ns));
    srt_bytes_adds(out, ":{");
}

static void key_arg(srt_bytes *out, const char *prefix, size_t len, const char *kind)
{
    size_t kind_len = strlen(kind);
    srt_bytes_addc(out, '$');
    srt_bytes_add_int(out, (int64_t)(len + kind_len));
    srt_bytes_adds(out, "\r\n");
    srt_bytes_add(out, prefix, len);
    srt_bytes_add(out, kind, kind_len);
    srt_bytes_adds(out, "\r\n");
}

/* Appends one key for each kind, the prefix and the kind, and the guard, as bulk strings. */
static void key_args(srt_bytes *out, const char *prefix, size_t len, const char *const *kinds)
{
    for (; *kinds; kinds++)
        key_arg(out, prefix, len, *kinds);
    key_arg(out, prefix, len, SRT_GUARD);
}

void srt_key_shard(srt_bytes *out, const char *ns, const char *queue, size_t queue_len, unsigned shard)
{
    key_open(out, ns);
    srt_key_escape(out, queue, queue_len);
    srt_bytes_addc(out, '/');
    srt_bytes_add_int(out, shard);
    srt_bytes_adds(out, "}:");
}

void srt_key_layout(srt_bytes *out, const char *ns, const char *queue, size_t queue_len)
{
    key_open(out, ns);
    srt_key_escape(out, queue, queue_len);
    srt_bytes_adds(out, "}:layout");
}

void srt_key_history(srt_bytes *out, const char *ns, const char *queue, size_t queue_len)
{
    key_open(out, ns);
    srt_key_escape(out, queue, queue_len);
    srt_bytes_adds(out, "}:history");
}

void srt_key_run_times(srt_bytes *out, const char *ns, const char *queue, size_t queue_len)
{
    key_open(out, ns);
    srt_key_escape(out, queue, queue_len);
    srt_bytes_adds(out, "}:run_times");
}

void srt_key_queue_args(srt_bytes *out, const char *ns, const char *queue, size_t queue_len)
{
    srt_bytes prefix;
    srt_bytes_init(&prefix, out->mem);
    key_open(&prefix, ns);
    srt_key_escape(&prefix, queue, queue_len);
    srt_bytes_adds(&prefix, "}:");
    key_args(out, prefix.data, prefix.len, srt_queue_kinds);
    out->failed |= prefix.failed;
    srt_bytes_free(&prefix);
}

void srt_key_layouts(srt_bytes *out, const char *ns)
{
    key_open(out, ns); /* escaped, so nothing in it is special to a pattern */
    srt_bytes_adds(out, "*}:layout");
}

static int key_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static void key_unescape(srt_bytes *out, const char *at, const char *end)
{
    for (; at < end; at++) {
        if (*at == '%' && end - at > 2 && key_hex(at[1]) >= 0 && key_hex(at[2]) >= 0) {
            srt_bytes_addc(out, (char)(key_hex(at[1]) * 16 + key_hex(at[2])));
            at += 2;
        } else {
            srt_bytes_addc(out, *at);
        }
    }
}

/* Decodes what stands in the place of the name. It was a name only if encoding it gives the same key again. */
int srt_key_read_layout(srt_bytes *name, const char *ns, const char *key, size_t len)
{
    const size_t tail = strlen("}:layout");
    const char *open = memchr(key, '{', len);
    srt_bytes again;
    int same, failed;
    srt_bytes_clear(name);
    if (!open || (size_t)(key + len - open) < 1 + tail)
        return SERIATIM_INVALID;
    key_unescape(name, open + 1, key + len - tail);
    srt_bytes_init(&again, name->mem);
    srt_key_layout(&again, ns, name->data, name->len);
    failed = name->failed || again.failed;
    same = !failed && again.len == len && memcmp(again.data, key, len) == 0;
    srt_bytes_free(&again);
    return failed ? SERIATIM_NOMEM : same ? SERIATIM_OK : SERIATIM_INVALID;
}

void srt_key_global(srt_bytes *out, const char *ns, const char *name, const char *kind)
{
    key_open(out, ns);
    srt_bytes_addc(out, '/');
    srt_bytes_adds(out, name);
    srt_bytes_adds(out, "}:");
    srt_bytes_adds(out, kind);
}

void srt_key_wake(srt_bytes *out, const char *ns, const char *node, size_t len)
{
    srt_key_escape(out, ns, strlen(ns));
    srt_bytes_adds(out, ":wake:");
    srt_bytes_add(out, node, len);
}

void srt_key_order(srt_bytes *out, const char *ns, const char *node, size_t len)
{
    srt_key_global(out, ns, "nodes", "order:");
    srt_key_escape(out, node, len);
}

void srt_key_heartbeat_args(srt_bytes *out, const char *ns, const char *node, size_t len)
{
    srt_bytes prefix, order;
    srt_bytes_init(&prefix, out->mem);
    srt_bytes_init(&order, out->mem);
    srt_key_global(&prefix, ns, "nodes", "");
    srt_key_order(&order, ns, node, len);
    key_arg(out, prefix.data, prefix.len, "alive");
    key_arg(out, prefix.data, prefix.len, "info");
    srt_resp_arg(out, order.data, order.len);
    key_arg(out, prefix.data, prefix.len, "renewed");
    key_arg(out, prefix.data, prefix.len, SRT_GUARD);
    out->failed |= prefix.failed || order.failed;
    srt_bytes_free(&prefix);
    srt_bytes_free(&order);
}

void srt_key_shard_args(srt_bytes *out, const char *prefix, size_t len)
{
    key_arg(out, prefix, len, srt_shard_kinds[0]);
    key_arg(out, prefix, len, SRT_GUARD);
}

void srt_key_ick(srt_bytes *out, const char *ns, const char *name, size_t len)
{
    key_open(out, ns);
    srt_bytes_adds(out, "/ick/");
    srt_key_escape(out, name, len);
    srt_bytes_adds(out, "}:");
}

void srt_key_ick_args(srt_bytes *out, const char *prefix, size_t len)
{
    key_args(out, prefix, len, srt_ick_kinds);
}
