/*
 * lua_web.c - one request to the dashboard, its API or the metrics, as a method of Link and Client; native.web_routes.
 */
#include "lua_link.h"

/* ---- The request ----------------------------------------------------------------------------- */

/* Its value stays on the stack, which keeps the text. */
static void web_text(lua_State *L, int table, const char *name, seriatim_text *text)
{
    lua_getfield(L, table, name);
    if (!lua_isnil(L, -1))
        text->data = slu_text(L, -1, name, &text->len);
}

static const char *web_cstr(lua_State *L, int table, const char *name)
{
    lua_getfield(L, table, name);
    return slu_cstr_or_null(L, -1, name);
}

static int web_flag(lua_State *L, int table, const char *name)
{
    lua_getfield(L, table, name);
    return lua_toboolean(L, -1);
}

/* A word with a NUL is no method. */
static const char *web_method(lua_State *L, int table)
{
    size_t len;
    const char *method;
    lua_getfield(L, table, "method");
    method = slu_text(L, -1, "method", &len);
    return strlen(method) == len ? method : "";
}

static void web_request(lua_State *L, int at, seriatim_web_request *request)
{
    memset(request, 0, sizeof *request);
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_checkstack(L, 19, "a request");
    request->method = web_method(L, at);
    web_text(L, at, "prefix", &request->prefix);
    web_text(L, at, "path", &request->path);
    web_text(L, at, "query", &request->query);
    web_text(L, at, "host", &request->host);
    web_text(L, at, "origin", &request->origin);
    web_text(L, at, "sec_fetch_site", &request->sec_fetch_site);
    web_text(L, at, "content_type", &request->content_type);
    web_text(L, at, "authorization", &request->authorization);
    web_text(L, at, "accept", &request->accept);
    web_text(L, at, "accept_encoding", &request->accept_encoding);
    web_text(L, at, "body", &request->body);
    request->secure = web_flag(L, at, "secure");
    lua_getfield(L, at, "role");
    request->role = slu_int(L, -1, "role");
    lua_getfield(L, at, "socket");
    if (!lua_isnil(L, -1))
        request->socket = slu_int(L, -1, "socket");
    lua_getfield(L, at, "host_waits");
    if (!lua_isnil(L, -1))
        request->host_waits = slu_int(L, -1, "host_waits");
    lua_getfield(L, at, "waited_ms");
    if (!lua_isnil(L, -1))
        request->waited_ms = slu_int(L, -1, "waited_ms");
}

/* ---- The settings ---------------------------------------------------------------------------- */

/* The array is left on the stack; the table keeps its texts. */
static const char *const *web_hosts(lua_State *L, int table, size_t *count)
{
    const char **hosts;
    size_t i;
    int list;
    *count = 0;
    lua_getfield(L, table, "hosts");
    if (lua_isnil(L, -1))
        return NULL;
    list = lua_gettop(L);
    luaL_checktype(L, list, LUA_TTABLE);
    *count = slu_rawlen(L, list);
    hosts = lua_newuserdata(L, (*count + 1) * sizeof *hosts);
    for (i = 0; i < *count; i++) {
        lua_rawgeti(L, list, (int)(i + 1));
        hosts[i] = slu_cstr(L, -1, "hosts");
        lua_pop(L, 1);
    }
    return hosts;
}

/* A list name, queue, name, queue, ... as an array, which is left on the stack; the table keeps its texts. */
static const seriatim_web_worker *web_workers(lua_State *L, int table, size_t *count)
{
    seriatim_web_worker *workers;
    const seriatim_text *texts;
    size_t i;
    lua_getfield(L, table, "workers");
    texts = slu_texts(L, lua_gettop(L), count);
    *count /= 2;
    workers = lua_newuserdata(L, (*count + 1) * sizeof *workers);
    for (i = 0; i < *count; i++) {
        workers[i].name = texts[2 * i];
        workers[i].queue = texts[2 * i + 1];
    }
    return workers;
}

static void web_settings(lua_State *L, int at, seriatim_web_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    luaL_checktype(L, at, LUA_TTABLE);
    luaL_checkstack(L, 13, "settings");
    settings->title = web_cstr(L, at, "title");
    settings->read_only = web_flag(L, at, "read_only");
    settings->consume = web_flag(L, at, "consume");
    settings->token = web_cstr(L, at, "token");
    settings->stalled = web_cstr(L, at, "stalled");
    settings->hosts = web_hosts(L, at, &settings->host_count);
    settings->workers = web_workers(L, at, &settings->worker_count);
}

