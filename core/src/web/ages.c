/* ages.c - how long the waiting ids of a queue have been due, of the ids that can be read in a tenth of a second. */
#include "web/scan.h"

#include <string.h>

/* Each reaches from the one before it, in seconds; the first holds what is not due, the last has no end. */
static const int64_t ages_to[] = {0, 1, 10, 60, 600, 3600, 21600, 86400, 604800};

#define AGES (sizeof ages_to / sizeof *ages_to + 1)

static int ages_take(srt_web *w, srt_web_scan *scan, const srt_token *id, int64_t due, const srt_token *text)
{
    int64_t *counts = scan->groups;
    size_t i = 0;
    (void)w;
    (void)id;
    (void)text;
    while (i + 1 < AGES && scan->now_us - due >= ages_to[i] * 1000000)
        i++;
    counts[i]++;
    return SERIATIM_OK;
}

int srt_web_ages_next(seriatim_client *c, srt_web *w)
{
    srt_web_scan *scan;
    if (w->step == 0) {
        scan = srt_web_scan_sample(w, SRT_SCAN_DUE, "waiting");
        w->page = scan ? srt_arena_alloc(&w->memory, AGES * sizeof(int64_t)) : NULL;
        if (!w->page)
            return SERIATIM_NOMEM;
        scan->take = ages_take;
        scan->kept = w->page;
        scan->kept_size = AGES * sizeof(int64_t);
    }
    return srt_web_sample_ids(c, w);
}

void srt_web_ages_write(seriatim_client *c, srt_web *w, srt_web_out *out)
{
    const srt_web_scan *scan = w->found;
    const int64_t *counts = w->page;
    size_t i;
    (void)c;
    srt_json_begin_object(&out->json);
    srt_web_key(out, "ages");
    srt_json_begin_array(&out->json);
    for (i = 0; i < AGES; i++) {
        srt_json_begin_object(&out->json);
        srt_web_int(out, "count", counts[i]);
        if (i > 0)
            srt_web_int(out, "from", ages_to[i - 1]);
        else
            srt_web_null(out, "from");
        if (i + 1 < AGES)
            srt_web_int(out, "to", ages_to[i]);
        else
            srt_web_null(out, "to");
        srt_json_end_object(&out->json);
    }
    srt_json_end_array(&out->json);
    srt_web_write_sample(scan, out);
    srt_json_end_object(&out->json);
}
