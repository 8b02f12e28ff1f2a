/* registry.c - queues and their limits, held by whoever owns the registry. */
#include "registry.h"
#include "resp.h"

#include <math.h>
#include <string.h>

#define REGISTRY_SCHEMA 3 /* of what scripts keep in Redis; layout.lua writes it */

void seriatim_queue_settings_init(seriatim_queue_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    settings->shards_count = 5;
    settings->batch_size = 1;
    settings->max_retry_count = 25;
    settings->fold = "merge";
    settings->on_waiting = "keep";
    settings->on_exhausted = "bury";
}

void seriatim_job_init(seriatim_job *job)
{
    memset(job, 0, sizeof *job);
    job->retry_count = -1;
}

static const char *const fold_words[] = {"merge", "list", "last", NULL};
static const char *const waiting_words[] = {"keep", "earlier", "later", "replace", "reject", NULL};
static const char *const exhausted_words[] = {"bury", "park", "drop", NULL};

static int word_place(const char *const *words, const char *word)
{
    int i;
    for (i = 0; word && words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i + 1;
    return 0;
}

int srt_on_waiting_place(const char *word)
{
    return word_place(waiting_words, word);
}

const char *srt_on_waiting_word(const char *word)
{
    int place = srt_on_waiting_place(word);
    return place ? waiting_words[place - 1] : NULL;
}

int srt_registry_init(srt_registry *r, const seriatim_allocator *mem, const char *ns, seriatim_error *error)
{
    memset(r, 0, sizeof *r);
    r->mem = mem;
    srt_bytes_init(&r->ns, mem);
    if (!ns || !*ns || strlen(ns) > 128)
        return srt_fail(error, SERIATIM_INVALID, "namespace must be a text of 1 to 128 bytes");
    srt_bytes_add(&r->ns, ns, strlen(ns) + 1);
    return r->ns.failed ? srt_fail_plain(error, SERIATIM_NOMEM) : SERIATIM_OK;
}

static void queue_free_layout(const srt_registry *r, srt_queue *queue)
{
    unsigned i;
    for (i = 0; queue->shards && i < queue->shards_count; i++) {
        srt_bytes_free(&queue->shards[i].prefix);
        srt_bytes_free(&queue->shards[i].args);
    }
    srt_free(r->mem, queue->shards, queue->shards_count * sizeof *queue->shards);
    queue->shards = NULL;
    queue->shards_count = 0;
    queue->generation = 0;
}

void srt_registry_free(srt_registry *r)
{
    size_t i;
    for (i = 0; i < r->count; i++) {
        queue_free_layout(r, r->queues[i]);
        srt_bytes_free(&r->queues[i]->name);
        srt_free(r->mem, r->queues[i], sizeof *r->queues[i]);
    }
    srt_free(r->mem, r->queues, r->cap * sizeof *r->queues);
    srt_bytes_free(&r->ns);
    r->queues = NULL;
    r->count = r->cap = 0;
}

static int check_range(const char *field, int64_t value, int64_t low, int64_t high, seriatim_error *error)
{
    if (value >= low && value <= high)
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_INVALID, "%s must be from %lld to %lld, not %lld", field, (long long)low,
                    (long long)high, (long long)value);
}

static int check_word(const char *field, const char *const *words, const char *word, const char *list,
                      seriatim_error *error)
{
    if (word_place(words, word))
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_INVALID, "%s must be one of %s, not \"%.40s\"", field, list, word ? word : "");
}

static int check_settings(const seriatim_queue_settings *s, seriatim_error *error)
{
    int status;
    if (!s->name || s->name_len < 1 || s->name_len > 512)
        return srt_fail(error, SERIATIM_INVALID, "queue_name must be 1 to 512 bytes, not %lu", (unsigned long)s->name_len);
    if ((status = check_range("shards_count", s->shards_count, 0, SERIATIM_MAX_SHARDS, error)) != SERIATIM_OK ||
        (status = check_range("batch_size", s->batch_size, 1, SERIATIM_MAX_BATCH, error)) != SERIATIM_OK ||
        (status = check_range("max_retry_count", s->max_retry_count, 0, 1000000, error)) != SERIATIM_OK ||
        (status = check_word("fold", fold_words, s->fold, "merge, list, last", error)) != SERIATIM_OK ||
        (status = check_word("on_waiting", waiting_words, s->on_waiting, "keep, earlier, later, replace, reject", error)) !=
            SERIATIM_OK ||
        (status = check_word("on_exhausted", exhausted_words, s->on_exhausted, "bury, park, drop", error)) != SERIATIM_OK)
        return status;
    if (!(s->ttr >= 0 && s->ttr <= SERIATIM_MAX_TTR))
        return srt_fail(error, SERIATIM_INVALID, "ttr must be from 0 (none) to 31536000 seconds");
    return SERIATIM_OK;
}

