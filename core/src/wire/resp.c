/*
 * resp.c - writes commands as RESP, and reads replies into a flat list of tokens (the tape). Only resp.c and resp.h use
 * hiredis.
 */
#include "wire/resp.h"

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <string.h>

/* An answer larger than this is a broken stream, not data: hiredis would otherwise wait or allocate for ever. */
#define RESP_MAX_BYTES ((size_t)256 * 1024 * 1024)
#define RESP_MAX_ELEMENTS (16 * 1024 * 1024)

struct srt_reader {
    const seriatim_allocator *mem;
    redisReader *hiredis;
    srt_arena strings;
    srt_token *tokens;
    size_t count, cap;
    size_t pending; /* bytes fed since the last whole reply */
    int whole;      /* the tape holds a reply that the caller has seen */
};

static size_t digits_of(size_t value)
{
    size_t digits = 1;
    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

void srt_resp_array(srt_bytes *out, size_t count)
{
    srt_bytes_addc(out, '*');
    srt_bytes_add_int(out, (int64_t)count);
    srt_bytes_add(out, "\r\n", 2);
}

size_t srt_resp_arg_size(size_t len)
{
    return 5 + len + digits_of(len);
}

char *srt_resp_put_head(char *at, size_t len)
{
    size_t digits = digits_of(len), i;
    *at++ = '$';
    for (i = digits; i > 0; i--, len /= 10)
        at[i - 1] = (char)('0' + len % 10);
    at += digits;
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

void srt_resp_arg(srt_bytes *out, const void *data, size_t len)
{
    size_t size = srt_resp_arg_size(len);
    char *at = srt_bytes_reserve(out, size);
    if (!at)
        return;
    at = srt_resp_put_head(at, len);
    if (len)
        memcpy(at, data, len);
    memcpy(at + len, "\r\n", 2);
    out->len += size;
}

void srt_resp_arg_int(srt_bytes *out, int64_t value)
{
    char space[24];
    srt_bytes text = {NULL, space, 0, sizeof space, 0};
    srt_bytes_add_int(&text, value);
    srt_resp_arg(out, space, text.len);
}

/* hiredis calls these; each returns a non-NULL pointer for success, and nothing of what it returns is ever read. */
static srt_token *tape_add(const redisReadTask *task, srt_token_type type)
{
    srt_reader *r = task->privdata;
    void *tokens = r->tokens;
    srt_token *token;
    if (srt_grow(r->mem, &tokens, &r->cap, r->count + 1, sizeof *r->tokens) != SERIATIM_OK)
        return NULL;
    r->tokens = tokens;
    token = &r->tokens[r->count++];
    memset(token, 0, sizeof *token);
    token->type = type;
    return token;
}

static void *tape_string(const redisReadTask *task, char *data, size_t len)
{
    srt_reader *r = task->privdata;
    srt_token_type type = task->type == REDIS_REPLY_ERROR    ? SRT_ERROR
                          : task->type == REDIS_REPLY_STATUS ? SRT_STATUS_LINE
                                                             : SRT_STRING;
    char *copy = srt_arena_copy(&r->strings, data, len);
    srt_token *token = copy ? tape_add(task, type) : NULL;
    if (!token)
        return NULL;
    token->data = copy;
    token->len = len;
    return r;
}

#if HIREDIS_MAJOR >= 1
static void *tape_array(const redisReadTask *task, size_t elements)
#else
static void *tape_array(const redisReadTask *task, int elements)
#endif
{
    srt_token *token;
    if (elements > RESP_MAX_ELEMENTS)
        return NULL;
    token = tape_add(task, SRT_ARRAY);
    if (!token)
        return NULL;
    token->integer = (int64_t)elements;
    return task->privdata;
}

static void *tape_integer(const redisReadTask *task, long long value)
{
    srt_token *token = tape_add(task, SRT_INTEGER);
    if (!token)
        return NULL;
    token->integer = value;
    return task->privdata;
}

static void *tape_nil(const redisReadTask *task)
{
    return tape_add(task, SRT_NIL) ? task->privdata : NULL;
}

#if HIREDIS_MAJOR >= 1
/* Types of RESP3, which nobody has asked for: they are read as nil, which a caller refuses that expects another type.
 */
static void *tape_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)value;
    (void)text;
    (void)len;
    return tape_nil(task);
}

