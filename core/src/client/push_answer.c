/* push_answer.c - reads what a shard says of a chunk, and counts. */
#include "client/push.h"

#include <stdlib.h>
#include <string.h>

/* The jobs of a chunk that an answer was about have their outcome. What is left of it goes under a new number. */
void srt_push_settle_chunk(srt_push *p, srt_push_chunk *chunk)
{
    size_t taken = chunk->taken;
    p->flying -= chunk->bytes;
    for (; taken > 0; taken--, chunk->first++, chunk->count--) {
        srt_push_job *job = &p->jobs[p->places[chunk->first]];
        chunk->bytes -= job->len;
        if (!job->away) {
            job->bytes = NULL;
            p->pending_jobs--;
        }
        job->away = 0;
    }
    chunk->taken = 0;
    chunk->sequence = 0;
    p->pending_chunks -= chunk->count == 0;
}

/* The next number of an answer, or SIZE_MAX at its end and for what is no number. */
static size_t push_read_number(const char **at, const char *end)
{
    size_t value = 0;
    const char *start;
    if (*at < end && **at == ' ')
        ++*at;
    start = *at;
    for (; *at < end && **at >= '0' && **at <= '9' && *at - start < 9; ++*at)
        value = value * 10 + (size_t)(**at - '0');
    return *at == start ? SIZE_MAX : value;
}

int srt_push_fail_answer(seriatim_client *c, const char *text)
{
    return c->failed != SERIATIM_OK
               ? c->failed
               : srt_fail(&c->error, SERIATIM_PROTOCOL, "the answer to a push cannot be read: %.60s", text);
}

/* The number behind this letter, if it comes next; else 0. */
static size_t push_take_lettered(char letter, const char **at, const char *end)
{
    size_t number;
    if (*at == end || **at != letter)
        return 0;
    ++*at;
    number = push_read_number(at, end);
    if (*at < end && **at == ' ')
        ++*at;
    return number;
}

void srt_push_mark(srt_push *p, const srt_push_chunk *chunk, char outcome)
{
    size_t i;
    for (i = 0; p->outcomes && i < chunk->count; i++)
        p->outcomes[p->places[chunk->first + i]] = outcome;
}

/* 'l' and a letter for each job that was taken; without them all are new. *away: how many of them were not written. */
static int push_take_letters(seriatim_client *c, const srt_push_chunk *chunk, size_t taken, size_t *away,
                             const char **at, const char *end)
{
    const char *letters = *at < end && **at == 'l' ? *at + 1 : NULL;
    srt_push *p = c->push;
    size_t i;
    int may_be_away = chunk->step == SRT_PUSH_HERE || chunk->step == SRT_PUSH_UNLESS;
    *away = 0;
    if (letters && ((!p->outcomes && !may_be_away) || (size_t)(end - letters) < taken))
        return SERIATIM_PROTOCOL;
    for (i = 0; i < taken; i++) {
        srt_push_job *job = &p->jobs[p->places[chunk->first + i]];
        char letter = letters ? letters[i] : SERIATIM_JOB_ADDED;
        if (!memchr(SRT_PUSH_LETTERS, letter, sizeof SRT_PUSH_LETTERS - 1))
            return SERIATIM_PROTOCOL;
        job->away = 0; /* else of an answer that was lost before it counted */
        if (letter == 'm' || letter == 'g' || letter == 'h') {
            srt_push_note_away(c, job, letter);
            ++*away;
        } else if (p->outcomes) {
            p->outcomes[p->places[chunk->first + i]] = letter;
        }
    }
    if (letters)
        *at = letters + taken;
    if (*at < end && **at == ' ')
        ++*at;
    return SERIATIM_OK;
}

/* 'k' and the tick of the shard that ids leave: what arrives for them in their new shard has to come later. */
static void push_take_floor(srt_push *p, const char **at, const char *end)
{
    double tick = 0;
    if (*at == end || **at != 'k')
        return;
    for (++*at; *at < end && **at >= '0' && **at <= '9'; ++*at)
        tick = tick * 10 + (**at - '0');
    if (*at < end && **at == ' ')
        ++*at;
    if (tick > p->floor)
        p->floor = tick;
}

/*
 * What follows the places of refused jobs: 's' and the number of scheduled jobs, 't' and that of stale ones, 'o' and
 * that of jobs of an outbox that were written before, then what push_take_floor, push_take_letters and
 * srt_push_take_arrivals read.
 */
