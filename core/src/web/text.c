/* text.c - compares and decodes texts of a request, and writes short answers. */
#include "web/request.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int srt_web_refuse(srt_web *w, int status, const char *format, ...)
{
    va_list args;
    w->status = status;
    va_start(args, format);
    vsnprintf(w->error, sizeof w->error, format, args);
    va_end(args);
    return SRT_WEB_DONE;
}

const char *srt_web_role_word(int role)
{
#define X(number, name) #name,
    static const char *const words[] = {"nobody", SERIATIM_ROLES(X)};
#undef X
    return words[role < SERIATIM_WEB_NOBODY ? 0 : role > SERIATIM_ROLES_COUNT ? SERIATIM_ROLES_COUNT : role];
}

int srt_web_changes(const srt_web *w)
{
    return w->route && (w->route->action || (w->handler->uses & SRT_WEB_CONSUMES));
}

int srt_web_done(srt_web *w, int64_t count)
{
    if (!w->status)
        w->count = count;
    return SRT_WEB_DONE;
}

int srt_web_word_is(seriatim_text text, const char *word)
{
    return text.data && text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

static char request_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 32) : c;
}

int srt_web_request_same(seriatim_text a, const char *b, size_t len)
{
    size_t i;
    if (!a.data || a.len != len)
        return 0;
    for (i = 0; i < len; i++)
        if (request_lower(a.data[i]) != request_lower(b[i]))
            return 0;
    return 1;
}

int srt_web_request_is_type(seriatim_text type, const char *wanted)
{
    seriatim_text head = {type.data, strlen(wanted)};
    return type.data && type.len >= head.len && srt_web_request_same(head, wanted, head.len) &&
           (type.len == head.len || type.data[head.len] == ';' || type.data[head.len] == ' ');
}

int srt_web_request_hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int srt_web_request_decode(srt_web *w, const char *at, size_t len, int plus, seriatim_text *text)
{
    char *out = srt_arena_alloc(&w->memory, len + 1);
    size_t i, n = 0;
    if (!out)
        return SERIATIM_NOMEM;
    for (i = 0; i < len; i++) {
        if (at[i] == '%' && len - i > 2 && srt_web_request_hex(at[i + 1]) >= 0 && srt_web_request_hex(at[i + 2]) >= 0) {
            out[n++] = (char)(srt_web_request_hex(at[i + 1]) * 16 + srt_web_request_hex(at[i + 2]));
            i += 2;
        } else {
            out[n++] = plus && at[i] == '+' ? ' ' : at[i];
        }
    }
    out[n] = '\0';
    text->data = out;
    text->len = n;
    return SERIATIM_OK;
}
