/* test_web_ready.c - /readyz: whether Redis takes a push; against a real redis-server. */
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
#include <sys/stat.h>
#include <unistd.h>

#include "browser.h"

static void is_ready(void)
{
    redisReply *keys;
    get("/readyz");
    assert_string_equal(browser.text, "{\"ok\":true}");
    keys = redis("KEYS seriatim:*");
    assert_int_equal(keys->elements, 0);
    freeReplyObject(keys);
}

static void refuses_pushes(const char *why)
{
    assert_int_equal(ask("GET", "/readyz", NULL), 503);
    shows(why);
}

/* Of a user with these rules. */
static void open_browser_of_user(const char *rules)
{
    char words[512], url[200];
    REDIS("ACL DELUSER limited");
    snprintf(words, sizeof words, "ACL SETUSER limited on >secret ~seriatim:* &seriatim:* %s", rules);
    REDIS(words);
    snprintf(url, sizeof url, "unix://limited:secret@%s", server.socket);
    browse_at(url);
}

static void test_redis_is_ready_and_stays_as_it_is(void **state)
{
    (void)state;
    open_browser();
    is_ready();
    REDIS("SCRIPT FLUSH");
    is_ready();
}

static void test_a_full_redis_is_not_ready(void **state)
{
    (void)state;
    open_browser();
    REDIS("CONFIG SET maxmemory 1");
    refuses_pushes("Redis is out of memory");
    REDIS("CONFIG SET maxmemory 0");
    is_ready();
}

static void test_a_redis_that_cannot_save_is_not_ready(void **state)
{
    char path[100];
    int i;
    (void)state;
    open_browser();
    snprintf(path, sizeof path, "%s/dump.rdb", server.folder);
    assert_int_equal(mkdir(path, 0700), 0); /* in the place of the snapshot */
    REDIS("CONFIG SET save 900%s", " 1");
    REDIS("BGSAVE");
    for (i = 0; i < 3000 && ask("GET", "/readyz", NULL) == 200; i++)
        pause_ms(20);
    refuses_pushes("Redis cannot write its snapshot or its append-only file");
    assert_int_equal(rmdir(path), 0);
    REDIS("SAVE");
    REDIS("CONFIG SET save %s", "");
    unlink(path);
    is_ready();
}

static void test_a_redis_without_its_replicas_is_not_ready(void **state)
{
    (void)state;
    open_browser();
    REDIS("CONFIG SET min-replicas-to-write 1");
    refuses_pushes("Redis has fewer replicas than min-replicas-to-write");
    REDIS("CONFIG SET min-replicas-to-write 0");
    is_ready();
}

static void test_a_replica_is_not_ready(void **state)
{
    redis_process replica;
    (void)state;
    start_replica(&replica);
    browse_at(replica.url);
    refuses_pushes("Redis is a replica");
    open_browser();
    redis_remove(&replica);
}

static void test_a_user_who_may_not_push_is_not_ready(void **state)
{
    static const char *const rules[] = {"+@all -@write", "+@all -zadd", "+@all -hget"};
    size_t i;
    (void)state;
    for (i = 0; i < sizeof rules / sizeof *rules; i++) {
        open_browser_of_user(rules[i]);
        refuses_pushes("Redis' user may not push");
    }
    open_browser_of_user("+@all -@scripting");
    assert_int_equal(ask("GET", "/readyz", NULL), 503);
}

/* The rights of docs/guides/deployment.md without those that it calls dispensable. */
static void test_a_user_with_the_documented_rights_is_ready(void **state)
{
    (void)state;
    open_browser_of_user("nocommands +client|setname +del +eval +evalsha +exists +get +getrange +hdel +hexists +hget "
                         "+hgetall +hkeys +hlen +hmget +hscan +hset +hsetnx +hstrlen +hvals +llen +lpos +lpush +lrange "
                         "+ltrim +mget +pexpire +ping +pttl +publish +rename +rpush +select +set +setrange +subscribe "
                         "+time +type +unlink +zadd +zcard +zcount +zinter +zmscore +zrange +zrangebyscore +zrem "
                         "+zrevrangebyscore +zscan +zscore");
    is_ready();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_redis_is_ready_and_stays_as_it_is),
        cmocka_unit_test(test_a_full_redis_is_not_ready),
        cmocka_unit_test(test_a_redis_that_cannot_save_is_not_ready),
        cmocka_unit_test(test_a_redis_without_its_replicas_is_not_ready),
        cmocka_unit_test(test_a_replica_is_not_ready),
        cmocka_unit_test(test_a_user_who_may_not_push_is_not_ready),
        cmocka_unit_test(test_a_user_with_the_documented_rights_is_ready),
    };
    if (getenv("ONLY"))
        cmocka_set_test_filter(getenv("ONLY"));
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