srt_queue *srt_registry_find(const srt_registry *r, const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < r->count; i++)
        if (r->queues[i]->name.len == len && memcmp(r->queues[i]->name.data, name, len) == 0)
            return r->queues[i];
    return NULL;
}

static srt_queue *registry_new_queue(srt_registry *r, const char *name, size_t len)
{
    void *queues = r->queues;
    srt_queue *queue;
    if (srt_grow(r->mem, &queues, &r->cap, r->count + 1, sizeof *r->queues) != SERIATIM_OK)
        return NULL;
    r->queues = queues;
    queue = srt_alloc(r->mem, sizeof *queue);
    if (!queue)
        return NULL;
    srt_bytes_init(&queue->name, r->mem);
    srt_bytes_add(&queue->name, name, len);
    if (queue->name.failed) {
        srt_free(r->mem, queue, sizeof *queue);
        return NULL;
    }
    r->queues[r->count++] = queue;
    return queue;
}

int srt_registry_add(srt_registry *r, const seriatim_queue_settings *s, srt_queue **out, seriatim_error *error)
{
    srt_queue *queue;
    int status = check_settings(s, error);
    if (status != SERIATIM_OK)
        return status;
    queue = srt_registry_find(r, s->name, s->name_len);
    if (!queue)
        queue = registry_new_queue(r, s->name, s->name_len);
    if (!queue)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    queue->wanted_shards = (unsigned)s->shards_count;
    queue->batch_size = (size_t)s->batch_size;
    queue->max_retry_count = s->max_retry_count;
    queue->fold = fold_words[word_place(fold_words, s->fold) - 1];
    queue->on_waiting = srt_on_waiting_word(s->on_waiting);
    queue->on_exhausted = exhausted_words[word_place(exhausted_words, s->on_exhausted) - 1];
    queue->ttr_us = (int64_t)floor(s->ttr * 1e6);
    queue->serial_shards = s->serial_shards != 0;
    queue->priority = s->priority;
    *out = queue;
    return SERIATIM_OK;
}

static int queue_make_shards(srt_registry *r, srt_queue *queue, unsigned count)
{
    unsigned i;
    int failed = 0;
    queue->shards = srt_alloc(r->mem, count * sizeof *queue->shards);
    if (!queue->shards)
        return SERIATIM_NOMEM;
    queue->shards_count = count;
    for (i = 0; i < count; i++) {
        srt_shard_keys *keys = &queue->shards[i];
        srt_bytes_init(&keys->prefix, r->mem);
        srt_bytes_init(&keys->args, r->mem);
        srt_key_shard(&keys->prefix, r->ns.data, queue->name.data, queue->name.len, i);
        if (!keys->prefix.failed)
            srt_key_shard_args(&keys->args, keys->prefix.data, keys->prefix.len);
        failed |= keys->prefix.failed || keys->args.failed;
    }
    if (failed)
        queue_free_layout(r, queue);
    return failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

/* The next word of a layout, up to a space or the end; a missing one is empty. */
static srt_token layout_word(const char **at, size_t *left)
{
    const char *space = *left ? memchr(*at, ' ', *left) : NULL;
    srt_token word = {SRT_STRING, 0, *at, space ? (size_t)(space - *at) : *left};
    *left -= word.len + (space != NULL);
    *at += word.len + (space != NULL);
    return word;
}

int srt_layout_read(const char *text, size_t len, int64_t *generation, int64_t *shards, seriatim_error *error)
{
    const char *at = text ? text : "";
    size_t left = text ? len : 0;
    srt_token word = layout_word(&at, &left);
    int64_t schema;
    *generation = srt_token_int(&word);
    word = layout_word(&at, &left);
    *shards = srt_token_int(&word);
    if (*generation < 1 || *shards < 1 || *shards > SERIATIM_MAX_SHARDS)
        return srt_fail(error, SERIATIM_PROTOCOL, "layout of the queue cannot be read: %.60s", text ? text : "");
    word = layout_word(&at, &left);
    schema = word.len ? srt_token_int(&word) : 1;
    if (schema == REGISTRY_SCHEMA && left == 0)
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_UNSUPPORTED, "the queue is of schema %.*s, which %s version made; this one knows schema %d",
                    word.len ? (int)word.len : 1, word.len ? word.data : "1", schema < REGISTRY_SCHEMA ? "an earlier" : "a later",
                    REGISTRY_SCHEMA);
}

int srt_queue_set_layout(srt_registry *r, srt_queue *queue, const char *answer, size_t len, seriatim_error *error)
{
    int64_t generation, shards;
    int status = srt_layout_read(answer, len, &generation, &shards, error);
    if (status != SERIATIM_OK)
        return status;
    if (queue->generation == generation && queue->shards_count == (unsigned)shards)
        return SERIATIM_OK;
    queue_free_layout(r, queue);
    if (queue_make_shards(r, queue, (unsigned)shards) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    queue->generation = generation;
    return SERIATIM_OK;
}
