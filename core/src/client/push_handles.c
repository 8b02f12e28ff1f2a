/* push_handles.c - the handles that a push answers for its jobs. */
#include "client/handle.h"
#include "client/push.h"

/* The next whole number of up to 16 digits, or -1; a space before it is passed over. */
static int64_t handles_read_number(const char **at, const char *end)
{
    int64_t value = 0;
    const char *start;
    if (*at < end && **at == ' ')
        ++*at;
    start = *at;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 16; ++*at)
        value = value * 10 + (**at - '0');
    return *at == start ? -1 : value;
}

/* An answer must not fail for lack of memory, so the texts are there before the jobs are sent. */
int srt_push_make_handles(seriatim_client *c, const srt_queue *queue)
{
    srt_push *p = c->push;
    seriatim_text name = {queue->name.data, queue->name.len};
    size_t i;
    if (!p->wants_handles || p->handles)
        return SERIATIM_OK;
    p->handles = srt_arena_alloc(&p->handle_arena, p->job_count * sizeof *p->handles);
    p->handle_texts = srt_arena_alloc(&p->handle_arena, p->job_count * sizeof *p->handle_texts);
    if (!p->handles || !p->handle_texts)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    for (i = 0; i < p->job_count; i++) {
        size_t id_len;
        const char *id = srt_push_id(&p->jobs[i], &id_len);
        size_t len = srt_handle_size(queue->name.len, id_len);
        char *text = srt_arena_alloc(&p->handle_arena, len);
        if (!text)
            return srt_fail_plain(&c->error, SERIATIM_NOMEM);
        srt_handle_write(text, name, id, id_len);
        p->handles[i].data = p->handle_texts[i] = text;
        p->handles[i].len = len;
    }
    p->handle_count = p->job_count;
    return SERIATIM_OK;
}

/* A job may be answered twice: then the later answer counts. */
static void handles_arrive(srt_push *p, size_t place, int64_t stamp)
{
    p->handles[place].data = stamp > 0 ? p->handle_texts[place] : NULL;
    if (stamp > 0)
        srt_handle_arrive(p->handle_texts[place], p->jobs[place].scored, (double)stamp);
}

/* 'a' and the arrival before that of the first job, then 'place=arrival' of those that have another, or none (0). */
int srt_push_take_arrivals(srt_push *p, const srt_push_chunk *chunk, size_t taken, const char **at, const char *end)
{
    int64_t base, place;
    size_t i;
    ++*at;
    base = handles_read_number(at, end);
    if (base < 0 || !p->handles)
        return SERIATIM_PROTOCOL;
    for (i = 0; i < taken; i++)
        handles_arrive(p, p->places[chunk->first + i], base + (int64_t)i + 1);
    while (*at < end) {
        place = handles_read_number(at, end);
        if (place < 1 || place > (int64_t)taken || *at == end || **at != '=')
            return SERIATIM_PROTOCOL;
        ++*at;
        handles_arrive(p, p->places[chunk->first + (size_t)place - 1], handles_read_number(at, end));
    }
    return SERIATIM_OK;
}

const seriatim_text *seriatim_push_handles(const seriatim_client *c, size_t *count)
{
    *count = c->push->handle_count;
    return c->push->handles;
}
