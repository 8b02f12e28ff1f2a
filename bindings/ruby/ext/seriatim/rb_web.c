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
    WEB_ACCEPT_ENCODING,
    WEB_BODY,
    WEB_SECURE,
    WEB_ROLE,
    WEB_SOCKET,
    WEB_HOST_WAITS,
    WEB_WAITED_MS,
    WEB_FIELDS
};
enum { WEB_TITLE, WEB_READ_ONLY, WEB_HOSTS, WEB_TOKEN, WEB_STALLED, WEB_WORKERS, WEB_CONSUME, WEB_SETTINGS };

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
    if (NIL_P(value))
        return NULL;
    Check_Type(value, T_STRING);
    return StringValueCStr(value);
}

/* All Strings of the settings and of the request, until rb_free_tmp_buffer. */
static void web_pin(VALUE settings, VALUE request, VALUE *buffer)
{
    VALUE lists[4] = {settings, request};
    Check_Type(settings, T_ARRAY);
    if (RARRAY_LEN(settings) != WEB_SETTINGS)
        rb_raise(rb_eArgError, "the settings are %d values", WEB_SETTINGS);
    Check_Type(request, T_ARRAY);
    if (RARRAY_LEN(request) != WEB_FIELDS)
        rb_raise(rb_eArgError, "a request is %d values", WEB_FIELDS);
    lists[2] = rb_ary_entry(settings, WEB_HOSTS);
    lists[3] = rb_ary_entry(settings, WEB_WORKERS);
    srb_pin(buffer, 4, lists);
}

static void web_request(VALUE list, seriatim_web_request *request)
{
    memset(request, 0, sizeof *request);
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
    request->accept_encoding = web_text(list, WEB_ACCEPT_ENCODING);
    request->body = web_text(list, WEB_BODY);
    request->secure = RTEST(rb_ary_entry(list, WEB_SECURE));
    request->role = NUM2INT(rb_ary_entry(list, WEB_ROLE));
    request->socket = NUM2INT(rb_ary_entry(list, WEB_SOCKET));
    request->host_waits = NUM2INT(rb_ary_entry(list, WEB_HOST_WAITS));
    request->waited_ms = NUM2LL(rb_ary_entry(list, WEB_WAITED_MS));
}

/* [name, queue, name, queue, ...] as an array in a buffer for rb_free_tmp_buffer. */
static const seriatim_web_worker *web_workers(VALUE list, size_t *count, VALUE *buffer)
{
    seriatim_web_worker *workers;
    long i;
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
    VALUE hosts = rb_ary_entry(list, WEB_HOSTS);
    const char **names;
    long i;
    memset(settings, 0, sizeof *settings);
    names = rb_alloc_tmp_buffer(buffer, (RARRAY_LEN(hosts) + 1) * (long)sizeof *names);
    for (i = 0; i < RARRAY_LEN(hosts); i++)
        names[i] = web_cstr(hosts, i);
    settings->hosts = names;
    settings->host_count = (size_t)RARRAY_LEN(hosts);
    settings->title = web_cstr(list, WEB_TITLE);
    settings->read_only = RTEST(rb_ary_entry(list, WEB_READ_ONLY));
    settings->token = web_cstr(list, WEB_TOKEN);
    settings->stalled = web_cstr(list, WEB_STALLED);
    settings->consume = RTEST(rb_ary_entry(list, WEB_CONSUME));
    settings->workers = web_workers(rb_ary_entry(list, WEB_WORKERS), &settings->worker_count, workers_buffer);
}

/* ---- The application's functions, which the core calls while it answers ---------------------- */

typedef struct web_calls {
    VALUE redact, load_error; /* nil: the application set none */
    VALUE shown, loaded;      /* what they gave last */
    VALUE callable;           /* of the call under way */
    int count;
    seriatim_text texts[3];
    int state; /* of rb_protect: nothing is shown from then on */
} web_calls;

static VALUE web_call(VALUE arg)
{
    web_calls *calls = (web_calls *)arg;
    VALUE texts[3], said;
    int i;
    for (i = 0; i < calls->count; i++)
        texts[i] = srb_text(calls->texts[i].data, calls->texts[i].len);
    said = rb_funcallv(calls->callable, rb_intern("call"), calls->count, texts);
    Check_Type(said, T_STRING);
    return said;
}

/*
 * The String that the function gives for calls->texts, also in *kept; nil after an exception, which must not jump over
 * the core's frames and so waits until the core has answered.
 */