static int push_take_more(seriatim_client *c, const srt_push_chunk *chunk, size_t taken, size_t *scheduled,
                          size_t *stale, size_t *repeated, size_t *away, const char **at, const char *end)
{
    srt_push *p = c->push;
    *scheduled = push_take_lettered('s', at, end);
    *stale = push_take_lettered('t', at, end);
    *repeated = push_take_lettered('o', at, end);
    push_take_floor(p, at, end);
    if (push_take_letters(c, chunk, taken, away, at, end) != SERIATIM_OK)
        return SERIATIM_PROTOCOL;
    if (*at < end && **at == 'a' && srt_push_take_arrivals(p, chunk, taken, at, end) != SERIATIM_OK)
        return SERIATIM_PROTOCOL;
    return *at == end && *scheduled <= taken && *stale <= taken && *repeated <= taken ? SERIATIM_OK : SERIATIM_PROTOCOL;
}

/* 'taken new folded', then the places of refused jobs from 1, then what push_take_more reads. */
static int push_take_counts(seriatim_client *c, srt_push_chunk *chunk, const char *text, size_t len)
{
    srt_push *p = c->push;
    const char *at = text, *end = text + len;
    size_t before = p->counts.refused, scheduled, stale, repeated, away, place, i, taken = push_read_number(&at, end),
           added = push_read_number(&at, end), folded = push_read_number(&at, end);
    if (taken < 1 || taken > chunk->count || added > taken || folded > taken)
        return srt_push_fail_answer(c, text);
    while ((place = push_read_number(&at, end)) != SIZE_MAX) {
        if (place < 1 || place > taken)
            return srt_push_fail_answer(c, text);
        if (p->counts.refused == p->refused_cap)
            return srt_push_fail_answer(c, text);
        p->refused[p->counts.refused++] = p->places[chunk->first + place - 1];
    }
    if (push_take_more(c, chunk, taken, &scheduled, &stale, &repeated, &away, &at, end) != SERIATIM_OK ||
        added + folded + scheduled + stale + repeated + away + p->counts.refused - before != taken)
        return srt_push_fail_answer(c, text);
    for (i = before; p->handles && i < p->counts.refused; i++)
        p->handles[p->refused[i]].data = NULL;
    p->counts.scheduled += scheduled;
    p->counts.stale += stale;
    p->counts.repeated += repeated;
    chunk->taken = taken;
    p->written_chunks += taken == chunk->count && away < taken;
    p->counts.added += added;
    p->counts.folded += folded;
    return SERIATIM_OK;
}

/* A WAIT behind this request, on the same connection, counts the replicas of the chunk. */
static void push_note_written(const seriatim_client *c, srt_push_chunk *chunk, const srt_request *r)
{
    chunk->doubt = SRT_PUSH_UNCOUNTED;
    chunk->peer = c->answering;
    chunk->starts = r->starts;
}

int srt_push_take_written(seriatim_client *c, const srt_request *r, const char *text, size_t len)
{
    srt_push *p = c->push;
    srt_push_chunk *chunk = &p->chunks[r->place];
    size_t refused = p->counts.refused;
    int status = push_take_counts(c, chunk, text, len);
    if (status != SERIATIM_OK) {
        p->counts.refused = refused;
        return srt_client_fail(c, status);
    }
    if (p->replicas && p->shortage.status == SERIATIM_OK) {
        push_note_written(c, chunk, r);
        if (p->unsure++ == 0)
            p->fewest = INT64_MAX;
        return SERIATIM_OK;
    }
    srt_push_settle_chunk(p, chunk);
    return srt_push_go_on(c, r->place);
}

/* The tick of the shard, if none of the ids is there; else ''. */
int srt_push_take_asked(seriatim_client *c, size_t i, const srt_token *answer)
{
    srt_push *p = c->push;
    srt_push_chunk *chunk = &p->chunks[i];
    size_t at;
    double tick = answer->len ? strtod(answer->data, NULL) : 0;
    if (tick > p->floor)
        p->floor = tick;
    chunk->found = answer->len == 0;
    for (at = chunk->first; at < chunk->first + chunk->count; at++)
        if (chunk->found)
            p->jobs[p->places[at]].away = 1;
        else
            srt_push_note_away(c, &p->jobs[p->places[at]], 'm');
    chunk->taken = chunk->count;
    srt_push_settle_chunk(p, chunk);
    return srt_push_go_on(c, i);
}

/*
 * The token of a chunk whose layout grew old under way: 'sequence answer' of what this shard took from us last. A
 * number says that it was renewed.
 */
int srt_push_take_token(seriatim_client *c, const srt_request *r, const srt_token *token)
{
    srt_push_chunk *chunk = &c->push->chunks[r->place];
    const char *space = token->type == SRT_STRING ? memchr(token->data, ' ', token->len) : NULL;
    if (token->type == SRT_INTEGER && chunk->doubt != SRT_PUSH_CERTAIN)
        push_note_written(c, chunk, r);
    if (!space || srt_token_int(token) != chunk->sequence)
        return SERIATIM_OK; /* it was not written: it is planned again */
    return srt_push_take_written(c, r, space + 1, token->len - (size_t)(space + 1 - token->data));
}
