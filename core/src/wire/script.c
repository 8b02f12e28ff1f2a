/* script.c - a session: the commands and scripts that are sent to one Redis, in order, and their replies. */
#define SRT_SCRIPT_TEXTS
#include "wire/script.h"

#include <string.h>

static const struct {
    const char *text;
    size_t len;
    const char *sha;
} script_table[] = {
#define X(name, sha) {srt_script_text_##name, sizeof srt_script_text_##name - 1, sha},
    SRT_SCRIPTS(X)
#undef X
};

int srt_session_init(srt_session *s, const seriatim_allocator *mem, int listens)
{
    memset(s, 0, sizeof *s);
    s->mem = mem;
    s->listens = listens;
    srt_bytes_init(&s->out, mem);
    s->reader = srt_reader_new(mem);
    return s->reader ? SERIATIM_OK : SERIATIM_NOMEM;
}

static void session_free_request(srt_session *s, srt_request *r)
{
    srt_bytes_free(&r->tail);
    srt_free(s->mem, r, sizeof *r);
}

void srt_session_drop(srt_session *s)
{
    while (s->first) {
        srt_request *r = s->first;
        s->first = r->next;
        session_free_request(s, r);
    }
    s->last = NULL;
    s->waiting = 0;
    srt_bytes_clear(&s->out);
}

void srt_session_free(srt_session *s)
{
    srt_session_drop(s);
    while (s->spare) {
        srt_request *r = s->spare;
        s->spare = r->next;
        session_free_request(s, r);
    }
    srt_bytes_free(&s->out);
    srt_reader_free(s->reader);
    s->reader = NULL;
}

srt_request *srt_session_begin(srt_session *s, int script, const srt_bytes *key_args, size_t keys)
{
    srt_request *r = s->spare;
    srt_bytes tail;
    if (r) {
        s->spare = r->next;
        tail = r->tail;
        srt_bytes_clear(&tail);
        memset(r, 0, sizeof *r);
        r->tail = tail;
    } else {
        r = srt_alloc(s->mem, sizeof *r);
        if (!r)
            return NULL;
        srt_bytes_init(&r->tail, s->mem);
    }
    r->script = script;
    if (key_args)
        srt_bytes_add(&r->tail, key_args->data, key_args->len);
    r->args = r->keys = keys;
    return r;
}

void srt_request_arg(srt_request *r, const void *data, size_t len)
{
    srt_resp_arg(&r->tail, data, len);
    r->args++;
}

void srt_request_text(srt_request *r, const char *text)
{
    srt_request_arg(r, text, strlen(text));
}

void srt_request_int(srt_request *r, int64_t value)
{
    srt_resp_arg_int(&r->tail, value);
    r->args++;
}

/* The bulk string at *at, which ends up behind it. */
static const char *request_read_arg(const char **at, size_t *len)
{
    const char *data;
    *len = 0;
    for (++*at; **at != '\r'; ++*at)
        *len = *len * 10 + (size_t)(**at - '0');
    data = *at + 2;
    *at = data + *len + 2;
    return data;
}

const char *srt_request_key(const srt_request *r, size_t *len)
{
    const char *at = r->tail.data, *key, *third;
    size_t third_len;
    if (r->tail.failed || (r->script == srt_script_none ? r->args < 2 : r->keys < 1))
        return NULL;
    key = request_read_arg(&at, len);
    if (r->script != srt_script_none)
        return key;
    key = request_read_arg(&at, len);
    if (r->args == 2 || memchr(key, '{', *len))
        return key;
    third = request_read_arg(&at, &third_len);
    if (!memchr(third, '{', third_len))
        return key;
    *len = third_len;
    return third;
}

void srt_request_copy_args(srt_request *r, const srt_request *other, size_t skip)
{
    const char *at = other->tail.data, *end = other->tail.data + other->tail.len;
    size_t i, len;
    for (i = 0; i < skip; i++)
        request_read_arg(&at, &len);
    srt_bytes_add(&r->tail, at, (size_t)(end - at));
    r->args += other->args - skip;
}

/* Appends the whole command, or nothing. */
static int session_encode(srt_session *s, srt_request *r, int by_text)
{
    size_t before = s->out.len;
    if (r->asking) {
        srt_resp_array(&s->out, 1);
        srt_resp_arg(&s->out, "ASKING", 6);
        r->asking = 1;
    }
    if (r->script == srt_script_none) {
        srt_resp_array(&s->out, r->args);
    } else {
        srt_resp_array(&s->out, r->args + 3);
        srt_resp_arg(&s->out, by_text ? "EVAL" : "EVALSHA", by_text ? 4 : 7);
        if (by_text)
            srt_resp_arg(&s->out, script_table[r->script].text, script_table[r->script].len);
        else
            srt_resp_arg(&s->out, script_table[r->script].sha, 40);
        srt_resp_arg_int(&s->out, (int64_t)r->keys);
    }
    srt_bytes_add(&s->out, r->tail.data, r->tail.len);
    if (s->out.failed) {
        s->out.len = before;
        s->out.failed = 0;
        return SERIATIM_NOMEM;
    }
    r->starts = s->gone + before;
    r->encoded = 1;
    s->commands++;
    return SERIATIM_OK;
}

