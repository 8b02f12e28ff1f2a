/* fake_push.c - a push to a queue in memory: what core/scripts/client/push.lua does, on the jobs that it would be sent.
 */
#include "client/handle.h"
#include "client/push.h"
#include "fake/fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What packed options hold (push_pack.c, push.lua). */
enum { HAS_SCORE = 1, HAS_DUE = 2, HAS_DELAY = 4, HAS_DELIVER_AT = 8, HAS_DELIVER_IN = 16 };

/* One job of the push, and what became of it. */
typedef struct fake_pushed {
    srt_fake_id *id;
    double arrival; /* 0: it was not kept */
    int scheduled;
} fake_pushed;

/* The next of a job's encoded arguments: "$2\r\nid\r\n". */
static seriatim_text fake_next_arg(const char **at)
{
    seriatim_text arg;
    arg.len = (size_t)strtoul(*at + 1, NULL, 10);
    arg.data = strchr(*at, '\n') + 1;
    *at = arg.data + arg.len + 2;
    return arg;
}

static const char *fake_word(const srt_fake_queue *q, unsigned place)
{
    static const char *const words[] = {"keep", "earlier", "later", "replace", "reject", "unique"};
    return place >= 1 && place <= 6 ? words[place - 1] : q->known->now.on_waiting;
}

static int64_t fake_retry(const char *at)
{
    uint32_t bits = 0;
    int i;
    for (i = 3; i >= 0; i--)
        bits = bits << 8 | (unsigned char)at[i];
    return bits == UINT32_MAX ? -1 : (int64_t)bits;
}

/* The times of a job, as it was pushed; *context is what follows them. */
static void fake_read_times(const srt_fake_queue *q, srt_fake_entry *e, seriatim_text *context)
{
    const char *at = context->data;
    int has = *at;
    double time = srt_little_double(at + 9);
    size_t fixed = 22;
    if (has >= HAS_DELIVER_AT) {
        e->deliver_at = (int64_t)srt_little_double(at + 22) + (has >= HAS_DELIVER_IN ? q->now : 0);
        fixed = 30;
    }
    if (has & HAS_SCORE) {
        e->score = srt_little_double(at + 1);
        e->scored = 1;
    }
    if (has & HAS_DELAY)
        e->delay = (int64_t)floor(time);
    else if (has & HAS_DUE)
        e->due = (int64_t)floor(time);
    e->retry = fake_retry(at + 17);
    e->word = fake_word(q, (unsigned char)at[21]);
    context->data += fixed;
    context->len -= fixed;
}

/* The job at this place as an entry, which arrives at `stamp`. *id: its id. NULL: out of memory. */
static srt_fake_entry *fake_read_job(srt_fake_queue *q, const srt_push_job *job, int64_t stamp, srt_fake_id **id)
{
    const char *at = job->bytes;
    seriatim_text name = fake_next_arg(&at), payload = fake_next_arg(&at), context = fake_next_arg(&at);
    srt_fake_entry e;
    memset(&e, 0, sizeof e);
    e.stamp = (double)stamp;
    e.score = e.stamp / 1e6;
    e.retry = -1;
    e.word = q->known->now.on_waiting;
    if (context.len)
        fake_read_times(q, &e, &context);
    *id = srt_fake_id_of(q, name.data, name.len);
    return *id ? srt_fake_entry_new(q->mem, &e, payload, context) : NULL;
}

static int fake_refuses(const srt_fake_id *id, const char *word)
{
    int waits = id->fence ? id->behind.there : id->waiting.there;
    if (strcmp(word, "reject") == 0)
        return waits;
    return strcmp(word, "unique") == 0 && (waits || id->fence || id->scheduled.count);
}

static int fake_schedule(srt_fake_queue *q, srt_fake_id *id, srt_fake_entry *entry)
{
    int status = srt_fake_entries_add(q->mem, &id->scheduled, entry);
    q->scheduled += status == SERIATIM_OK;
    return status;
}

