/* fuzz_settings.c - libFuzzer target: settings of queues, clients and nodes, and names that become keys. */
#include "fuzz.h"
#include "node/node_state.h"

#include <stdio.h>

/* A word of the contract, none at all, or any bytes; *owned is to be freed. */
static const char *word(fuzz_input *in, char **owned)
{
    static const char *const words[] = {"merge",   "list",   "last",   "first", "keep", "earlier", "later",
                                        "replace", "reject", "unique", "bury",  "park", "drop"};
    unsigned kind = fuzz_byte(in);
    size_t len;
    *owned = NULL;
    if (kind % 16 == 0)
        return NULL;
    if (kind % 16 < 14)
        return words[kind / 16 % (sizeof words / sizeof *words)];
    return *owned = fuzz_text(in, 64, 1, &len);
}

typedef struct owned_settings {
    seriatim_queue_settings queue;
    char *name, *words[3];
} owned_settings;

static void read_settings(fuzz_input *in, owned_settings *s)
{
    const char *fold, *on_waiting, *on_exhausted;
    seriatim_queue_settings_init(&s->queue);
    s->queue.name = s->name = fuzz_text(in, 600, 0, &s->queue.name_len);
    fold = word(in, &s->words[0]);
    on_waiting = word(in, &s->words[1]);
    on_exhausted = word(in, &s->words[2]);
    if (fuzz_below(in, 2)) {
        s->queue.fold = fold;
        s->queue.on_waiting = on_waiting;
        s->queue.on_exhausted = on_exhausted;
    }
    if (fuzz_below(in, 2)) {
        s->queue.shards_count = fuzz_int(in);
        s->queue.batch_size = fuzz_int(in);
        s->queue.max_retry_count = fuzz_int(in);
        s->queue.ttr = fuzz_double(in);
        s->queue.remember_score = fuzz_double(in);
    }
    s->queue.priority = fuzz_int(in);
    s->queue.serial_shards = (int)fuzz_below(in, 2);
}

static void free_settings(owned_settings *s)
{
    size_t i;
    for (i = 0; i < 3; i++)
        free(s->words[i]);
    free(s->name);
}

static void failed_with_words(int status, const seriatim_error *error)
{
    FUZZ_CHECK(status == SERIATIM_INVALID || status == SERIATIM_NOMEM || status == SERIATIM_PROTOCOL);
    FUZZ_CHECK(error->status == status && error->message[0] && memchr(error->message, '\0', sizeof error->message));
}

/* What was accepted keeps the contract's limits. */
static void within_limits(const srt_queue *q)
{
    FUZZ_CHECK(q->name.len >= 1 && q->name.len <= 512);
    FUZZ_CHECK(q->own.shards_count >= 0 && q->own.shards_count <= SERIATIM_MAX_SHARDS && q->own.batch_size >= 1 &&
               q->own.batch_size <= SERIATIM_MAX_BATCH);
    FUZZ_CHECK(q->now.max_retry_count >= 0 && q->now.ttr >= 0 && q->now.ttr <= INT64_C(31536000000000) &&
               q->now.remember_score >= 0 && q->now.remember_score <= INT64_C(31536000000000));
    FUZZ_CHECK(q->now.fold && q->now.on_waiting && q->now.on_exhausted);
}

/* A name's key gives the name back; only one brace opens in a key and one closes. */
static void key_is_reversible(const char *ns, const srt_bytes *name)
{
    srt_bytes key, back;
    size_t i, braces = 0;
    srt_bytes_init(&key, seriatim_default_allocator());
    srt_bytes_init(&back, seriatim_default_allocator());
    srt_key_layout(&key, ns, name->data, name->len);
    for (i = strlen(ns); i < key.len; i++)
        braces += key.data[i] == '{' || key.data[i] == '}';
    FUZZ_CHECK(braces == 2);
    FUZZ_CHECK(srt_key_read_layout(&back, ns, key.data, key.len) == SERIATIM_OK);
    FUZZ_CHECK(back.len == name->len && memcmp(back.data, name->data, back.len) == 0);
    srt_bytes_free(&key);
    srt_bytes_free(&back);
}