static seriatim_text web_ask_function(web_calls *calls, VALUE callable, int count, VALUE *kept)
{
    seriatim_text nothing = {NULL, 0}, text;
    VALUE said;
    if (calls->state)
        return nothing;
    calls->callable = callable;
    calls->count = count;
    said = rb_protect(web_call, (VALUE)calls, &calls->state);
    if (calls->state)
        return nothing;
    *kept = said;
    text.data = RSTRING_PTR(said);
    text.len = (size_t)RSTRING_LEN(said);
    return text;
}

static seriatim_text web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    web_calls *calls = context;
    calls->texts[0] = queue;
    calls->texts[1] = id;
    calls->texts[2] = text;
    return web_ask_function(calls, calls->redact, 3, &calls->shown);
}

static seriatim_text web_load_error(void *context, seriatim_text stored)
{
    web_calls *calls = context;
    calls->texts[0] = stored;
    return web_ask_function(calls, calls->load_error, 1, &calls->loaded);
}

/* ---- The answer ------------------------------------------------------------------------------ */

static VALUE web_response(const seriatim_web_response *response)
{
    VALUE headers = rb_hash_new();
    size_t i;
    for (i = 0; i < response->header_count; i++)
        rb_hash_aset(headers, rb_funcall(rb_utf8_str_new_cstr(response->headers[i].name), rb_intern("downcase"), 0),
                     rb_utf8_str_new_cstr(response->headers[i].value));
    return rb_ary_new_from_args(4, INT2NUM(response->status), headers,
                                srb_bytes(response->body.data, response->body.len), INT2NUM(response->wait_ms));
}

/* nil: the request goes on, so the link is to be driven again. */
static VALUE web_answer(srb_link *box, int status, VALUE redact, VALUE load_error)
{
    web_calls calls = {0};
    seriatim_web_hooks hooks = {NIL_P(redact) ? NULL : web_redact, NIL_P(load_error) ? NULL : web_load_error, &calls};
    const seriatim_web_response *response;
    calls.redact = redact;
    calls.load_error = load_error;
    calls.shown = calls.loaded = calls.callable = Qnil;
    box->busy = 1;
    response = seriatim_web_answer(seriatim_link_client(box->link), status, &hooks);
    box->busy = 0;
    if (calls.state)
        rb_jump_tag(calls.state);
    return response ? web_response(response) : Qnil;
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

/* [{action:, role:, queue: or node:, fingerprint:, shards:, ids:, count:, status:, error:}, line]: what there is of
 * them */
static VALUE web_change(const seriatim_web_change *change)
{
    VALUE hash = rb_hash_new(), line = srb_text(change->line.data, change->line.len);
    web_set(hash, "action", rb_utf8_str_new_cstr(change->action));
    web_set(hash, "role", rb_utf8_str_new_cstr(change->role));
    web_set_text(hash, "queue", change->queue);
    web_set_text(hash, "node", change->node);
    web_set_text(hash, "fingerprint", change->fingerprint);
    web_set_text(hash, "shards", change->shards);
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
    VALUE redact, load_error, noted, seconds;
} web_exchange;

static VALUE web_run(VALUE arg)
{
    web_exchange *exchange = (web_exchange *)arg;
    VALUE answer = Qnil;
    while (NIL_P(answer)) {
        if (exchange->status == SERIATIM_OK)
            exchange->status = srb_link_run(exchange->box, exchange->seconds);
        answer = web_answer(exchange->box, exchange->status, exchange->redact, exchange->load_error);
    }
    return answer;
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
 * link.web(settings, request, redact or nil, load_error or nil, noted, seconds) -> [status, headers, body, wait_ms]; a
 * Redis that does not answer is a 503. wait_ms above 0: of a pop that is to be asked again. noted: an Array, to which
 * what the request asked to change is added, also when this raises.
 */
static VALUE web_ask(VALUE self, VALUE settings, VALUE request, VALUE redact, VALUE load_error, VALUE noted,
                     VALUE seconds)
{
    web_exchange exchange = {srb_link_idle(self), SERIATIM_OK, redact, load_error, noted, seconds};
    seriatim_web_settings set;
    seriatim_web_request asked;
    VALUE buffer = 0, workers_buffer = 0, pinned = 0;
    Check_Type(noted, T_ARRAY);
    web_pin(settings, request, &pinned);
    web_request(request, &asked);
    web_settings(settings, &set, &buffer, &workers_buffer);
    set.loads_errors = !NIL_P(load_error);
    exchange.status = seriatim_web_begin(seriatim_link_client(exchange.box->link), &set, &asked);
    rb_free_tmp_buffer(&buffer);
    rb_free_tmp_buffer(&workers_buffer);
    rb_free_tmp_buffer(&pinned);
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
    rb_define_method(link_class, "web", web_ask, 6);
    rb_define_singleton_method(srb_native, "web_routes", web_routes, 0);
}
