/* client_life.c - makes and frees a client, and what it is told: who it is, the time, its queues. */
#include "client/client.h"

#include <string.h>

#define CLIENT_MAX_PAYLOAD ((size_t)128 * 1024 * 1024) /* half of the largest answer that the reader accepts */

/* CLIENT SETNAME takes no spaces, control characters or bytes beyond ASCII. */
static int client_name_fits(const char *name)
{
    for (; *name; name++)
        if (*name < '!' || *name > '~')
            return 0;
    return 1;
}

static int client_init(seriatim_client *c, const seriatim_options *options, seriatim_error *error)
{
    int status;
    srt_bytes_init(&c->name, c->mem);
    srt_bytes_init(&c->warning, c->mem);
    status = srt_registry_init(&c->registry, c->mem, options->ns ? options->ns : "seriatim", error);
    if (status != SERIATIM_OK)
        return status;
    if (options->name && !client_name_fits(options->name))
        return srt_fail(error, SERIATIM_INVALID, "name must be printable ASCII without spaces");
    if (options->max_payload > CLIENT_MAX_PAYLOAD)
        return srt_fail(error, SERIATIM_INVALID, "max_payload must be at most %lu bytes",
                        (unsigned long)CLIENT_MAX_PAYLOAD);
    c->max_payload = options->max_payload ? options->max_payload : SERIATIM_MAX_PAYLOAD;
    if (options->name && *options->name)
        srt_bytes_add(&c->name, options->name, strlen(options->name) + 1);
    if (srt_cluster_init(&c->cluster, c->mem) != SERIATIM_OK || c->name.failed)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    return SERIATIM_OK;
}

int seriatim_client_new(const seriatim_options *options, seriatim_client **client, seriatim_error *error)
{
    static const seriatim_options defaults = {NULL, NULL, NULL, 0, NULL};
    const seriatim_allocator *mem;
    seriatim_client *c;
    int status;
    if (!options)
        options = &defaults;
    mem = options->allocator ? options->allocator : seriatim_default_allocator();
    c = srt_alloc(mem, sizeof *c);
    if (!c)
        return srt_fail_plain(error, SERIATIM_NOMEM);
    c->mem = mem;
    c->push = &c->single;
    status = client_init(c, options, error);
    if (status != SERIATIM_OK) {
        seriatim_client_free(c);
        return status;
    }
    *client = c;
    return SERIATIM_OK;
}

void srt_client_release(seriatim_client *c)
{
    if (c->operation && c->operation->release)
        c->operation->release(c);
    c->operation = NULL;
    c->state = NULL;
}

void seriatim_client_free(seriatim_client *c)
{
    if (!c)
        return;
    srt_client_release(c);
    while (c->release_count > 0)
        c->releases[--c->release_count](c);
    srt_client_forget_absences(c);
    srt_client_drop_early(c);
    srt_cluster_free(&c->cluster);
    seriatim_turns_free(c->own_turns);
    srt_registry_free(&c->registry);
    srt_bytes_free(&c->name);
    srt_bytes_free(&c->warning);
    srt_free(c->mem, c, sizeof *c);
}

void srt_client_on_free(seriatim_client *c, void (*release)(seriatim_client *c))
{
    c->releases[c->release_count++] = release;
}

const seriatim_error *seriatim_client_error(const seriatim_client *c)
{
    return &c->error;
}

void srt_client_identify(seriatim_client *c, const unsigned char *random)
{
    static const char hex[] = "0123456789abcdef";
    size_t i;
    memset(c->identity, 0, sizeof c->identity);
    for (i = 0; random && i < SRT_IDENTITY; i++)
        c->identity[i] = hex[(i % 2 ? random[i / 2] : random[i / 2] >> 4) & 15];
}

void srt_client_host(seriatim_client *c, void (*before_begin)(void *host), void *host)
{
    c->before_begin = before_begin;
    c->host = host;
}

void srt_client_tell_time(seriatim_client *c, double unix_time)
{
    c->unix_time = unix_time;
}

int64_t srt_client_whole_ms(const seriatim_client *c)
{
    return c->operation && c->operation->limited ? c->push->limit_ms : 0;
}

void srt_client_tell_left(seriatim_client *c, int64_t left_ms)
{
    c->left_ms = left_ms;
}

/* ---- Queues -------------------------------------------------------------------------------- */

int seriatim_client_queue(seriatim_client *c, const seriatim_queue_settings *settings, size_t *queue)
{
    srt_queue *found;
    int status = srt_registry_add(&c->registry, settings, &found, &c->error);
    if (status == SERIATIM_OK)
        *queue = srt_registry_number(&c->registry, settings->name, settings->name_len);
    return status;
}

srt_queue *srt_client_queue_at(seriatim_client *c, size_t queue)
{
    if (queue < c->registry.count)
        return c->registry.queues[queue];
    srt_fail(&c->error, SERIATIM_INVALID, "there is no queue with the number %lu", (unsigned long)queue);
    return NULL;
}

unsigned seriatim_layout_shards(const seriatim_client *c, size_t queue)
{
    return queue < c->registry.count ? c->registry.queues[queue]->shards_count : 0;
}