static void fuzz_registry(fuzz_input *in)
{
    size_t len, i;
    char *ns = fuzz_text(in, 300, 1, &len), *answer;
    seriatim_error error = {0, ""};
    srt_registry registry;
    int status = srt_registry_init(&registry, seriatim_default_allocator(), ns, &error);
    if (status != SERIATIM_OK)
        failed_with_words(status, &error);
    for (i = 0; status == SERIATIM_OK && i < 3; i++) {
        owned_settings s;
        srt_queue *queue;
        read_settings(in, &s);
        if ((status = srt_registry_add(&registry, &s.queue, &queue, &error)) != SERIATIM_OK) {
            failed_with_words(status, &error);
        } else {
            within_limits(queue);
            FUZZ_CHECK(srt_registry_find(&registry, s.queue.name, s.queue.name_len) == queue);
            key_is_reversible(ns, &queue->name);
            answer = fuzz_text(in, 64, 1, &len); /* as resp.h gives strings */
            if (srt_queue_set_layout(&registry, queue, answer, len, &error) == SERIATIM_OK && queue->shards_count)
                FUZZ_CHECK(queue->shards_count <= SERIATIM_MAX_SHARDS &&
                           queue->shards[queue->shards_count - 1]->args.len > 0);
            free(answer);
        }
        free_settings(&s);
    }
    srt_registry_free(&registry);
    free(ns);
}

/* Any key as a layout's: a name or INVALID. */
static void fuzz_key(fuzz_input *in)
{
    size_t len;
    char *key = fuzz_text(in, 200, 0, &len);
    srt_bytes name, again;
    srt_bytes_init(&name, seriatim_default_allocator());
    srt_bytes_init(&again, seriatim_default_allocator());
    if (srt_key_read_layout(&name, "seriatim", key, len) == SERIATIM_OK) {
        srt_key_layout(&again, "seriatim", name.data, name.len);
        FUZZ_CHECK(again.len == len && memcmp(again.data, key, len) == 0);
    }
    srt_bytes_free(&name);
    srt_bytes_free(&again);
    free(key);
}

static void fuzz_groups(fuzz_input *in, srt_node *node)
{
    size_t groups = fuzz_below(in, 3), group, i;
    seriatim_error error;
    while (groups-- > 0) {
        seriatim_shard shards[8];
        size_t count = fuzz_below(in, 9);
        for (i = 0; i < count; i++) {
            shards[i].worker = fuzz_byte(in);
            shards[i].shard = (unsigned)fuzz_int(in);
        }
        srt_node_group(node, (int)fuzz_int(in), shards, count, &group, &error);
    }
}

static void fuzz_node_settings(fuzz_input *in)
{
    size_t len, worker, workers;
    char *id = fuzz_text(in, 80, 1, &len), *description = fuzz_text(in, 300, 1, &len),
         *name = fuzz_text(in, 80, 1, &len);
    seriatim_node_settings settings;
    seriatim_error error = {0, ""};
    srt_node *node = NULL;
    int status;
    memset(&settings, 0, sizeof settings);
    settings.id = id;
    settings.description = fuzz_below(in, 2) ? description : NULL;
    settings.options.name = fuzz_below(in, 2) ? name : NULL;
    settings.lease_ms = fuzz_below(in, 4) ? 10000 : fuzz_int(in);
    settings.poll_ms = fuzz_below(in, 4) ? 1000 : fuzz_int(in);
    settings.threads = fuzz_below(in, 4) ? 2 : (size_t)fuzz_int(in);
    settings.scheduler = (int)fuzz_below(in, 4);
    status = srt_node_new(&settings, &node, &error);
    if (status != SERIATIM_OK)
        failed_with_words(status, &error);
    for (workers = fuzz_below(in, 4); status == SERIATIM_OK && workers > 0; workers--) {
        owned_settings s;
        read_settings(in, &s);
        srt_node_worker(node, &s.queue, &worker, &error);
        free_settings(&s);
    }
    if (status == SERIATIM_OK) {
        fuzz_groups(in, node);
        srt_node_start(node, 0, &error);
        srt_node_free(node);
    }
    free(id);
    free(description);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    unsigned part = fuzz_below(&in, 3);
    if (part == 0)
        fuzz_registry(&in);
    else if (part == 1)
        fuzz_key(&in);
    else
        fuzz_node_settings(&in);
    return 0;
}