static void session_append(srt_session *s, srt_request *r)
{
    r->next = NULL;
    r->session = s;
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    s->waiting++;
}

int srt_request_left(const srt_request *r)
{
    return r->left || (r->encoded && r->starts < r->session->gone);
}

/* The connection has ended. */
static void session_forget_sent(srt_session *s)
{
    srt_request *r;
    for (r = s->first; r; r = r->next) {
        r->left = srt_request_left(r);
        r->encoded = 0;
    }
}

/* If AUTH or SELECT is refused, the session fails: what follows would be done as another user or in another database.
 */
static int session_may_send(const srt_session *s, const srt_request *r)
{
    return s->connected && (r->handshake || s->greeting == 0);
}

static int session_queue(srt_session *s, srt_request *r, int by_text)
{
    if (r->tail.failed || (session_may_send(s, r) && session_encode(s, r, by_text) != SERIATIM_OK)) {
        session_free_request(s, r);
        return SERIATIM_NOMEM;
    }
    session_append(s, r);
    return SERIATIM_OK;
}

int srt_session_send(srt_session *s, srt_request *r)
{
    return session_queue(s, r, 0);
}

/* Asks once more what Redis did not do. The request is kept also when memory is short: the next connection sends it. */
static int session_repeat(srt_session *s, srt_request *r, int by_text)
{
    int status = session_may_send(s, r) ? session_encode(s, r, by_text) : SERIATIM_OK;
    session_append(s, r);
    return status;
}

int srt_session_again(srt_session *s, srt_request *r)
{
    return session_repeat(s, r, 0);
}

void srt_session_take(srt_session *s, srt_request *r, srt_request *before)
{
    if (before)
        before->next = r->next;
    else
        s->first = r->next;
    if (s->last == r)
        s->last = before;
    s->waiting--;
    r->next = NULL;
    r->session = NULL;
}

int srt_session_adopt(srt_session *s, srt_request *r)
{
    r->repeated = 0;
    return session_repeat(s, r, 0);
}

/*
 * One text a connection is enough for all that were refused with it. A second refusal means that it was forgotten
 * since.
 */
static int session_teach(srt_session *s, srt_request *r)
{
    int by_text = r->repeated || !s->taught[r->script];
    s->taught[r->script] = 1;
    r->repeated = 1;
    return session_repeat(s, r, by_text);
}

void srt_session_done(srt_session *s, srt_request *r)
{
    if (r->tail.cap > 65536) {
        session_free_request(s, r);
        return;
    }
    r->next = s->spare;
    s->spare = r;
}

enum { SESSION_GREETING = 1, SESSION_ROLE };

static int session_handshake(srt_session *s, int kind, const char *const *words, size_t n)
{
    srt_request *r = srt_session_begin(s, srt_script_none, NULL, 0);
    size_t i;
    if (!r)
        return SERIATIM_NOMEM;
    for (i = 0; i < n; i++)
        srt_request_text(r, words[i]);
    r->handshake = kind;
    s->greeting++;
    return session_queue(s, r, 0);
}

static int session_greet(srt_session *s, const char *user, const char *password, int database, const char *name)
{
    char digits[16];
    srt_bytes text = {NULL, digits, 0, sizeof digits - 1, 0};
    const char *auth[] = {"AUTH", user, password ? password : ""}; /* a user with nopass takes any password */
    const char *plain_auth[] = {"AUTH", password};
    const char *select[] = {"SELECT", digits};
    const char *setname[] = {"CLIENT", "SETNAME", name};
    const char *role[] = {"ROLE"};
    int status = SERIATIM_OK;
    if (user && *user)
        status = session_handshake(s, SESSION_GREETING, auth, 3);
    else if (password)
        status = session_handshake(s, SESSION_GREETING, plain_auth, 2);
    if (status == SERIATIM_OK && database) {
        srt_bytes_add_int(&text, database);
        digits[text.len] = '\0';
        status = session_handshake(s, SESSION_GREETING, select, 2);
    }
    if (status == SERIATIM_OK && name)
        status = session_handshake(s, SESSION_GREETING, setname, 3);
    if (status == SERIATIM_OK && s->masters_only)
        status = session_handshake(s, SESSION_ROLE, role, 1);
    return status;
}

/* Handshakes of the old connection are not asked again. */
static void session_forget_handshakes(srt_session *s)
{
    srt_request *r = s->first;
    s->first = s->last = NULL;
    s->waiting = 0;
    while (r) {
        srt_request *next = r->next;
        if (r->handshake)
            srt_session_done(s, r);
        else
            session_append(s, r);
        r = next;
    }
}

