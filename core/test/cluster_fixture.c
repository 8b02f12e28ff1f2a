/* cluster_fixture.c - a cluster without a network. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "cluster_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

srt_cluster cl;
int64_t now;
size_t dropped_peers;

static void count_drop(void *host, srt_redis *p)
{
    (void)host;
    (void)p;
    dropped_peers++;
}

srt_redis *peer_at(const char *host)
{
    size_t i;
    for (i = 0; i < cl.peer_count; i++)
        if (strcmp(cl.peers[i]->host, host) == 0)
            return cl.peers[i];
    return NULL;
}

/* Time passes: step by step, as a host that obeys srt_cluster_due_ms. */
void cluster_wait_ms(int64_t ms)
{
    int64_t until = now + ms;
    for (;;) {
        int64_t due;
        assert_true(now < 4600000); /* an hour: what is waited for does not come */
        assert_int_equal(srt_cluster_tick(&cl, now), SERIATIM_OK);
        due = srt_cluster_due_ms(&cl);
        if (due > until)
            break;
        now = due > now ? due : now + 1;
    }
    now = until;
    assert_int_equal(srt_cluster_tick(&cl, now), SERIATIM_OK);
}

/* What is to be sent to this peer, sent. The commands stand one behind another, arguments with spaces. */
const char *cluster_sends(const char *host)
{
    static char text[65536]; /* also the text of a script */
    srt_redis *p = peer_at(host);
    const char *data, *at;
    size_t len, out = 0;
    assert_non_null(p);
    srt_session_output(&p->commands, &data, &len);
    for (at = data; at < data + len;) {
        if (*at == '*') {
            at = strstr(at, "\r\n") + 2;
            out += (size_t)snprintf(text + out, sizeof text - out, out ? "|" : "");
        } else {
            size_t size = strtoul(at + 1, NULL, 10);
            at = strstr(at, "\r\n") + 2;
            out += (size_t)snprintf(text + out, sizeof text - out, "%.*s ", (int)size, at);
            at += size + 2;
        }
    }
    text[out] = '\0';
    srt_session_sent(&p->commands, len);
    return text;
}

void cluster_connect(const char *host)
{
    assert_non_null(peer_at(host));
    assert_true(srt_redis_wanted(&cl, peer_at(host)));
    assert_int_equal(srt_redis_connected(&cl, peer_at(host), NULL, NULL, 0, NULL), SERIATIM_OK);
}

/* The answer's status: AGAIN, the owner gets none; else the kind of its request in *kind. */
int cluster_hears(const char *host, const char *answer, int *kind, seriatim_error *error)
{
    srt_request *r;
    srt_reply reply;
    int status;
    assert_int_equal(srt_redis_input(&cl, peer_at(host), answer, strlen(answer)), SERIATIM_OK);
    status = srt_redis_next(&cl, peer_at(host), &r, &reply, error);
    if (status != SERIATIM_OK)
        return status;
    if (kind)
        *kind = r->kind;
    srt_cluster_done(&cl, r);
    return SERIATIM_OK;
}

void cluster_swallows(const char *host, const char *answer)
{
    seriatim_error error;
    assert_int_equal(cluster_hears(host, answer, NULL, &error), SERIATIM_AGAIN);
}

void cluster_answers(const char *host, const char *answer, int kind)
{
    seriatim_error error;
    int got = -1;
    assert_int_equal(cluster_hears(host, answer, &got, &error), SERIATIM_OK);
    assert_int_equal(got, kind);
}

srt_request *cluster_get(const char *key, int kind)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&cl), srt_script_none, NULL, 0);
    assert_non_null(r);
    r->kind = kind;
    srt_request_text(r, "GET");
    srt_request_text(r, key);
    return r;
}

void cluster_asks(const char *key, int kind)
{
    assert_int_equal(srt_cluster_send(&cl, cluster_get(key, kind)), SERIATIM_OK);
}

void cluster_make(void)
{
    memset(&cl, 0, sizeof cl);
    dropped_peers = 0;
    now = 1000000;
    assert_int_equal(srt_cluster_init(&cl, seriatim_default_allocator()), SERIATIM_OK);
    cl.on_drop = count_drop;
    assert_int_equal(srt_cluster_seed(&cl, "A", 1), SERIATIM_OK);
}

/* The map is known, and A and B are connected. */
int cluster_set_up(void **state)
{
    (void)state;
    cluster_make();
    cluster_asks(LOW, 1);
    cluster_asks(HIGH, 2);
    cluster_wait_ms(0);
    cluster_connect("A");
    assert_string_equal(cluster_sends("A"), "CLUSTER SLOTS ");
    cluster_swallows("A", MAP_AB);
    cluster_connect("B");
    assert_string_equal(cluster_sends("A"), "GET {b} ");
    assert_string_equal(cluster_sends("B"), "GET {a} ");
    cluster_answers("A", "+x\r\n", 1);
    cluster_answers("B", "+x\r\n", 2);
    cluster_wait_ms(1000);
    assert_int_equal(srt_cluster_due_ms(&cl), INT64_MAX);
    return 0;
}

int cluster_tear_down(void **state)
{
    (void)state;
    srt_cluster_free(&cl);
    return 0;
}
