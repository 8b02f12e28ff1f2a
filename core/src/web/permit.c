/* permit.c - access control: refuses a request by its Host, token, role, origin (CSRF) or content type. */
#include "web/request.h"

#include <string.h>

/* The colons between the brackets of an IPv6 address are not before a port. */
static int request_names_port(const char *allowed)
{
    const char *bracket = strrchr(allowed, ']');
    return strchr(bracket ? bracket : allowed, ':') != NULL;
}

static int request_host_fits(const char *allowed, seriatim_text host)
{
    size_t len = strlen(allowed), i;
    if (srt_web_request_same(host, allowed, len))
        return 1;
    if (request_names_port(allowed) || host.len <= len + 1 || host.data[len] != ':')
        return 0;
    for (i = len + 1; i < host.len; i++)
        if (host.data[i] < '0' || host.data[i] > '9')
            return 0;
    host.len = len;
    return srt_web_request_same(host, allowed, len);
}

static int request_host_allowed(const seriatim_web_settings *s, seriatim_text host)
{
    size_t i;
    for (i = 0; i < s->host_count; i++)
        if (host.data && request_host_fits(s->hosts[i], host))
            return 1;
    return s->host_count == 0;
}

/* Takes as long for a wrong token as for the right one. */
static int request_token_fits(const char *token, seriatim_text authorization)
{
    static const char scheme[] = "bearer ";
    size_t wanted = strlen(token), skip = sizeof scheme - 1, given, i;
    seriatim_text head = {authorization.data, skip};
    unsigned difference;
    if (!authorization.data || authorization.len < skip || !srt_web_request_same(head, scheme, skip))
        return 0;
    given = authorization.len - skip;
    difference = given != wanted;
    for (i = 0; i < given; i++)
        difference |= (unsigned char)authorization.data[skip + i] ^ (unsigned char)(wanted ? token[i % wanted] : 0);
    return difference == 0 && wanted > 0;
}

int srt_web_request_has_token(const seriatim_web_settings *s, const seriatim_web_request *request)
{
    return !s->token || request_token_fits(s->token, request->authorization);
}

/* Origin is scheme://host of the request itself. */
static int request_same_origin(const seriatim_web_request *request)
{
    const char *scheme = request->secure ? "https://" : "http://";
    size_t len = strlen(scheme);
    seriatim_text rest = request->origin, head = request->origin;
    if (!rest.data || !request->host.data || request->host.len == 0 || rest.len <= len)
        return 0;
    head.len = len;
    rest.data += len;
    rest.len -= len;
    return srt_web_request_same(head, scheme, len) && srt_web_request_same(rest, request->host.data, request->host.len);
}

/*
 * A browser tells where a request comes from in Sec-Fetch-Site or, if it is an old one, in Origin. A change that tells
 * neither is refused, too: a form of another site may send one.
 */
static void request_check_origin(srt_web *w, const seriatim_web_request *request)
{
    if (request->sec_fetch_site.data) {
        if (!srt_web_word_is(request->sec_fetch_site, "same-origin"))
            srt_web_refuse(w, 403, "the request comes from another site");
    } else if (!request->origin.data) {
        srt_web_refuse(w, 403,
                       "a change needs the header Origin, this dashboard's own, or a dashboard with a bearer token");
    } else if (!request_same_origin(request)) {
        srt_web_refuse(w, 403,
                       "the request comes from another site: its Origin is not scheme and Host of this dashboard");
    }
}

/*
 * A consumer is a program, which sends no Origin. No page of another site can send JSON without the browser asking this
 * mount first, which never agrees.
 */
static void request_check_consumer(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    if (!srt_web_request_is_type(request->content_type, REQUEST_JSON))
        srt_web_refuse(w, 415, "Content-Type must be " REQUEST_JSON);
    else if (!s->token && (request->sec_fetch_site.data || request->origin.data))
        request_check_origin(w, request);
}

/* Without a body there is nothing that has a type; some hosts (wsgiref) then say text/plain. */
static int request_has_known_type(const seriatim_web_request *request)
{
    return request->body.len == 0 || srt_web_request_is_type(request->content_type, REQUEST_JSON) ||
           srt_web_request_is_type(request->content_type, REQUEST_FORM);
}

static void request_check_mutation(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    if (w->read_only)
        srt_web_refuse(w, 403, "this dashboard is read-only");
    else if (!w->route->action)
        request_check_consumer(w, s, request);
    else if (!s->token) /* which was shown; no browser adds one to a request of another site */
        request_check_origin(w, request);
    if (!w->status && w->route->action && !request_has_known_type(request))
        srt_web_refuse(w, 415, "Content-Type must be " REQUEST_JSON " or " REQUEST_FORM);
}

int srt_web_request_wants_html(seriatim_text accept)
{
    static const char wanted[] = "text/html";
    seriatim_text part = {accept.data, sizeof wanted - 1};
    size_t i;
    for (i = 0; i + part.len <= accept.len; i++) {
        part.data = accept.data + i;
        if (srt_web_request_same(part, wanted, part.len))
            return 1;
    }
    return 0;
}

/* One coding of the list, "gzip" or "gzip;q=0.8"; a weight of 0, "0." or "0.000" forbids it. */
static int request_is_gzip(const char *at, const char *end)
{
    const char *name = at, *weight;
    while (at < end && *at != ';' && *at != ' ' && *at != '\t')
        at++;
    if (!srt_web_request_same((seriatim_text){name, (size_t)(at - name)}, "gzip", strlen("gzip")))
        return 0;
    weight = at < end ? memchr(at, '=', (size_t)(end - at)) : NULL;
    for (at = weight ? weight + 1 : end; at < end; at++)
        if (*at >= '1' && *at <= '9')
            return 1;
    return !weight;
}

int srt_web_request_takes_gzip(seriatim_text accepted)
{
    const char *at = accepted.data, *end = at ? at + accepted.len : NULL, *comma;
    for (; at && at < end; at = comma + 1) {
        comma = memchr(at, ',', (size_t)(end - at));
        comma = comma ? comma : end;
        while (at < comma && (*at == ' ' || *at == '\t'))
            at++;
        if (request_is_gzip(at, comma))
            return 1;
    }
    return 0;
}

/* Each role may do what those before it may, but for the consumer, who stands beside them. */
static int request_role_may(int role, int needed)
{
    if (role == SERIATIM_WEB_CONSUMER || needed == SERIATIM_WEB_CONSUMER)
        return role == needed || role == SERIATIM_WEB_ADMIN;
    return role >= needed;
}

void srt_web_request_check(srt_web *w, const seriatim_web_settings *s, const seriatim_web_request *request)
{
    int open = w->route && w->route->role == SERIATIM_WEB_NOBODY, file = !w->route && w->status == 200;
    if (!open && !request_host_allowed(s, request->host))
        srt_web_refuse(w, 403, "this Host is not served");
    else if (!open && !file && !srt_web_request_has_token(s, request))
        srt_web_refuse(w, 401, "a token is needed");
    else if (!open && request->role <= SERIATIM_WEB_NOBODY)
        srt_web_refuse(w, 401, "you are not signed in");
    else if (srt_web_changes(w))
        request_check_mutation(w, s, request);
    if (!w->route || w->status || open || request_role_may(request->role, w->route->role))
        return;
    srt_web_refuse(w, 403, "this needs the role %s", srt_web_role_word(w->route->role));
}