int srt_session_connected(srt_session *s, const char *user, const char *password, int database, const char *name)
{
    srt_reader *fresh = srt_reader_new(s->mem);
    srt_request *old, *r;
    int status;
    if (!fresh)
        return SERIATIM_NOMEM;
    srt_reader_free(s->reader);
    s->reader = fresh;
    srt_bytes_clear(&s->out);
    session_forget_sent(s);
    session_forget_handshakes(s);
    old = s->first;
    s->first = s->last = NULL;
    s->waiting = 0;
    s->connected = 1;
    s->greeting = 0;
    memset(s->taught, 0, sizeof s->taught);
    status = session_greet(s, user, password, database, name);
    for (r = old; r; r = old) {
        old = r->next;
        r->repeated = 0;
        if (status == SERIATIM_OK && s->greeting == 0)
            status = session_encode(s, r, 0);
        session_append(s, r);
    }
    if (status != SERIATIM_OK)
        srt_session_disconnected(s);
    return status;
}

void srt_session_disconnected(srt_session *s)
{
    session_forget_sent(s);
    s->connected = 0;
    s->greeting = 0;
    srt_bytes_clear(&s->out);
}

void srt_session_output(const srt_session *s, const char **data, size_t *len)
{
    *data = s->out.data;
    *len = s->out.len;
}

void srt_session_sent(srt_session *s, size_t len)
{
    s->gone += len;
    srt_bytes_consume(&s->out, len);
}

int srt_session_input(srt_session *s, const char *data, size_t len)
{
    return srt_reader_feed(s->reader, data, len);
}

static srt_request *session_shift(srt_session *s)
{
    srt_request *r = s->first;
    s->first = r->next;
    if (!s->first)
        s->last = NULL;
    s->waiting--;
    r->next = NULL;
    r->session = NULL;
    r->encoded = 0;
    return r;
}

static int reply_is_noscript(const srt_reply *reply)
{
    return reply->tokens[0].type == SRT_ERROR && reply->tokens[0].len >= 8 &&
           memcmp(reply->tokens[0].data, "NOSCRIPT", 8) == 0;
}

/* A user who may not call ROLE goes on: a replica refuses every write by itself. */
static int session_check_role(const srt_reply *reply, seriatim_error *error)
{
    const srt_token *t = reply->tokens;
    if (t[0].type == SRT_ERROR && t[0].len >= 6 && memcmp(t[0].data, "NOPERM", 6) == 0)
        return SERIATIM_OK;
    if (t[0].type == SRT_ERROR)
        return srt_reply_status(t, error);
    if (reply->count > 1 && srt_token_is(&t[1], "master"))
        return SERIATIM_OK;
    return srt_fail(error, SERIATIM_READONLY, "the sentinels named a Redis that is not a master: its ROLE is %.20s",
                    reply->count > 1 && t[1].data ? t[1].data : "unknown");
}

/* The last command of the handshake was answered: sends the requests that waited for it. */
static int session_greeted(srt_session *s)
{
    srt_request *r;
    int status = SERIATIM_OK;
    if (--s->greeting > 0)
        return SERIATIM_OK;
    for (r = s->first; r && status == SERIATIM_OK; r = r->next)
        status = session_encode(s, r, 0);
    return status;
}

int srt_session_next(srt_session *s, srt_request **request, srt_reply *reply, seriatim_error *error)
{
    for (;;) {
        srt_request *r;
        int status = srt_reader_next(s->reader, reply, error);
        if (status != SERIATIM_OK)
            return status;
        if (s->listens && !(s->first && s->first->handshake)) {
            *request = NULL;
            return SERIATIM_OK;
        }
        if (!s->first)
            return srt_fail(error, SERIATIM_PROTOCOL, "Redis sent a reply without a request");
        if (s->first->asking == 1) {
            s->first->asking = 2;
            status = srt_reply_status(&reply->tokens[0], error);
            if (status != SERIATIM_OK)
                return status;
            continue;
        }
        r = session_shift(s);
        if (r->handshake) {
            status = r->handshake == SESSION_ROLE ? session_check_role(reply, error)
                                                  : srt_reply_status(&reply->tokens[0], error);
            srt_session_done(s, r);
            if (status != SERIATIM_OK)
                return status;
            if (session_greeted(s) != SERIATIM_OK)
                return srt_fail_plain(error, SERIATIM_NOMEM);
        } else if (r->script != srt_script_none && reply_is_noscript(reply)) {
            if (session_teach(s, r) != SERIATIM_OK)
                return srt_fail_plain(error, SERIATIM_NOMEM);
        } else {
            *request = r;
            return SERIATIM_OK;
        }
    }
}
