/* handle.c - writes and reads handles of payloads; the operations cancel and reschedule. */
#include "client/handle.h"
#include "client/operator.h"

#include <math.h>
#include <string.h>

#define HANDLE_PLAIN 1
#define HANDLE_SCORED 2
#define HANDLE_HEAD 9 /* bytes before the length of the queue's name */

/* ---- Text ---------------------------------------------------------------------------------- */

static const char handle_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Adds bytes to a text one by one; a group of three becomes four characters. */
typedef struct handle_writer {
    char *at;
    unsigned bits, count;
} handle_writer;

static void handle_flush(handle_writer *w)
{
    unsigned i, bits = w->bits << (8 * (3 - w->count));
    for (i = 0; w->count && i <= w->count; i++)
        *w->at++ = handle_digits[(bits >> (18 - 6 * i)) & 63];
    w->bits = w->count = 0;
}

static void handle_add(handle_writer *w, const void *data, size_t len)
{
    const unsigned char *at = data;
    for (; len; len--) {
        w->bits = w->bits << 8 | *at++;
        if (++w->count == 3)
            handle_flush(w);
    }
}

size_t srt_text64_size(size_t len)
{
    return len / 3 * 4 + (len % 3 ? len % 3 + 1 : 0);
}

size_t srt_handle_size(size_t queue_len, size_t id_len)
{
    return srt_text64_size(HANDLE_HEAD + 2 + queue_len + id_len);
}

void srt_handle_arrive(char *out, int scored, double arrival)
{
    handle_writer w = {out, 0, 0};
    char head[HANDLE_HEAD];
    head[0] = scored ? HANDLE_SCORED : HANDLE_PLAIN;
    srt_number_pack(head + 1, arrival);
    handle_add(&w, head, sizeof head);
}

void srt_handle_write(char *out, seriatim_text queue, const char *id, size_t id_len)
{
    handle_writer w = {out + HANDLE_HEAD / 3 * 4, 0, 0};
    char size[2];
    srt_handle_arrive(out, 0, 0);
    size[0] = (char)(queue.len >> 8);
    size[1] = (char)queue.len;
    handle_add(&w, size, 2);
    handle_add(&w, queue.data, queue.len);
    handle_add(&w, id, id_len);
    handle_flush(&w);
}

size_t srt_claimed_handle_size(seriatim_text queue, const seriatim_claimed *job)
{
    return srt_handle_size(queue.len, job->id_len);
}

void srt_claimed_handle(seriatim_text queue, const seriatim_claimed *job, size_t place, char *out)
{
    srt_handle_write(out, queue, job->id, job->id_len);
    srt_handle_arrive(out, job->payloads[place].has_score, job->payloads[place].stamp);
}

void srt_text64_write(char *out, const char *data, size_t len)
{
    handle_writer w = {out, 0, 0};
    handle_add(&w, data, len);
    handle_flush(&w);
}

size_t srt_text64_read(seriatim_text text, char *out)
{
    unsigned bits = 0, count = 0;
    size_t i, len = 0;
    for (i = 0; i < text.len; i++) {
        const char *digit = text.data[i] ? strchr(handle_digits, text.data[i]) : NULL;
        if (!digit)
            return 0;
        bits = bits << 6 | (unsigned)(digit - handle_digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[len++] = (char)(bits >> count);
            bits &= (1U << count) - 1;
        }
    }
    return text.len % 4 == 1 || bits ? 0 : len;
}

/* ---- Cancel and reschedule ------------------------------------------------------------------- */

typedef struct handle_state {
    srt_arena memory;
    const char *id, *stamp;
    size_t id_len;
    int script, scored;
    double at; /* microseconds, of reschedule */
    srt_queue *queue;
    int64_t done;
} handle_state;

static void handle_release(seriatim_client *c)
{
    handle_state *h = c->state;
    srt_arena_free(&h->memory);
    srt_free(c->mem, h, sizeof *h);
}

static int handle_ask(seriatim_client *c, handle_state *h, const char *cursor, size_t len)
{
    srt_request *r = srt_client_id_request(c, h->queue, h->id, h->id_len, h->script, 2);
    if (!r)
        return SERIATIM_NOMEM;
    srt_request_arg(r, h->id, h->id_len);
    srt_request_arg(r, h->stamp, 8);
    srt_request_arg(r, cursor, len);
    if (h->script == srt_script_reschedule) {
        srt_request_int(r, (int64_t)h->at);
        srt_request_int(r, h->scored);
    }
    return srt_client_send(c, r);
}

static int handle_send(seriatim_client *c, srt_queue *queue)
{
    handle_state *h = c->state;
    h->queue = queue;
    return queue->shards_count ? handle_ask(c, h, "", 0) : SERIATIM_OK;
}