static void *tape_bool(const redisReadTask *task, int value)
{
    (void)value;
    return tape_nil(task);
}
#endif

static void tape_free(void *object)
{
    (void)object;
}

/* hiredis wants a pointer to non-const; it never writes through it. */
static redisReplyObjectFunctions *tape_functions(void)
{
    static const redisReplyObjectFunctions functions = {
        .createString = tape_string,
        .createArray = tape_array,
        .createInteger = tape_integer,
        .createNil = tape_nil,
#if HIREDIS_MAJOR >= 1
        .createDouble = tape_double,
        .createBool = tape_bool,
#endif
        .freeObject = tape_free,
    };
    union {
        const redisReplyObjectFunctions *in;
        redisReplyObjectFunctions *out;
    } cast = {&functions};
    return cast.out;
}

srt_reader *srt_reader_new(const seriatim_allocator *mem)
{
    srt_reader *r = srt_alloc(mem, sizeof *r);
    if (!r)
        return NULL;
    r->mem = mem;
    srt_arena_init(&r->strings, mem);
    r->hiredis = redisReaderCreateWithFunctions(tape_functions());
    if (!r->hiredis) {
        srt_free(mem, r, sizeof *r);
        return NULL;
    }
    r->hiredis->privdata = r;
    return r;
}

void srt_reader_free(srt_reader *r)
{
    if (!r)
        return;
    redisReaderFree(r->hiredis);
    srt_arena_free(&r->strings);
    srt_free(r->mem, r->tokens, r->cap * sizeof *r->tokens);
    srt_free(r->mem, r, sizeof *r);
}

int srt_reader_feed(srt_reader *r, const char *data, size_t len)
{
    r->pending += len;
    if (r->pending > RESP_MAX_BYTES)
        return SERIATIM_PROTOCOL;
    return redisReaderFeed(r->hiredis, data, len) == REDIS_OK ? SERIATIM_OK : SERIATIM_NOMEM;
}

/* What lay on the tape is cleared: its texts are gone, or are somebody else's since srt_reader_take. */
static void forget_last(srt_reader *r)
{
    if (!r->whole)
        return;
    memset(r->tokens, 0, r->count * sizeof *r->tokens);
    srt_arena_reset(&r->strings);
    r->count = 0;
    r->whole = 0;
}

int srt_reader_next(srt_reader *r, srt_reply *reply, seriatim_error *error)
{
    void *root = NULL;
    forget_last(r);
    if (redisReaderGetReply(r->hiredis, &root) != REDIS_OK) {
        int status = r->hiredis->err == REDIS_ERR_OOM ? SERIATIM_NOMEM : SERIATIM_PROTOCOL;
        return srt_fail(error, status, "%s", r->hiredis->errstr);
    }
    if (!root)
        return SERIATIM_AGAIN;
    r->whole = 1;
    r->pending = 0;
    reply->tokens = r->tokens;
    reply->count = r->count;
    return SERIATIM_OK;
}

srt_arena srt_reader_take(srt_reader *r)
{
    srt_arena taken = r->strings;
    srt_arena_init(&r->strings, r->mem);
    return taken;
}

static int64_t within_forever(int64_t value)
{
    return value > SRT_FOREVER ? SRT_FOREVER : value < -SRT_FOREVER ? -SRT_FOREVER : value;
}

int64_t srt_token_int(const srt_token *token)
{
    int64_t value = 0;
    size_t i = 0;
    int negative;
    if (token->type == SRT_INTEGER)
        return within_forever(token->integer);
    if (token->type != SRT_STRING && token->type != SRT_STATUS_LINE)
        return 0;
    negative = token->len > 0 && token->data[0] == '-';
    for (i = (size_t)negative; i < token->len && value < SRT_FOREVER && token->data[i] >= '0' && token->data[i] <= '9';
         i++)
        value = value * 10 + (token->data[i] - '0');
    return within_forever(negative ? -value : value);
}

int srt_token_is(const srt_token *token, const char *text)
{
    size_t len = strlen(text);
    return token->data && token->len == len && memcmp(token->data, text, len) == 0;
}

