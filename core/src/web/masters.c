/* masters.c - answers the page of the masters of a cluster: what lies on each, how it is, and which slots move. */
#include "web/web.h"

#include <stdlib.h>
#include <string.h>

typedef struct masters_sum {
    int64_t shards, length, busy, dead, scheduled, lag_us;
} masters_sum;

int srt_web_masters_next(seriatim_client *c, srt_web *w)
{
    int status;
    if (!c->cluster.many)
        return SRT_WEB_DONE;
    status = w->step <= 1 ? srt_web_queue_stats_all(c, w) : SRT_WEB_DONE;
    if (status != SRT_WEB_DONE || w->step > 2)
        return status;
    return srt_master_facts_begin(c);
}

/* Which key decides where a shard lies. */
static void shard_key(const seriatim_client *c, seriatim_text queue, unsigned shard, srt_bytes *key)
{
    srt_bytes_init(key, c->mem);
    srt_key_shard(key, c->registry.ns.data, queue.data, queue.len, shard);
}

int srt_web_shard_slot(const seriatim_client *c, seriatim_text queue, unsigned shard)
{
    srt_bytes key;
    int slot;
    shard_key(c, queue, shard, &key);
    slot = key.failed ? -1 : (int)srt_key_slot(key.data, key.len);
    srt_bytes_free(&key);
    return slot;
}

void srt_web_shard_address(const seriatim_client *c, seriatim_text queue, unsigned shard, char *out, size_t cap)
{
    const srt_redis *master = NULL;
    srt_bytes key;
    *out = '\0';
    shard_key(c, queue, shard, &key);
    if (!key.failed)
        master = srt_cluster_peer_of(&c->cluster, key.data, key.len);
    srt_bytes_free(&key);
    if (master)
        srt_redis_address(master, out, cap);
}

static void masters_add(masters_sum *sum, const srt_web_shard *shard)
{
    sum->shards++;
    sum->length += shard->length;
    sum->busy += shard->busy;
    sum->dead += shard->dead;
    sum->scheduled += shard->scheduled;
    if (shard->lag_us > sum->lag_us)
        sum->lag_us = shard->lag_us;
}

/* Of the shards of all queues, by the masters on which they lie. */
static void masters_add_up(const seriatim_client *c, const srt_web *w, const srt_master_facts *facts, size_t count,
                           masters_sum *sums)
{
    char address[300];
    size_t i, at;
    unsigned shard;
    memset(sums, 0, count * sizeof *sums);
    for (i = 0; i < w->row_count; i++)
        for (shard = 0; shard < w->rows[i].shards_count && w->rows[i].shards; shard++) {
            srt_web_shard_address(c, w->rows[i].name, shard, address, sizeof address);
            for (at = 0; at < count && strcmp(facts[at].address, address) != 0; at++)
                ;
            if (at < count)
                masters_add(&sums[at], &w->rows[i].shards[shard]);
        }
}

/* What its INFO says, or null. */
static void masters_write_info(srt_web_out *out, const char *key, const srt_master_facts *facts, const char *field,
                               int is_number)
{
    size_t len;
    const char *text = srt_info_field(facts->info, field, &len);
    if (!text)
        srt_web_null(out, key);
    else if (is_number)
        srt_web_int(out, key, strtol(text, NULL, 10));
    else
        srt_web_text(out, key, text, len);
}

static void masters_write_moving(srt_web_out *out, const srt_master_facts *facts)
{
    size_t i;
    if (!facts->tells_moving) {
        srt_web_null(out, "moving");
        return;
    }
    srt_web_key(out, "moving");
    srt_json_begin_array(&out->json);
    for (i = 0; i < facts->moving_count; i++) {
        srt_json_begin_object(&out->json);
        srt_web_int(out, "slot", facts->moving[i].slot);
        srt_web_chars(out, "to", facts->moving[i].to);
        srt_json_end_object(&out->json);
    }
    srt_json_end_array(&out->json);
}

static void masters_write_one(srt_web_out *out, const srt_master_facts *facts, const masters_sum *sum)
{
    srt_json_begin_object(&out->json);
    srt_web_chars(out, "address", facts->address);
    srt_web_int(out, "busy", sum->busy);
    srt_web_int(out, "dead", sum->dead);
    srt_web_int(out, "enqueued", sum->length);
    srt_web_double(out, "lag", (double)sum->lag_us / 1e6);
    masters_write_info(out, "maxmemory_policy", facts, "\nmaxmemory_policy:", 0);
    masters_write_moving(out, facts);
    masters_write_info(out, "replicas", facts, "\nconnected_slaves:", 1);
    masters_write_info(out, "role", facts, "\nrole:", 0);
    srt_web_int(out, "scheduled", sum->scheduled);
    srt_web_int(out, "shards", sum->shards);
    srt_web_int(out, "slots", facts->slots);
    masters_write_info(out, "used_memory_human", facts, "\nused_memory_human:", 0);
    masters_write_info(out, "version", facts, "\nredis_version:", 0);
    srt_json_end_object(&out->json);
}

void srt_web_masters_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    size_t count, i;
    const srt_master_facts *facts = srt_master_facts_result(c, &count);
    masters_sum *sums = srt_arena_alloc(&w->memory, (count + 1) * sizeof *sums);
    if (!sums) {
        out->body->failed = 1;
        return;
    }
    masters_add_up(c, w, facts, count, sums);
    srt_json_begin_object(&out->json);
    srt_web_key(out, "masters");
    srt_json_begin_array(&out->json);
    for (i = 0; i < count; i++)
        masters_write_one(out, &facts[i], &sums[i]);
    srt_json_end_array(&out->json);
    srt_json_end_object(&out->json);
}
