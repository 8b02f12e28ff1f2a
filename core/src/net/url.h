/* url.h - the parts of a text that seriatim/binding/url.h reads as a Redis URL. */
#ifndef SRT_URL_H
#define SRT_URL_H

#include "base/bytes.h"
#include "seriatim/binding/url.h"

/* Appends text with everything but letters, digits and -._~/ percent-encoded. */
void srt_url_encode(srt_bytes *out, const char *text);
/* The longest path that a Unix socket can have here, without its NUL: 107 on Linux. */
size_t srt_url_socket_path_max(void);

int srt_url_is_alnum(char c); /* a letter or a digit of ASCII */

#endif
