/* params.c - the parameters of a request's query. */
#include "web/request.h"

#include <string.h>

#define REQUEST_PARAMS 32

int srt_web_request_next_param(srt_web *w, const char **at, const char *end, srt_web_param *param)
{
    const char *stop = memchr(*at, '&', (size_t)(end - *at)), *equals;
    int status;
    if (!stop)
        stop = end;
    equals = memchr(*at, '=', (size_t)(stop - *at));
    status = srt_web_request_decode(w, *at, (size_t)((equals ? equals : stop) - *at), 1, &param->name);
    if (status == SERIATIM_OK)
        status = srt_web_request_decode(w, equals ? equals + 1 : stop, equals ? (size_t)(stop - equals - 1) : 0, 1,
                                        &param->value);
    *at = stop < end ? stop + 1 : end;
    return status;
}

int srt_web_request_read_params(srt_web *w, seriatim_text query)
{
    const char *at = query.data, *end = at ? at + query.len : at;
    int status = SERIATIM_OK;
    if (!at || query.len == 0)
        return SERIATIM_OK;
    w->params = srt_arena_alloc(&w->memory, REQUEST_PARAMS * sizeof *w->params);
    if (!w->params)
        return SERIATIM_NOMEM;
    while (at < end && status == SERIATIM_OK && w->param_count < REQUEST_PARAMS) {
        status = srt_web_request_next_param(w, &at, end, &w->params[w->param_count]);
        w->param_count += status == SERIATIM_OK;
    }
    return status;
}

seriatim_text srt_web_param_of(const srt_web *w, const char *name)
{
    static const seriatim_text none = {NULL, 0};
    size_t i;
    for (i = 0; i < w->param_count; i++)
        if (srt_web_word_is(w->params[i].name, name))
            return w->params[i].value;
    return none;
}

int srt_web_param_int(srt_web *w, const char *name, int64_t low, int64_t high, int64_t absent, int64_t *value)
{
    seriatim_text text = srt_web_param_of(w, name);
    size_t i;
    *value = absent;
    if (!text.data || text.len == 0)
        return 1;
    *value = 0;
    for (i = 0; i < text.len && text.data[i] >= '0' && text.data[i] <= '9' && *value <= high; i++)
        *value = *value * 10 + (text.data[i] - '0');
    if (i == text.len && *value >= low && *value <= high)
        return 1;
    srt_web_refuse(w, 400, "%s must be from %lld to %lld", name, (long long)low, (long long)high);
    return 0;
}