static int handle_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    handle_state *h = c->state;
    const srt_token *cursor = &reply->tokens[2];
    (void)r;
    if (!srt_reply_is_list(reply, 2))
        return srt_operator_protocol(c, "an action");
    h->done += srt_token_int(&reply->tokens[1]);
    return cursor->len ? handle_ask(c, h, cursor->data, cursor->len) : SERIATIM_OK;
}

static int handle_refuse(seriatim_client *c)
{
    return srt_fail(&c->error, SERIATIM_INVALID, "the handle is not one that a push has answered");
}

int srt_handle_read(srt_arena *memory, seriatim_text text, srt_handle *handle)
{
    char *bytes = srt_arena_alloc(memory, text.len + 1);
    size_t len, name_len;
    if (!bytes)
        return SERIATIM_NOMEM;
    len = text.data ? srt_text64_read(text, bytes) : 0;
    if (len < HANDLE_HEAD + 4 || (bytes[0] != HANDLE_PLAIN && bytes[0] != HANDLE_SCORED))
        return SERIATIM_INVALID;
    name_len = (size_t)(unsigned char)bytes[HANDLE_HEAD] << 8 | (unsigned char)bytes[HANDLE_HEAD + 1];
    if (len <= HANDLE_HEAD + 2 + name_len || len - HANDLE_HEAD - 2 - name_len > SERIATIM_MAX_ID)
        return SERIATIM_INVALID;
    handle->scored = bytes[0] == HANDLE_SCORED;
    handle->stamp = bytes + 1;
    handle->queue.data = bytes + HANDLE_HEAD + 2;
    handle->queue.len = name_len;
    handle->id.data = handle->queue.data + name_len;
    handle->id.len = len - HANDLE_HEAD - 2 - name_len;
    return SERIATIM_OK;
}

int srt_handle_check(seriatim_client *c, srt_arena *memory, const srt_queue *queue, seriatim_text text,
                     srt_handle *handle)
{
    int status = srt_handle_read(memory, text, handle);
    if (status == SERIATIM_NOMEM)
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    if (status != SERIATIM_OK)
        return handle_refuse(c);
    if (handle->queue.len != queue->name.len || memcmp(handle->queue.data, queue->name.data, queue->name.len) != 0)
        return srt_fail(&c->error, SERIATIM_INVALID, "handle is of the queue \"%.*s\"",
                        (int)(handle->queue.len < 150 ? handle->queue.len : 150), handle->queue.data);
    return SERIATIM_OK;
}

static int handle_read(seriatim_client *c, handle_state *h, const srt_queue *queue, seriatim_text text)
{
    srt_handle handle;
    int status = srt_handle_check(c, &h->memory, queue, text, &handle);
    if (status != SERIATIM_OK)
        return status;
    h->scored = handle.scored;
    h->stamp = handle.stamp;
    h->id = handle.id.data;
    h->id_len = handle.id.len;
    return SERIATIM_OK;
}

static int handle_begin(seriatim_client *c, size_t queue, int script, seriatim_text text, double at)
{
    static const srt_operation operation = {
        .fresh = 1, .send = handle_send, .on_reply = handle_on_reply, .release = handle_release};
    const srt_queue *known;
    handle_state *h;
    int status;
    if (!(known = srt_client_queue_at(c, queue)))
        return SERIATIM_INVALID;
    h = srt_operator_state(c, sizeof *h);
    if (!h)
        return SERIATIM_NOMEM;
    srt_arena_init(&h->memory, c->mem);
    h->script = script;
    h->at = at > 0 ? floor(at * 1e6 + 0.5) : 0; /* a text of 17 digits is read with an error below a microsecond */
    c->state = h;
    status = handle_read(c, h, known, text);
    if (status != SERIATIM_OK) {
        handle_release(c);
        c->state = NULL;
        return status;
    }
    return srt_client_start(c, &operation, queue);
}

int srt_handle_read_time(seriatim_client *c, seriatim_text text, double *at)
{
    if (!text.data || !srt_decimal_read(text.data, text.len, at))
        return srt_fail(&c->error, SERIATIM_INVALID, "at must be a finite number");
    return srt_check_unix_time(c, "", "at", "add them to the present time", *at);
}

int srt_handle_begin(seriatim_client *c, size_t queue, int script, const seriatim_text *texts, size_t count)
{
    size_t wanted = script == srt_script_reschedule ? 2 : 1;
    double at = 0;
    int status = SERIATIM_OK;
    if (count != wanted || !texts)
        return srt_fail(&c->error, SERIATIM_INVALID, "a handle%s is to be given", wanted == 2 ? " and a time" : "");
    if (wanted == 2)
        status = srt_handle_read_time(c, texts[1], &at);
    return status == SERIATIM_OK ? handle_begin(c, queue, script, texts[0], at) : status;
}

int64_t srt_handle_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == handle_send && ((const handle_state *)c->state)->done > 0;
}
