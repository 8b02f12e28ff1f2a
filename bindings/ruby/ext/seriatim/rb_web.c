/* rb_web.c - Seriatim::Native::Link#web: one request of the dashboard, answered by the core. */
#include "rb_link.h"

enum { WEB_METHOD, WEB_PREFIX, WEB_PATH, WEB_QUERY, WEB_HOST, WEB_ORIGIN, WEB_SITE, WEB_TYPE, WEB_AUTHORIZATION, WEB_BODY, WEB_SECURE,
       WEB_ROLE, WEB_FIELDS };
enum { WEB_TITLE, WEB_READ_ONLY, WEB_HOSTS, WEB_TOKEN, WEB_STALLED, WEB_SETTINGS };

/* ---- What is asked --------------------------------------------------------------------------- */

static seriatim_text web_text(VALUE list, long at)
{
    VALUE value = rb_ary_entry(list, at);
    seriatim_text text = {NULL, 0};
    if (!NIL_P(value)) {
        Check_Type(value, T_STRING);
        text.data = RSTRING_PTR(value);
        text.len = (size_t)RSTRING_LEN(value);
    }
    return text;
}

static const char *web_cstr(VALUE list, long at)
{
    VALUE value = rb_ary_entry(list, at);
    return NIL_P(value) ? NULL : StringValueCStr(value);
}

static void web_request(VALUE list, seriatim_web_request *request)
{
    memset(request, 0, sizeof *request);
    Check_Type(list, T_ARRAY);
    if (RARRAY_LEN(list) != WEB_FIELDS)
        rb_raise(rb_eArgError, "a request is %d values", WEB_FIELDS);
    request->method = web_cstr(list, WEB_METHOD);
    if (!request->method)
        rb_raise(rb_eArgError, "a request has a method");
    request->prefix = web_text(list, WEB_PREFIX);
    request->path = web_text(list, WEB_PATH);
    request->query = web_text(list, WEB_QUERY);
    request->host = web_text(list, WEB_HOST);
    request->origin = web_text(list, WEB_ORIGIN);
    request->sec_fetch_site = web_text(list, WEB_SITE);
    request->content_type = web_text(list, WEB_TYPE);
    request->authorization = web_text(list, WEB_AUTHORIZATION);
    request->body = web_text(list, WEB_BODY);
    request->secure = RTEST(rb_ary_entry(list, WEB_SECURE));
    request->role = NUM2INT(rb_ary_entry(list, WEB_ROLE));
}

/* The hosts lie in a buffer for rb_free_tmp_buffer. */
static void web_settings(VALUE list, seriatim_web_settings *settings, VALUE *buffer)
{
    VALUE hosts;
    const char **names;
    long i;
    memset(settings, 0, sizeof *settings);
    Check_Type(list, T_ARRAY);
    if (RARRAY_LEN(list) != WEB_SETTINGS)
        rb_raise(rb_eArgError, "the settings are %d values", WEB_SETTINGS);
    hosts = rb_ary_entry(list, WEB_HOSTS);
    Check_Type(hosts, T_ARRAY);
    names = rb_alloc_tmp_buffer(buffer, (RARRAY_LEN(hosts) + 1) * (long)sizeof *names);
    for (i = 0; i < RARRAY_LEN(hosts); i++)
        names[i] = web_cstr(hosts, i);
    settings->hosts = names;
    settings->host_count = (size_t)RARRAY_LEN(hosts);
    settings->title = web_cstr(list, WEB_TITLE);
    settings->read_only = RTEST(rb_ary_entry(list, WEB_READ_ONLY));
    settings->token = web_cstr(list, WEB_TOKEN);
    settings->stalled = web_cstr(list, WEB_STALLED);
}

/* ---- Redaction ------------------------------------------------------------------------------- */

typedef struct web_redaction {
    VALUE callable, shown;
    seriatim_text queue, id, text;
    int state; /* of rb_protect: nothing is shown from then on */
} web_redaction;

static VALUE web_redact_call(VALUE arg)
{
    web_redaction *r = (web_redaction *)arg;
    VALUE shown = rb_funcall(r->callable, rb_intern("call"), 3, srb_text(r->queue.data, r->queue.len), srb_text(r->id.data, r->id.len),
                             srb_text(r->text.data, r->text.len));
    Check_Type(shown, T_STRING);
    return shown;
}

/* An exception must not jump over the core's frames: it waits until the core has answered. */
static seriatim_text web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    web_redaction *r = context;
    seriatim_text nothing = {"", 0};
    if (r->state)
        return nothing;
    r->queue = queue;
    r->id = id;
    r->text = text;
    r->shown = rb_protect(web_redact_call, (VALUE)r, &r->state);
    if (r->state)
        return nothing;
    text.data = RSTRING_PTR(r->shown);
    text.len = (size_t)RSTRING_LEN(r->shown);
    return text;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static VALUE web_response(const seriatim_web_response *response)
{
    VALUE headers = rb_hash_new();
    size_t i;
    for (i = 0; i < response->header_count; i++)
        rb_hash_aset(headers, rb_funcall(rb_utf8_str_new_cstr(response->headers[i].name), rb_intern("downcase"), 0),
                     rb_utf8_str_new_cstr(response->headers[i].value));
    return rb_ary_new_from_args(3, INT2NUM(response->status), headers, srb_bytes(response->body.data, response->body.len));
}

static VALUE web_answer(srb_link *box, int status, VALUE redact)
{
    web_redaction redaction = {0};
    const seriatim_web_response *response;
    redaction.callable = redact;
    redaction.shown = Qnil;
    box->busy = 1;
    response = seriatim_web_answer(seriatim_link_client(box->link), status, NIL_P(redact) ? NULL : web_redact, &redaction);
    box->busy = 0;
    if (redaction.state)
        rb_jump_tag(redaction.state);
    return web_response(response);
}

/* link.web(settings, request, redact or nil, seconds) -> [status, headers, body]; a Redis that does not answer is a 503 */
static VALUE web_ask(VALUE self, VALUE settings, VALUE request, VALUE redact, VALUE seconds)
{
    srb_link *box = srb_link_idle(self);
    seriatim_web_settings set;
    seriatim_web_request asked;
    VALUE buffer = 0;
    int status;
    web_request(request, &asked);
    web_settings(settings, &set, &buffer);
    status = seriatim_web_begin(seriatim_link_client(box->link), &set, &asked);
    rb_free_tmp_buffer(&buffer);
    RB_GC_GUARD(settings);
    RB_GC_GUARD(request);
    if (status == SERIATIM_OK)
        status = srb_link_try(box, seconds);
    return web_answer(box, status, redact);
}

/* Native.web_routes -> [[method, pattern, the least role, changes anything], ...] */
static VALUE web_routes(VALUE self)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    VALUE list = rb_ary_new_capa((long)count);
    (void)self;
    for (i = 0; i < count; i++)
        rb_ary_push(list, rb_ary_new_from_args(4, rb_utf8_str_new_cstr(routes[i].method), rb_utf8_str_new_cstr(routes[i].pattern),
                                               INT2NUM(routes[i].role), routes[i].mutates ? Qtrue : Qfalse));
    return list;
}

void srb_init_web(VALUE link_class)
{
    rb_define_method(link_class, "web", web_ask, 4);
    rb_define_singleton_method(srb_native, "web_routes", web_routes, 0);
}
