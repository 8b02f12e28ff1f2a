/* ick_fixture.c - consumers of a two-phase commit set, and its calls. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ick_fixture.h"
#include "operators.h"

ick_user ick_join_as(const char *name, const char *consumer, double reserve_time)
{
    ick_user u = {NULL, NULL, {{NULL, 0}, {NULL, 0}, 0, 0}};
    seriatim_error error;
    assert_int_equal(seriatim_link_new(NULL, server.url, &u.link, &error), SERIATIM_OK);
    u.client = seriatim_link_client(u.link);
    u.ick.name = text(name);
    if (consumer)
        u.ick.consumer = text(consumer);
    u.ick.reserve_time = reserve_time;
    return u;
}

ick_user ick_join(void)
{
    REDIS("FLUSHALL");
    return ick_join_as("K", NULL, 0);
}

void ick_leave(ick_user *u)
{
    seriatim_link_free(u->link);
}

const seriatim_ick_result *ick_finish(ick_user *u, int called)
{
    const seriatim_ick_result *results;
    size_t count;
    if (called == SERIATIM_OK)
        called = seriatim_ick_send(u->client);
    if (called == SERIATIM_OK)
        called = drive(u->link);
    if (called != SERIATIM_OK)
        fail_msg("%s", seriatim_client_error(u->client)->message);
    results = seriatim_ick_results(u->client, &count);
    assert_int_equal(count, 1);
    return results;
}

void ick_begin(ick_user *u)
{
    assert_int_equal(seriatim_ick_begin(u->client), SERIATIM_OK);
}

seriatim_ick_member ick_member(const char *name, double score)
{
    seriatim_ick_member m = {name, strlen(name), score};
    return m;
}

const char *ick_add_all(ick_user *u, const seriatim_ick_member *members, size_t count)
{
    static char figures[64];
    const seriatim_ick_result *r;
    ick_begin(u);
    r = ick_finish(u, seriatim_ick_add(u->client, &u->ick, members, count));
    snprintf(figures, sizeof figures, "%lld %lld", (long long)r->added, (long long)r->lowered);
    return figures;
}

const char *ick_add(ick_user *u, const char *name, double score)
{
    seriatim_ick_member m = ick_member(name, score);
    return ick_add_all(u, &m, 1);
}

const char *ick_listed(ick_user *u, const seriatim_ick_result *r)
{
    static char names[4096];
    size_t i, len = 0;
    names[0] = '\0';
    for (i = 0; i < r->count && len < sizeof names - 64; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%.40s", i ? " " : "", r->members[i].data);
    if (r->token)
        u->ick.token = r->token;
    return names;
}

const char *ick_reserve(ick_user *u, int64_t n)
{
    ick_begin(u);
    return ick_listed(u, ick_finish(u, seriatim_ick_reserve(u->client, &u->ick, n, 0)));
}

size_t ick_words(const char *names, seriatim_ick_member *list)
{
    size_t count = 0;
    while (*names) {
        list[count].data = names;
        list[count].len = strcspn(names, " ");
        names += list[count++].len;
        names += *names == ' ';
    }
    return count;
}

int64_t ick_commit(ick_user *u, const char *names)
{
    seriatim_ick_member list[64];
    size_t count = ick_words(names, list);
    ick_begin(u);
    return ick_finish(u, seriatim_ick_commit(u->client, &u->ick, list, count))->ended;
}

seriatim_ick_result ick_stats(ick_user *u)
{
    ick_begin(u);
    return *ick_finish(u, seriatim_ick_stats(u->client, &u->ick));
}

int64_t ick_delete_set(ick_user *u)
{
    ick_begin(u);
    return ick_finish(u, seriatim_ick_delete(u->client, &u->ick))->deleted;
}
