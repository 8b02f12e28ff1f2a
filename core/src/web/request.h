/* request.h - between the files that read a request. */
#ifndef SRT_REQUEST_H
#define SRT_REQUEST_H

#include "web/web.h"

#define REQUEST_JSON "application/json"
#define REQUEST_FORM "application/x-www-form-urlencoded"

/* ---- text.c ---------------------------------------------------------------------------------- */

int srt_web_request_same(seriatim_text a, const char *b, size_t len);
/* Is it this media type, with or without parameters? */
int srt_web_request_is_type(seriatim_text type, const char *wanted);
int srt_web_request_hex(char c);
/* Percent-decodes into the request's memory; a percent sign that begins nothing stays one. */
int srt_web_request_decode(srt_web *w, const char *at, size_t len, int plus, seriatim_text *text);

/* ---- params.c -------------------------------------------------------------------------------- */

/* Reads the NAME=VALUE that *at begins with, decoded, and moves *at behind its "&". */
int srt_web_request_next_param(srt_web *w, const char **at, const char *end, srt_web_param *param);
int srt_web_request_read_params(srt_web *w, seriatim_text query);

/* ---- body.c ---------------------------------------------------------------------------------- */

/* The bytes of a text of base64, whose padding may be absent as a whole. OK, INVALID or NOMEM. */
int srt_web_request_unbase64(srt_web *w, const srt_json_token *t, seriatim_text *text);
/* One id, which `t` begins: a text, a whole number, or {"base64": text}. OK, INVALID or NOMEM. */
int srt_web_request_read_id(srt_web *w, srt_json_reader *r, const srt_json_token *t, seriatim_text *id);
int srt_web_request_read_body(srt_web *w, const seriatim_web_request *request);

/* ---- find_route.c ---------------------------------------------------------------------------- */

/* One path may be a route of GET and another of POST. */
int srt_web_request_find_route(srt_web *w, const char *method, seriatim_text path);
int srt_web_request_starts(seriatim_text path, const char *with);
/*
 * /assets/VERSION/NAME; of another version only the name counts, so that a page that was open during an update goes on,
 * and no cache keeps the file under that address.
 */
void srt_web_request_find_asset(srt_web *w, seriatim_text path);
void srt_web_request_find_page(srt_web *w, const seriatim_web_request *request);

/* ---- permit.c -------------------------------------------------------------------------------- */

int srt_web_request_has_token(const seriatim_web_settings *s, const seriatim_web_request *request);
/* Browsers name the type when they open an address; the page's own questions and programs do not. */
int srt_web_request_wants_html(seriatim_text accept);
/* Does Accept-Encoding name gzip, with a weight that is not 0? */
int srt_web_request_takes_gzip(seriatim_text accepted);
void srt_web_request_check(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request);

#endif
