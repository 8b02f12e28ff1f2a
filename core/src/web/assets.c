/* assets.c - the page and its files. */
#include "web/assets.h"
#include "web/assets.inc"

#include <string.h>

#define ASSETS_MARK "{{base}}assets/"

const char *srt_web_assets_version(void)
{
    return SRT_WEB_ASSETS_VERSION;
}

const srt_web_asset *srt_web_asset_find(const char *name, size_t len)
{
    size_t i;
    for (i = 0; i < sizeof web_asset_table / sizeof *web_asset_table; i++)
        if (strlen(web_asset_table[i].name) == len && memcmp(web_asset_table[i].name, name, len) == 0)
            return &web_asset_table[i];
    return NULL;
}

static const char *assets_find_mark(const char *at, const char *end)
{
    const size_t len = strlen(ASSETS_MARK);
    for (; (size_t)(end - at) >= len; at++)
        if (memcmp(at, ASSETS_MARK, len) == 0)
            return at;
    return NULL;
}

/*
 * index.html says "{{base}}assets/app.js"; the page says "../../assets/VERSION/app.js": nothing of the request is in it
 * but its depth.
 */
void srt_web_page(srt_bytes *out, int depth)
{
    const srt_web_asset *page = srt_web_asset_find("index.html", 10);
    const char *at = page ? (const char *)page->data : "", *end = at + (page ? page->len : 0), *mark;
    int i;
    while ((mark = assets_find_mark(at, end))) {
        srt_bytes_add(out, at, (size_t)(mark - at));
        for (i = 0; i < depth; i++)
            srt_bytes_adds(out, "../");
        srt_bytes_adds(out, "assets/" SRT_WEB_ASSETS_VERSION "/");
        at = mark + strlen(ASSETS_MARK);
    }
    srt_bytes_add(out, at, (size_t)(end - at));
}
