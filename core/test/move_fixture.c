/* move_fixture.c - see move_fixture.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "move_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

void write_layout_words(const char *words)
{
    redisReply *time = redis("TIME");
    char text[128];
    snprintf(text, sizeof text, "%s%06d %s", time->element[0]->str, atoi(time->element[1]->str), words);
    REDIS("SET seriatim:{Q}:layout %s", text);
    freeReplyObject(time);
}

void write_layout(unsigned shards, unsigned old, unsigned most)
{
    char words[64];
    snprintf(words, sizeof words, "%u 4 %u %u", shards, old, most);
    write_layout_words(words);
}

void write_quiet(unsigned shards)
{
    char words[64];
    snprintf(words, sizeof words, "%u 3", shards);
    write_layout_words(words);
}

void steps_for(live_node *nodes, size_t count, int64_t ms)
{
    int64_t until = live_now() + ms;
    size_t i;
    while (live_now() < until)
        for (i = 0; i < count; i++)
            live_step(&nodes[i]);
}

const char *leaving_id(void)
{
    static char id[16];
    int i = 0;
    do
        snprintf(id, sizeof id, "id%d", i++);
    while (seriatim_shard_of(id, strlen(id), 3) != 0 || seriatim_shard_of(id, strlen(id), 5) == 0);
    return id;
}
