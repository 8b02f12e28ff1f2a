/*
 * heartbeat_fields.c - what a node reports of its process with each heartbeat: one function for each field of
 * core/definitions/nodes.json.
 *
 * report_NAME appends the value of the field NAME to the text, or nothing if this node does not know it. The text of
 * the host is the part of the description behind its '|'. A value has neither ';' nor '|', which would end the field.
 */
#include "node/node_state.h"

#include <string.h>

/*
 * Hosts in other languages than C describe themselves as "HOST pid N LANGUAGE seriatim VERSION". after 1: the end of
 * the first occurrence of the word; 0: the beginning of its last one. NULL: it does not occur.
 */
static const char *host_word(seriatim_text host, const char *word, int after)
{
    size_t len = strlen(word), i;
    const char *found = NULL;
    for (i = 0; i + len <= host.len; i++)
        if (memcmp(host.data + i, word, len) == 0) {
            if (after)
                return host.data + i + len;
            found = host.data + i;
        }
    return found;
}

static void report_language(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    const char *at = host_word(host, " pid ", 1), *last = host_word(host, " seriatim ", 0);
    (void)n;
    while (at && last && at < last && *at >= '0' && *at <= '9')
        at++;
    if (!at || !last || at + 1 >= last || *at != ' ') {
        srt_bytes_addc(text, 'c');
        return;
    }
    for (at++; at < last && *at != ';' && *at != '|'; at++)
        srt_bytes_addc(text, *at);
}

static void report_version(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    (void)n;
    (void)host;
    srt_bytes_adds(text, SERIATIM_VERSION);
}

static void report_threads(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    size_t threads = 0, i;
    (void)host;
    for (i = 0; i < n->group_count; i++)
        threads += n->groups[i].threads;
    srt_bytes_add_int(text, (int64_t)threads);
}

static void report_since(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    (void)host;
    if (n->heartbeat.wall_us)
        srt_bytes_add_int(text, (n->heartbeat.wall_us + n->heartbeat.began * 1000) / 1000000);
}

static void report_rss(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    (void)host;
    if (n->heartbeat.resident > 0)
        srt_bytes_add_int(text, n->heartbeat.resident);
}

static void report_clock_skew(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    (void)host;
    if (n->heartbeat.has_skew)
        srt_bytes_add_int(text, n->heartbeat.skew_ms);
}

void srt_heartbeat_fields(const srt_node *n, seriatim_text host, srt_bytes *text)
{
    static const struct {
        const char *key;
        void (*report)(const srt_node *n, seriatim_text host, srt_bytes *text);
    } fields[] = {
#define X(kind, name, key) {";" key "=", report_##name},
        SERIATIM_NODE_FIELDS(X)
#undef X
    };
    size_t i, before, start;
    for (i = 0; i < sizeof fields / sizeof *fields; i++) {
        before = text->len;
        srt_bytes_adds(text, fields[i].key);
        start = text->len;
        fields[i].report(n, host, text);
        if (text->len == start)
            text->len = before;
    }
}
