/* assets.h - the files of the dashboard, compiled in: a path is looked up in a table, never in a file system. */
#ifndef SRT_WEB_ASSETS_H
#define SRT_WEB_ASSETS_H

#include "base/bytes.h"

typedef struct srt_web_asset {
    const char *name; /* below core/web */
    const char *type; /* Content-Type */
    const unsigned char *data;
    size_t len;
    const unsigned char *gzip; /* the same, compressed; NULL: that saves nothing */
    size_t gzip_len;
} srt_web_asset;

/* NULL: there is no such file. */
const srt_web_asset *srt_web_asset_find(const char *name, size_t len);
/* A new one whenever a file changes: part of the files' paths. */
const char *srt_web_assets_version(void);
/* Writes the page for a path that is `depth` directories below the root of the dashboard. */
void srt_web_page(srt_bytes *out, int depth);

#endif
