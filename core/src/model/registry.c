/* registry.c - the queues that a client or a node uses, with their settings and layouts. */
#include "model/registry.h"
#include "wire/resp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define REGISTRY_SCHEMA 3 /* of what scripts keep in Redis; layout.lua writes it */
#define REGISTRY_MOVED 4  /* of a queue whose number of shards changes, or became smaller */

void seriatim_job_init(seriatim_job *job)
{
    memset(job, 0, sizeof *job);
    job->retry_count = -1;
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

void srt_queue_forget_layout(const srt_registry *r, srt_queue *queue)
{
    unsigned i;
    for (i = 0; i < queue->shards_known; i++) {
        srt_bytes_free(&queue->shards[i]->prefix);
        srt_bytes_free(&queue->shards[i]->args);
        srt_free(r->mem, queue->shards[i], sizeof *queue->shards[i]);
    }
    srt_free(r->mem, queue->shards, queue->shards_cap * sizeof *queue->shards);
    queue->shards = NULL;
    queue->shards_cap = 0;
    queue->shards_count = queue->old_count = queue->most_count = queue->shards_known = 0;
    queue->generation = 0;
    queue->layout[0] = '\0';
}

void srt_registry_free(srt_registry *r)
{
    size_t i;
    for (i = 0; i < r->count; i++) {
        srt_queue_forget_layout(r, r->queues[i]);
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

#define CHECK_COUNT check_range
#define CHECK_FLAG(field, value, low, high, error) SERIATIM_OK

static int check_settings(const seriatim_queue_settings *s, seriatim_error *error)
{
    int status = SERIATIM_OK;
    if (!s->name || s->name_len < 1 || s->name_len > 512)
        return srt_fail(error, SERIATIM_INVALID, "queue_name must be 1 to 512 bytes, not %lu",
                        (unsigned long)s->name_len);
#define X(kind, field, low, least, high, initial, words, use)                                                          \
    if (status == SERIATIM_OK)                                                                                         \
        status = CHECK_##kind(#field, s->field, low, high, error);
    SERIATIM_OWN_SETTINGS(X)
#undef X
    return status;
}

size_t srt_registry_number(const srt_registry *r, const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < r->count; i++)
        if (r->queues[i]->name.len == len && memcmp(r->queues[i]->name.data, name, len) == 0)
            return i;
    return SERIATIM_NO_QUEUE;
}

srt_queue *srt_registry_find(const srt_registry *r, const char *name, size_t len)
{
    size_t number = srt_registry_number(r, name, len);
    return number == SERIATIM_NO_QUEUE ? NULL : r->queues[number];
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
    srt_settings code;
    int status = check_settings(s, error);
    if (status == SERIATIM_OK)
        status = srt_settings_read(&code, s, error);
    if (status != SERIATIM_OK)
        return status;
    queue = srt_registry_find(r, s->name, s->name_len);
    if (!queue)
        queue = registry_new_queue(r, s->name, s->name_len);
    if (!queue)
        return srt_fail_plain(error, SERIATIM_NOMEM);
#define X(kind, field, ...) queue->own.field = s->field;
    SERIATIM_OWN_SETTINGS(X)
#undef X
    queue->code = code;
    if (!queue->generation)
        queue->now = code;
    *out = queue;
    return SERIATIM_OK;
}

static int queue_add_shard(srt_registry *r, srt_queue *queue)
{
    srt_shard_keys *keys = srt_alloc(r->mem, sizeof *keys);
    if (!keys)
        return SERIATIM_NOMEM;
    srt_bytes_init(&keys->prefix, r->mem);
    srt_bytes_init(&keys->args, r->mem);
    srt_key_shard(&keys->prefix, r->ns.data, queue->name.data, queue->name.len, queue->shards_known);
    if (!keys->prefix.failed)
        srt_key_shard_args(&keys->args, keys->prefix.data, keys->prefix.len);
    if (keys->prefix.failed || keys->args.failed) {
        srt_bytes_free(&keys->prefix);
        srt_bytes_free(&keys->args);
        srt_free(r->mem, keys, sizeof *keys);
        return SERIATIM_NOMEM;
    }
    queue->shards[queue->shards_known++] = keys;
    return SERIATIM_OK;
}

/* Makes the keys of this many shards, as far as they are not there. */
static int queue_make_shards(srt_registry *r, srt_queue *queue, unsigned count)
{
    void *shards = queue->shards;
    int status = srt_grow(r->mem, &shards, &queue->shards_cap, count, sizeof *queue->shards);
    if (status == SERIATIM_OK)
        queue->shards = shards;
    while (status == SERIATIM_OK && queue->shards_known < count)
        status = queue_add_shard(r, queue);
    return status;
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

/* The next word as a number of shards; 0: it is no such number. */
static unsigned layout_shards(const char **at, size_t *left)
{
    srt_token word = layout_word(at, left);
    int64_t shards = srt_token_int(&word);
    return shards >= 1 && shards <= SERIATIM_MAX_SHARDS ? (unsigned)shards : 0;
}

static const char layout_paused[] = "paused";

int srt_layout_read(const char *text, size_t len, srt_layout *layout, seriatim_error *error)
{
    const char *at = text ? text : "";
    size_t left = text ? len : 0;
    srt_token word = layout_word(&at, &left);
    int64_t schema;
    layout->generation = srt_token_int(&word);
    layout->shards = layout->most = layout_shards(&at, &left);
    layout->old = 0;
    layout->paused = 0;
    word = layout_word(&at, &left);
    schema = word.len ? srt_token_int(&word) : 1;
    if (layout->generation >= 1 && layout->shards && schema == REGISTRY_MOVED) {
        layout->old = layout_shards(&at, &left);
        layout->most = layout_shards(&at, &left);
        layout->paused = layout->old && left == sizeof layout_paused - 1 && memcmp(at, layout_paused, left) == 0;
        if (layout->paused)
            left = 0;
        if (left > 0 || layout->most < layout->shards || layout->most < layout->old)
            layout->shards = 0;
    }
    if (layout->generation < 1 || !layout->shards)
        return srt_fail(error, SERIATIM_UNSUPPORTED, "the layout of the queue in Redis cannot be read: %.*s",
                        (int)(text && len < 60 ? len : 60), text ? text : "");
    if (schema == REGISTRY_MOVED || (schema == REGISTRY_SCHEMA && left == 0))
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_UNSUPPORTED,
                    "the queue is of schema %.*s, which %s version made; this one knows schema %d",
                    word.len ? (int)word.len : 1, word.len ? word.data : "1",
                    schema < REGISTRY_SCHEMA ? "an earlier" : "a later", REGISTRY_SCHEMA);
}

void srt_layout_write(const srt_layout *layout, char text[SRT_LAYOUT_TEXT])
{
    if (layout->old == 0 && layout->most == layout->shards)
        snprintf(text, SRT_LAYOUT_TEXT, "%lld %u %d", (long long)layout->generation, layout->shards, REGISTRY_SCHEMA);
    else
        snprintf(text, SRT_LAYOUT_TEXT, "%lld %u %d %u %u%s%s", (long long)layout->generation, layout->shards,
                 REGISTRY_MOVED, layout->old, layout->most, layout->old && layout->paused ? " " : "",
                 layout->old && layout->paused ? layout_paused : "");
}

int srt_layout_refused(const char *message, int64_t *generation, const char **text, size_t *len)
{
    static const char word[] = "GENERATION ";
    const char *at = strstr(message, word);
    size_t left;
    srt_token number;
    if (!at)
        return 0;
    at += sizeof word - 1;
    left = strlen(at);
    number = layout_word(&at, &left);
    *generation = srt_token_int(&number);
    *text = at;
    *len = left;
    return *generation != 0;
}

unsigned srt_queue_addressed(const srt_queue *queue)
{
    return queue->old_count > queue->shards_count ? queue->old_count : queue->shards_count;
}

int srt_queue_with_shards(srt_registry *r, srt_queue *queue, unsigned count, int64_t generation)
{
    if (queue_make_shards(r, queue, count) != SERIATIM_OK) {
        srt_queue_forget_layout(r, queue);
        return SERIATIM_NOMEM;
    }
    queue->shards_count = queue->most_count = count;
    queue->generation = generation;
    return SERIATIM_OK;
}

int srt_queue_set_layout(srt_registry *r, srt_queue *queue, const char *answer, size_t len, seriatim_error *error)
{
    srt_layout layout;
    int status = srt_layout_read(answer, len, &layout, error);
    if (status != SERIATIM_OK)
        return status;
    if (queue_make_shards(r, queue, layout.most) != SERIATIM_OK)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    queue->generation = layout.generation;
    queue->shards_count = layout.shards;
    queue->old_count = layout.old;
    queue->most_count = layout.most;
    srt_layout_write(&layout, queue->layout);
    return SERIATIM_OK;
}

/* ---- The layout script ----------------------------------------------------------------------- */

srt_request *srt_queue_request(const srt_registry *r, srt_session *session, const srt_queue *queue, int script)
{
    srt_request *request = NULL;
    srt_bytes keys;
    srt_bytes_init(&keys, r->mem);
    srt_key_queue_args(&keys, r->ns.data, queue->name.data, queue->name.len);
    if (!keys.failed)
        request = srt_session_begin(session, script, &keys, SRT_QUEUE_KEYS);
    srt_bytes_free(&keys);
    return request;
}

srt_request *srt_layout_request(const srt_registry *r, srt_session *session, const srt_queue *queue,
                                srt_layout_mode mode, int64_t refused)
{
    static const char *const modes[] = {"look", "keep", "set"};
    srt_request *request = srt_queue_request(r, session, queue, srt_script_layout);
    if (!request)
        return NULL;
    srt_request_text(request, modes[mode]);
    srt_request_int(request, refused);
    srt_request_int(request, queue->own.shards_count);
    if (mode != SRT_LAYOUT_LOOK)
        srt_settings_args(request, &queue->code);
    return request;
}

const srt_token *srt_layout_of(const srt_reply *reply)
{
    const srt_token *root = &reply->tokens[0];
    return root->type == SRT_ARRAY && reply->count > 1 ? root + 1 : root;
}

/* Layout and settings of an answer; settings that Redis lacks are those of the code. */
static int layout_read(const srt_queue *queue, const srt_reply *reply, int *absent, srt_settings *settings,
                       seriatim_error *error)
{
    const srt_token *text = srt_layout_of(reply);
    *settings = queue->code;
    *absent = text->type == SRT_STRING && text->len == 0;
    return srt_settings_take(settings, text + 1, (size_t)(reply->tokens + reply->count - (text + 1)), error);
}

int srt_settings_look(srt_queue *queue, const srt_reply *reply, int *absent, seriatim_error *error)
{
    srt_settings taken;
    int status = layout_read(queue, reply, absent, &taken, error);
    if (status == SERIATIM_OK && !*absent)
        queue->now = taken;
    return status;
}

int srt_layout_take(srt_registry *r, srt_queue *queue, srt_layout_mode mode, const srt_reply *reply, int *absent,
                    srt_settings *redis, seriatim_error *error)
{
    const srt_token *text = srt_layout_of(reply);
    srt_settings taken;
    int status = layout_read(queue, reply, absent, &taken, error);
    if (status == SERIATIM_UNSUPPORTED && mode == SRT_LAYOUT_SET)
        status = SERIATIM_OK; /* this very call has overwritten it */
    if (status != SERIATIM_OK || *absent)
        return status;
    status = srt_queue_set_layout(r, queue, text->type == SRT_STRING ? text->data : NULL, text->len, error);
    if (status != SERIATIM_OK)
        return status;
    if (redis)
        *redis = taken;
    queue->now = mode == SRT_LAYOUT_SET ? queue->code : taken;
    return SERIATIM_OK;
}
