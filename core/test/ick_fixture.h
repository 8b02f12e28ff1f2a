/* ick_fixture.h - what the programs test_ick*.c share: consumers of the set K, and their calls. */
#ifndef SRT_TEST_ICK_FIXTURE_H
#define SRT_TEST_ICK_FIXTURE_H

#include "client/client.h"
#include "server.h"

#define ICK_SET "seriatim:{/ick/K}:"

/* A consumer, or a producer, with a connection of its own. */
typedef struct ick_user {
    seriatim_link *link;
    seriatim_client *client;
    seriatim_ick ick;
} ick_user;

ick_user ick_join_as(const char *name, const char *consumer, double reserve_time);
ick_user ick_join(void);
void ick_leave(ick_user *u);
const seriatim_ick_result *ick_finish(ick_user *u, int called);
void ick_begin(ick_user *u);
seriatim_ick_member ick_member(const char *name, double score);
/* "added lowered" */
const char *ick_add_all(ick_user *u, const seriatim_ick_member *members, size_t count);
const char *ick_add(ick_user *u, const char *name, double score);
/* "a b c", the members that a reserve or an exchange gave; the user keeps the token. */
const char *ick_listed(ick_user *u, const seriatim_ick_result *r);
const char *ick_reserve(ick_user *u, int64_t n);
/* Splits "a b c". */
size_t ick_words(const char *names, seriatim_ick_member *list);
int64_t ick_commit(ick_user *u, const char *names);
seriatim_ick_result ick_stats(ick_user *u);
int64_t ick_delete_set(ick_user *u);

#endif
