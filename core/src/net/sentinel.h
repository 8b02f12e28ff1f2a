/* sentinel.h - Sentinel discovery without I/O, as the transport uses it. */
#ifndef SRT_SENTINEL_H
#define SRT_SENTINEL_H

#include "net/url.h"

/* NULL: out of memory. The URL, of the kind SRT_URL_SENTINEL, is borrowed and must outlive it. */
seriatim_sentinel *srt_sentinel_create(const seriatim_allocator *mem, const srt_url *url);

#endif
