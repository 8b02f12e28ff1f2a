/* pop_token.c - the token of a popped id: a text that names queue, id and fence, and what was delivered. */
#include "client/handle.h"
#include "client/pop.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TOKEN_VERSION 1
/* Version; fence, stamp, score, highest score as doubles; delivered, the length of the queue's name; a byte of flags.
 */
#define TOKEN_HEAD 38
#define TOKEN_MORE 1 /* flags */
#define TOKEN_SCORED 2

static void token_put16(char *at, size_t value)
{
    at[0] = (char)(value >> 8);
    at[1] = (char)value;
}

static size_t token_read16(const char *at)
{
    return (size_t)(unsigned char)at[0] << 8 | (unsigned char)at[1];
}

static double token_read_double(const char *at)
{
    char little[8];
    size_t i;
    for (i = 0; i < 8; i++)
        little[i] = at[7 - i];
    return srt_little_double(little);
}

seriatim_text srt_pop_token_write(srt_arena *arena, const srt_pop_token *token)
{
    size_t len = TOKEN_HEAD + token->queue.len + token->id.len;
    char *bytes = srt_arena_alloc(arena, len), *text = srt_arena_alloc(arena, srt_text64_size(len) + 1);
    seriatim_text result = {NULL, 0};
    if (!bytes || !text)
        return result;
    bytes[0] = TOKEN_VERSION;
    srt_number_pack(bytes + 1, (double)token->fence);
    srt_number_pack(bytes + 9, token->stamp);
    srt_number_pack(bytes + 17, token->score);
    srt_number_pack(bytes + 25, token->highest);
    token_put16(bytes + 33, (size_t)token->delivered);
    token_put16(bytes + 35, token->queue.len);
    bytes[37] = (char)((token->more ? TOKEN_MORE : 0) | (token->scored ? TOKEN_SCORED : 0));
    memcpy(bytes + TOKEN_HEAD, token->queue.data, token->queue.len);
    memcpy(bytes + TOKEN_HEAD + token->queue.len, token->id.data, token->id.len);
    srt_text64_write(text, bytes, len);
    result.data = text;
    result.len = srt_text64_size(len);
    return result;
}

static int token_is_whole(double number)
{
    return number >= 1 && number <= 9e15 && number == (double)(int64_t)number;
}

static int token_fits(seriatim_text text)
{
    return text.data && text.len >= TOKEN_HEAD && text.len <= SERIATIM_TOKEN;
}

/* bytes: room for as many as the text has; the token's texts lie in it. OK or INVALID. */
static int token_read(srt_pop_token *token, char *bytes, seriatim_text text)
{
    size_t len = srt_text64_read(text, bytes);
    double fence;
    if (len < TOKEN_HEAD || bytes[0] != TOKEN_VERSION)
        return SERIATIM_INVALID;
    fence = token_read_double(bytes + 1);
    token->stamp = token_read_double(bytes + 9);
    token->score = token_read_double(bytes + 17);
    token->highest = token_read_double(bytes + 25);
    token->delivered = (int64_t)token_read16(bytes + 33);
    token->queue.len = token_read16(bytes + 35);
    token->more = (bytes[37] & TOKEN_MORE) != 0;
    token->scored = (bytes[37] & TOKEN_SCORED) != 0;
    if (!token_is_whole(fence) || token->stamp != token->stamp || token->score != token->score ||
        !(fabs(token->highest) <= DBL_MAX) || token->delivered < 1 || token->delivered > 1000 || token->queue.len < 1 ||
        token->queue.len > 512 || len <= TOKEN_HEAD + token->queue.len ||
        len > TOKEN_HEAD + token->queue.len + SERIATIM_MAX_ID)
        return SERIATIM_INVALID;
    token->fence = (int64_t)fence;
    token->queue.data = bytes + TOKEN_HEAD;
    token->id.data = token->queue.data + token->queue.len;
    token->id.len = len - TOKEN_HEAD - token->queue.len;
    return SERIATIM_OK;
}

int srt_pop_token_read(srt_pop_token *token, srt_arena *arena, seriatim_text text)
{
    char *bytes;
    if (!token_fits(text))
        return SERIATIM_INVALID;
    bytes = srt_arena_alloc(arena, text.len);
    return bytes ? token_read(token, bytes, text) : SERIATIM_NOMEM;
}

int seriatim_token_read(seriatim_text text, char bytes[SERIATIM_TOKEN], seriatim_token_parts *parts)
{
    srt_pop_token token;
    if (!token_fits(text) || token_read(&token, bytes, text) != SERIATIM_OK)
        return SERIATIM_INVALID;
    parts->queue = token.queue;
    parts->id = token.id;
    parts->fence = token.fence;
    parts->payload_count = (size_t)token.delivered;
    return SERIATIM_OK;
}