/* The job arrives now. */
static int fake_arrive(srt_fake_queue *q, fake_pushed *pushed, srt_fake_entry *entry, seriatim_push_counts *counts)
{
    srt_fake_job job = {entry, SRT_FAKE_READY, (int64_t)entry->stamp};
    int64_t due = entry->delay ? q->now + entry->delay : entry->due;
    int added, status;
    if (due > q->now) {
        job.due = due;
        job.place = SRT_FAKE_DUE;
    }
    status = srt_fake_join(q, pushed->id, &job, &added, &pushed->arrival);
    if (status == SERIATIM_OK)
        *(added ? &counts->added : &counts->folded) += 1;
    return status;
}

static int fake_push_one(srt_fake_queue *q, srt_push *p, size_t i, int64_t stamp, fake_pushed *pushed)
{
    srt_fake_entry *entry = fake_read_job(q, &p->jobs[i], stamp, &pushed->id);
    int stale, refused;
    if (!entry)
        return SERIATIM_NOMEM;
    stale = srt_fake_is_stale(q, pushed->id, entry);
    refused = !stale && fake_refuses(pushed->id, entry->word);
    if (stale || refused) {
        srt_fake_entry_free(q->mem, entry);
        p->counts.stale += (size_t)stale;
        if (refused)
            p->refused[p->counts.refused++] = i;
        return SERIATIM_OK;
    }
    pushed->arrival = entry->stamp;
    if (entry->deliver_at <= q->now)
        return fake_arrive(q, pushed, entry, &p->counts);
    pushed->scheduled = 1;
    p->counts.scheduled++;
    return fake_schedule(q, pushed->id, entry);
}

/* Is the payload that arrived then still there, after the other jobs of the push? Folding may have removed it. */
static int fake_is_kept_yet(const fake_pushed *pushed)
{
    const srt_fake_record *record = pushed->id->fence ? &pushed->id->behind : &pushed->id->waiting;
    return pushed->scheduled || srt_fake_entries_find(&record->entries, pushed->arrival) < record->entries.count;
}

static void fake_fill_handles(srt_push *p, const fake_pushed *pushed)
{
    size_t i;
    for (i = 0; i < p->handle_count; i++) {
        if (pushed[i].arrival > 0 && fake_is_kept_yet(&pushed[i]))
            srt_handle_arrive((char *)p->handles[i].data, p->jobs[i].scored, pushed[i].arrival);
        else
            p->handles[i].data = NULL;
    }
}

static int fake_push_all(srt_fake_queue *q, srt_push *p, fake_pushed *pushed)
{
    int64_t base = (q->tick + 1 > q->now ? q->tick + 1 : q->now) - 1;
    size_t i;
    int status = SERIATIM_OK;
    q->tick = base + (int64_t)p->job_count;
    for (i = 0; i < p->job_count && status == SERIATIM_OK; i++)
        status = fake_push_one(q, p, i, base + 1 + (int64_t)i, &pushed[i]);
    if (status == SERIATIM_OK)
        fake_fill_handles(p, pushed);
    return status;
}

/* What may fail for lack of memory, before a job is kept. */
static int fake_prepare(srt_fake *fake, const srt_fake_queue *q, fake_pushed **pushed)
{
    srt_push *p = fake->client->push;
    void *refused = p->refused;
    int status = srt_push_make_handles(fake->client, q->known);
    if (status != SERIATIM_OK)
        return status;
    if (srt_grow(fake->client->mem, &refused, &p->refused_cap, p->job_count, sizeof *p->refused) != SERIATIM_OK)
        return srt_fake_no_memory(fake);
    p->refused = refused;
    *pushed = srt_alloc(fake->mem, p->job_count * sizeof **pushed);
    return *pushed ? SERIATIM_OK : srt_fake_no_memory(fake);
}

int srt_fake_push(srt_fake *fake, int64_t now)
{
    seriatim_client *c = fake->client;
    srt_push *p = c->push;
    fake_pushed *pushed = NULL;
    srt_fake_queue *q;
    int status = srt_push_seal(c);
    if (status != SERIATIM_OK || p->job_count == 0)
        return status;
    q = srt_fake_queue_at(fake, c->queue, now);
    status = q ? fake_prepare(fake, q, &pushed) : c->error.status;
    if (status != SERIATIM_OK)
        return status;
    status = fake_push_all(q, p, pushed);
    srt_free(fake->mem, pushed, p->job_count * sizeof *pushed);
    srt_push_forget_jobs(c);
    return status == SERIATIM_OK ? status : srt_fake_no_memory(fake);
}