/* ---- The application's functions: the core calls them while it writes, and they may raise ----- */

enum { WEB_REDACT = 1, WEB_LOAD_ERROR }; /* their places in the list that web_keep_hooks keeps */

typedef struct web_calls {
    lua_State *L;
    slu_link *self;
    int caller; /* where web_call lies; above it the text that load_error gave last */
    int failed; /* what was raised lies on top */
    int hook, count;
    seriatim_text texts[3]; /* arguments of the call under way */
} web_calls;

/* A function of this connection's, or nil. */
static void web_push_hook(lua_State *L, slu_link *self, int hook)
{
    lua_pushlightuserdata(L, self);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_rawgeti(L, -1, hook);
    lua_remove(L, -2);
}

/* Of the functions, each may be nil, at these places of the stack. */
static void web_keep_hooks(lua_State *L, slu_link *self, int redact, int load_error)
{
    lua_pushlightuserdata(L, self);
    lua_createtable(L, 2, 0);
    lua_pushvalue(L, redact);
    lua_rawseti(L, -2, WEB_REDACT);
    lua_pushvalue(L, load_error);
    lua_rawseti(L, -2, WEB_LOAD_ERROR);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

void slu_web_forget_hooks(lua_State *L, slu_link *self)
{
    lua_pushlightuserdata(L, self);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (!lua_isnil(L, -1)) {
        lua_pushlightuserdata(L, self);
        lua_pushnil(L);
        lua_rawset(L, LUA_REGISTRYINDEX);
    }
    lua_pop(L, 1);
}

static int web_has_hook(lua_State *L, slu_link *self, int hook)
{
    int has;
    web_push_hook(L, self, hook);
    has = !lua_isnil(L, -1);
    lua_pop(L, 1);
    return has;
}

static int web_call(lua_State *L)
{
    const web_calls *calls = lua_touserdata(L, 1);
    size_t len;
    int i;
    web_push_hook(L, calls->self, calls->hook);
    for (i = 0; i < calls->count; i++)
        lua_pushlstring(L, calls->texts[i].data ? calls->texts[i].data : "", calls->texts[i].len);
    lua_call(L, calls->count, 1);
    slu_text(L, -1, calls->hook == WEB_REDACT ? "what redact returns" : "what load_error returns", &len);
    return 1;
}

/*
 * The text that the function gives, on top of the stack. data NULL once one has failed: then nothing is shown.
 * Allocates nothing outside of the protected call.
 */
static seriatim_text web_ask(web_calls *calls, int hook, int count)
{
    seriatim_text text = {NULL, 0};
    if (calls->failed)
        return text;
    calls->hook = hook;
    calls->count = count;
    lua_settop(calls->L, calls->caller + 1);
    lua_pushvalue(calls->L, calls->caller);
    lua_pushlightuserdata(calls->L, calls);
    calls->failed = lua_pcall(calls->L, 1, 1, 0) != 0;
    if (!calls->failed)
        text.data = lua_tolstring(calls->L, -1, &text.len);
    return text;
}

static seriatim_text web_redact(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    web_calls *calls = context;
    calls->texts[0] = queue;
    calls->texts[1] = id;
    calls->texts[2] = text;
    return web_ask(calls, WEB_REDACT, 3);
}

/* The redaction is called with its text, so it stays on the stack. */
static seriatim_text web_load_error(void *context, seriatim_text stored)
{
    web_calls *calls = context;
    seriatim_text text;
    calls->texts[0] = stored;
    text = web_ask(calls, WEB_LOAD_ERROR, 1);
    if (text.data)
        lua_replace(calls->L, calls->caller + 1);
    return text;
}

/* ---- The answer ------------------------------------------------------------------------------ */

static void web_push_headers(lua_State *L, const seriatim_web_response *response)
{
    size_t i;
    lua_createtable(L, 0, (int)response->header_count);
    for (i = 0; i < response->header_count; i++)
        slu_set_cstr(L, response->headers[i].name, response->headers[i].value);
}

static void web_set_text(lua_State *L, const char *name, seriatim_text text)
{
    if (text.data)
        slu_set_text(L, name, text.data, text.len);
}

static void web_push_id(lua_State *L, const void *ids, size_t i)
{
    const seriatim_text *id = (const seriatim_text *)ids + i;
    lua_pushlstring(L, id->data, id->len);
}

static void web_push_change(lua_State *L, seriatim_client *client)
{
    const seriatim_web_change *change = seriatim_web_change_of(client);
    if (!change) {
        lua_pushnil(L);
        return;
    }
    lua_createtable(L, 0, 8);
    slu_set_cstr(L, "action", change->action);
    slu_set_cstr(L, "role", change->role);
    web_set_text(L, "queue", change->queue);
    web_set_text(L, "node", change->node);
    web_set_text(L, "fingerprint", change->fingerprint);
    web_set_text(L, "shards", change->shards);
    if (change->id_count) {
        slu_push_list(L, change->id_count, web_push_id, change->ids);
        lua_setfield(L, -2, "ids");
    }
    if (change->count >= 0)
        slu_set_int(L, "count", change->count);
    slu_set_int(L, "status", change->status);
    if (change->error[0])
        slu_set_cstr(L, "error", change->error);
    slu_set_text(L, "line", change->line.data, change->line.len);
}

static int web_read(lua_State *L, const slu_link *link)
{
    slu_link *self = lua_touserdata(L, 1);
    const seriatim_web_response *response;
    web_calls calls = {L, self, 0, 0, 0, 0, {{NULL, 0}, {NULL, 0}, {NULL, 0}}};
    seriatim_web_hooks hooks = {web_has_hook(L, self, WEB_REDACT) ? web_redact : NULL,
                                web_has_hook(L, self, WEB_LOAD_ERROR) ? web_load_error : NULL, &calls};
    lua_pushcfunction(L, web_call);
    calls.caller = lua_gettop(L);
    lua_pushnil(L);
    response = seriatim_web_answer(link->client, srt_client_status(link->client), &hooks);
    if (calls.failed)
        return lua_error(L);
    lua_settop(L, calls.caller);
    lua_pushinteger(L, response ? response->status : 0);
    if (!response)
        return 1;
    web_push_headers(L, response);
    lua_pushlstring(L, response->body.data ? response->body.data : "", response->body.len);
    web_push_change(L, link->client);
    lua_pushinteger(L, response->wait_ms);
    return 5;
}

/*
 * link:web(settings, request, redact, load_error): status, {name = value of a header}, body, what it asked to change or
 * nil, milliseconds after which a pop is to be asked again or 0; or only 0: the request goes on by web_go_on. settings
 * and request have the core's fields by their names; redact: nil, or a function of queue, id and text; load_error: nil,
 * or one of a stored error. Whatever the operation ends with has an answer.
 */
static int web_begin(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_web_settings settings;
    seriatim_web_request request;
    int status;
    if (!self)
        return slu_link_closed(L);
    lua_settop(L, 5);
    web_settings(L, 2, &settings);
    settings.loads_errors = !lua_isnil(L, 5);
    web_request(L, 3, &request);
    status = seriatim_web_begin(self->client, &settings, &request);
    if (status == SERIATIM_INVALID)
        return slu_link_begun(L, self, status, NULL);
    web_keep_hooks(L, self, 4, 5);
    slu_link_begun(L, self, SERIATIM_OK, web_read);
    self->answers = 1;
    return 1;
}

/* link:web_go_on(): with the request whose result was 0; the result as of link:web */
static int web_go_on(lua_State *L)
{
    const slu_link *self = slu_link_of(L);
    if (!self)
        return slu_link_closed(L);
    luaL_argcheck(L, self->read == web_read && srt_client_status(self->client) == SERIATIM_AGAIN, 1,
                  "no request of the dashboard goes on");
    return slu_true(L);
}

const luaL_Reg slu_web[] = {{"web", web_begin}, {"web_go_on", web_go_on}, {NULL, NULL}};

/* ---- The routes ------------------------------------------------------------------------------ */

static void web_push_route(lua_State *L, const void *routes, size_t i)
{
    const seriatim_web_route *route = (const seriatim_web_route *)routes + i;
    lua_createtable(L, 0, 4);
    slu_set_cstr(L, "method", route->method);
    slu_set_cstr(L, "pattern", route->pattern);
    slu_set_int(L, "role", route->role);
    slu_set_bool(L, "mutates", route->action != NULL);
}

/* native.web_routes() */
static int web_routes(lua_State *L)
{
    size_t count;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    slu_push_list(L, count, web_push_route, routes);
    return 1;
}

void slu_open_web(lua_State *L)
{
    static const luaL_Reg functions[] = {{"web_routes", web_routes}, {NULL, NULL}};
    slu_functions(L, functions);
    lua_pushinteger(L, SERIATIM_WEB_MAX_BODY);
    lua_setfield(L, -2, "web_max_body");
}
