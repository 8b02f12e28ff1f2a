/*
 * names.c - lists the names of all queues: those in Redis and those of the host's workers.
 *
 * Redis finds them by SCAN over all its keys, which may be millions. So only the first request waits for the end of a
 * search; later ones show the names that are known, and each takes the next search a little further.
 */
#include "web/web.h"

#include <stdlib.h>
#include <string.h>

#define NAMES_SECONDS 10 /* for which the names hold, once finding them takes several calls */
#define NAMES_CHEAP_SLICES 1
/*
 * For which a request searches where names are known. The figures come after it, all within half a second also while
 * actions on a million ids keep Redis busy.
 */
#define NAMES_MS 100
/*
 * A search that a request left unfinished goes on if the next request comes within this time. Behind another Redis its
 * cursor may skip names, which are then missing until the next search has ended.
 */
#define NAMES_RESUMES 60

int srt_web_names_begin(seriatim_client *c, srt_web *w)
{
    double age = c->unix_time - w->names_at;
    if (w->names_at > 0 && w->names_slices > NAMES_CHEAP_SLICES && age >= 0 && age < NAMES_SECONDS)
        return SRT_WEB_DONE;
    age = c->unix_time - w->search_at;
    if (w->search.slices == 0 || srt_queue_names_complete(&w->search) || age < 0 || age >= NAMES_RESUMES)
        srt_queue_names_clear(&w->search);
    w->search_at = c->unix_time;
    return srt_queues_begin(c, &w->search, w->names_at > 0 ? NAMES_MS : SRT_QUEUES_ALL);
}

static int names_compare(const void *left, const void *right)
{
    const seriatim_text *a = left, *b = right;
    return srt_id_compare(a->data, a->len, b->data, b->len);
}

/* Those of Redis, and those that the host's workers have, whether or not Redis has heard of them. */
static size_t names_collect(const seriatim_client *c, const seriatim_text *found, size_t count, seriatim_text *names)
{
    size_t i, n = count, kept = 0;
    if (count)
        memcpy(names, found, count * sizeof *names);
    for (i = 0; i < c->registry.count; i++) {
        const srt_queue *queue = c->registry.queues[i];
        if (queue->own.shards_count == 0)
            continue;
        names[n].data = queue->name.data;
        names[n++].len = queue->name.len;
    }
    if (n > 1)
        qsort(names, n, sizeof *names, names_compare);
    for (i = 0; i < n; i++)
        if (kept == 0 || names_compare(&names[i], &names[kept - 1]) != 0)
            names[kept++] = names[i];
    return kept;
}

int srt_web_names_take(seriatim_client *c, srt_web *w)
{
    size_t count, i;
    const seriatim_text *found = seriatim_queues_result(c, &count);
    seriatim_text *names;
    if (!srt_queue_names_complete(&w->search))
        return SERIATIM_OK; /* the known names stay */
    w->name_count = 0;
    w->names_at = 0;
    srt_arena_reset(&w->names_memory);
    names = srt_arena_alloc(&w->names_memory, (count + c->registry.count + 1) * sizeof *names);
    if (!names)
        return SERIATIM_NOMEM;
    count = names_collect(c, found, count, names);
    for (i = 0; i < count; i++) {
        names[i].data = srt_arena_copy(&w->names_memory, names[i].data, names[i].len);
        if (!names[i].data)
            return SERIATIM_NOMEM;
    }
    w->names = names;
    w->name_count = count;
    w->names_at = c->unix_time;
    w->names_slices = w->search.slices;
    srt_queue_names_clear(&w->search);
    return SERIATIM_OK;
}
