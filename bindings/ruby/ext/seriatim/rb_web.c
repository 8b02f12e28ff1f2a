/* rb_web.c - Seriatim::Native::Link#web: one request of the dashboard, answered by the core. */
#include "rb_link.h"

enum {
    WEB_METHOD,
    WEB_PREFIX,
    WEB_PATH,
    WEB_QUERY,
    WEB_HOST,
    WEB_ORIGIN,
    WEB_SITE,
    WEB_TYPE,
    WEB_AUTHORIZATION,
    WEB_ACCEPT,
    WEB_BODY,
    WEB_SECURE,
    WEB_ROLE,
    WEB_SOCKET,
    WEB_FIELDS
};
enum { WEB_TITLE, WEB_READ_ONLY, WEB_HOSTS, WEB_TOKEN, WEB_STALLED, WEB_WORKERS, WEB_SETTINGS };

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
    request->accept = web_text(list, WEB_ACCEPT);
    request->body = web_text(list, WEB_BODY);
    request->secure = RTEST(rb_ary_entry(list, WEB_SECURE));
    request->role = NUM2INT(rb_ary_entry(list, WEB_ROLE));
    request->socket = NUM2INT(rb_ary_entry(list, WEB_SOCKET));
}

/* [name, queue, name, queue, ...] as an array in a buffer for rb_free_tmp_buffer. */
static const seriatim_web_worker *web_workers(VALUE list, size_t *count, VALUE *buffer)
{
    seriatim_web_worker *workers;
    long i;
    Check_Type(list, T_ARRAY);
    *count = (size_t)RARRAY_LEN(list) / 2;
    workers = rb_alloc_tmp_buffer(buffer, (RARRAY_LEN(list) / 2 + 1) * (long)sizeof *workers);
    for (i = 0; i < RARRAY_LEN(list) / 2; i++) {
        workers[i].name = web_text(list, 2 * i);
        workers[i].queue = web_text(list, 2 * i + 1);
    }
    return workers;
}

/* The hosts and the workers lie in buffers for rb_free_tmp_buffer. */
static void web_settings(VALUE list, seriatim_web_settings *settings, VALUE *buffer, VALUE *workers_buffer)
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
    settings->workers = web_workers(rb_ary_entry(list, WEB_WORKERS), &settings->worker_count, workers_buffer);
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
    VALUE shown = rb_funcall(r->callable, rb_intern("call"), 3, srb_text(r->queue.data, r->queue.len),
                             srb_text(r->id.data, r->id.len), srb_text(r->text.data, r->text.len));
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
    return rb_ary_new_from_args(3, INT2NUM(response->status), headers,
                                srb_bytes(response->body.data, response->body.len));
}

static VALUE web_answer(srb_link *box, int status, VALUE redact)
{
    web_redaction redaction = {0};
    const seriatim_web_response *response;
    redaction.callable = redact;
    redaction.shown = Qnil;
    box->busy = 1;
    response =
        seriatim_web_answer(seriatim_link_client(box->link), status, NIL_P(redact) ? NULL : web_redact, &redaction);
    box->busy = 0;
    if (redaction.state)
        rb_jump_tag(redaction.state);
    return web_response(response);
}

/* ---- What it changed ------------------------------------------------------------------------- */

static void web_set(VALUE hash, const char *key, VALUE value)
{
    rb_hash_aset(hash, ID2SYM(rb_intern(key)), value);
}

static void web_set_text(VALUE hash, const char *key, seriatim_text text)
{
    if (text.data)
        web_set(hash, key, srb_text(text.data, text.len));
}

static VALUE web_ids(const seriatim_web_change *change)
{
    VALUE ids = rb_ary_new_capa((long)change->id_count);
    size_t i;
    for (i = 0; i < change->id_count; i++)
        rb_ary_push(ids, srb_text(change->ids[i].data, change->ids[i].len));
    return ids;
}

/* [{action:, role:, queue: or node:, fingerprint:, ids:, count:, status:, error:}, line]: what there is of them */
static VALUE web_change(const seriatim_web_change *change)
{
    VALUE hash = rb_hash_new(), line = srb_text(change->line.data, change->line.len);
    web_set(hash, "action", rb_utf8_str_new_cstr(change->action));
    web_set(hash, "role", rb_utf8_str_new_cstr(change->role));
    web_set_text(hash, "queue", change->queue);
    web_set_text(hash, "node", change->node);
    web_set_text(hash, "fingerprint", change->fingerprint);
    if (change->id_count)
        web_set(hash, "ids", web_ids(change));
    if (change->count >= 0)
        web_set(hash, "count", LL2NUM(change->count));
    if (change->status)
        web_set(hash, "status", INT2NUM(change->status));
    if (change->error[0])
        web_set(hash, "error", srb_text(change->error, strlen(change->error)));
    return rb_ary_new_from_args(2, hash, line);
}

/* ---- One request ----------------------------------------------------------------------------- */

typedef struct web_exchange {
    srb_link *box;
    int status; /* of begin */
    VALUE redact, noted, seconds;
} web_exchange;

static VALUE web_run(VALUE arg)
{
    web_exchange *exchange = (web_exchange *)arg;
    if (exchange->status == SERIATIM_OK)
        exchange->status = srb_link_try(exchange->box, exchange->seconds);
    return web_answer(exchange->box, exchange->status, exchange->redact);
}

/* However it ended: a change may have been made though nobody waited for the answer. */
static VALUE web_note(VALUE arg)
{
    const web_exchange *exchange = (const web_exchange *)arg;
    const seriatim_web_change *change = seriatim_web_change_of(seriatim_link_client(exchange->box->link));
    if (change)
        rb_ary_push(exchange->noted, web_change(change));
    return Qnil;
}

/*
 * link.web(settings, request, redact or nil, noted, seconds) -> [status, headers, body]; a Redis that does not answer
 * is a 503. noted: an Array, to which what the request asked to change is added, also when this raises.
 */
static VALUE web_ask(VALUE self, VALUE settings, VALUE request, VALUE redact, VALUE noted, VALUE seconds)
{
    web_exchange exchange = {srb_link_idle(self), SERIATIM_OK, redact, noted, seconds};
    seriatim_web_settings set;
    seriatim_web_request asked;
    VALUE buffer = 0, workers_buffer = 0;
    Check_Type(noted, T_ARRAY);
    web_request(request, &asked);
    web_settings(settings, &set, &buffer, &workers_buffer);
    exchange.status = seriatim_web_begin(seriatim_link_client(exchange.box->link), &set, &asked);
    rb_free_tmp_buffer(&buffer);
    rb_free_tmp_buffer(&workers_buffer);
    RB_GC_GUARD(settings);
    RB_GC_GUARD(request);
    return rb_ensure(web_run, (VALUE)&exchange, web_note, (VALUE)&exchange);
}

/* Native.web_routes -> [[method, pattern, the least role, changes anything], ...] */
static VALUE web_routes(VALUE self)
{
    size_t count, i;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    VALUE list = rb_ary_new_capa((long)count);
    (void)self;
    for (i = 0; i < count; i++)
        rb_ary_push(list, rb_ary_new_from_args(4, rb_utf8_str_new_cstr(routes[i].method),
                                               rb_utf8_str_new_cstr(routes[i].pattern), INT2NUM(routes[i].role),
                                               routes[i].action ? Qtrue : Qfalse));
    return list;
}

void srb_init_web(VALUE link_class)
{
    rb_define_method(link_class, "web", web_ask, 5);
    rb_define_singleton_method(srb_native, "web_routes", web_routes, 0);
}