int srt_reply_is_list(const srt_reply *reply, size_t count)
{
    const srt_token *root = &reply->tokens[0];
    size_t i;
    if (root->type != SRT_ARRAY || root->integer < (int64_t)count || (size_t)root->integer + 1 != reply->count)
        return 0;
    for (i = 1; i < reply->count; i++)
        if (reply->tokens[i].type != SRT_STRING && reply->tokens[i].type != SRT_INTEGER)
            return 0;
    return 1;
}

/*
 * Redis before 7 wraps what refused a script's command: "ERR Error running script (call to f_...): @user_script: 1:
 * -OOM ...".
 */
static const char *error_words(const char *data)
{
    static const char wrap[] = "ERR Error running script";
    const char *inner = strncmp(data, wrap, sizeof wrap - 1) == 0 ? strstr(data, ": -") : NULL;
    return inner ? inner + 3 : data;
}

static int is_first_word(const char *words, const char *word)
{
    size_t n = strlen(word);
    return strncmp(words, word, n) == 0 && (words[n] == '\0' || words[n] == ' ');
}

/*
 * What Redis says of a right that the user lacks, as words to put before it; NULL: it says something else. In a script
 * that is ERR before Redis 7.2.
 */
static const char *lacks_right(const char *data)
{
    if (strstr(data, "The user executing the script can't ") || strstr(data, "ACL failure in script"))
        return "Redis answers, but its user may not write, or lacks another right";
    return is_first_word(error_words(data), "NOPERM") ? "Redis answers, but its user lacks a right" : NULL;
}

/* Redis answers so instead of NOAUTH to a request of more than ten arguments, or with one of more than 16 KB. */
static int lacks_password(const char *data)
{
    static const char unread[] = "ERR Protocol error: unauthenticated ";
    return strncmp(data, unread, sizeof unread - 1) == 0;
}

/* Scripts report errors of their commands with a longer text: only the first word decides, except of a right. */
int srt_reply_status(const srt_token *token, seriatim_error *error)
{
    static const struct {
        const char *word;
        int status;
    } words[] = {
        {"OOM", SERIATIM_FULL},
        {"STALE", SERIATIM_STALE},
        {"GENERATION", SERIATIM_GENERATION},
        {"READONLY", SERIATIM_READONLY},
        {"LOADING", SERIATIM_LOADING},
        {"MASTERDOWN", SERIATIM_LOADING},
        {"CLUSTERDOWN", SERIATIM_LOADING},
        {"TRYAGAIN", SERIATIM_LOADING},
        {"BUSY", SERIATIM_LOADING},
        {"NOAUTH", SERIATIM_AUTH},
        {"WRONGPASS", SERIATIM_AUTH},
        {"MISCONF", SERIATIM_READONLY},
        {"NOREPLICAS", SERIATIM_READONLY},
        {"UNBLOCKED", SERIATIM_READONLY},
        {"UNKILLABLE", SERIATIM_LOADING},
        {"INPROG", SERIATIM_LOADING},
        {"IOERR", SERIATIM_LOADING},
        {"DENIED", SERIATIM_AUTH},
    };
    static const char of_cluster[] = "; this Redis is a node of a cluster, so the URL must begin with redis+cluster:// "
                                     "or rediss+cluster://";
    const char *right;
    size_t i;
    if (token->type != SRT_ERROR)
        return SERIATIM_OK;
    if ((right = lacks_right(token->data)) != NULL)
        return srt_fail(error, SERIATIM_AUTH, "%s: %s", right, token->data);
    if (lacks_password(token->data))
        return srt_fail(error, SERIATIM_AUTH, "%s: %s", seriatim_status_text(SERIATIM_AUTH), token->data);
    for (i = 0; i < sizeof words / sizeof *words; i++)
        if (is_first_word(error_words(token->data), words[i].word))
            return srt_fail(error, words[i].status, "%s: %s", seriatim_status_text(words[i].status), token->data);
    return srt_fail(error, SERIATIM_SERVER, "%s: %s%s", seriatim_status_text(SERIATIM_SERVER), token->data,
                    is_first_word(error_words(token->data), "MOVED") ? of_cluster : "");
}
