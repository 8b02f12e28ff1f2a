/* lua_client.c - native.client: a connection without a socket, whose host does the I/O. */
#include "lua_link.h"

/* ---- Life ------------------------------------------------------------------------------------ */

static void client_identify(seriatim_client *client, int forked)
{
    unsigned char bytes[SRT_CLIENT_RANDOM], *random = bytes;
    if (srt_random(bytes, sizeof bytes, NULL) != SERIATIM_OK)
        random = NULL;
    if (forked)
        srt_client_forked(client, random);
    else
        srt_client_identify(client, random);
}

static void client_before_begin(void *host)
{
    slu_link *self = host;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    srt_client_tell_time(self->client, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
}

void slu_client_forked(slu_link *self)
{
    client_identify(self->client, 1);
}

static slu_link *client_of(lua_State *L)
{
    slu_link *self = luaL_checkudata(L, 1, SLU_CLIENT);
    return slu_link_of(L) ? self : NULL;
}

/* native.client(namespace, name, max_payload) */
static int client_new(lua_State *L)
{
    seriatim_options options;
    seriatim_error error = {0};
    slu_link *self;
    lua_settop(L, 3);
    slu_link_options(L, 1, &options);
    self = slu_new(L, SLU_CLIENT, sizeof *self);
    if (seriatim_client_new(&options, &self->client, &error) != SERIATIM_OK)
        return slu_nil_error(L, &error);
    self->pid = slu_pid();
    slu_link_share_turns(self->client);
    srt_client_host(self->client, client_before_begin, self);
    client_identify(self->client, 0);
    return 1;
}

static int client_close(lua_State *L)
{
    slu_link *self = luaL_checkudata(L, 1, SLU_CLIENT);
    seriatim_client *client = self->client;
    if (self->busy)
        return 0;
    self->client = NULL;
    slu_web_forget_hooks(L, self);
    seriatim_client_free(client);
    return 0;
}

/* ---- The connection -------------------------------------------------------------------------- */

/*
 * The number of a master at this argument, as client:master gives it. 0: there is none, so the one Redis is meant, or
 * any seed.
 */
static int client_number(lua_State *L, int at, unsigned *number)
{
    int value;
    if (lua_isnoneornil(L, at))
        return 0;
    value = slu_int(L, at, "master");
    luaL_argcheck(L, value >= 0, at, "no such master");
    *number = (unsigned)value;
    return 1;
}

/* client:seed(host, port): the client is one of the cluster that this address leads to; before its first operation */
static int client_seed(lua_State *L)
{
    slu_link *self = client_of(L);
    const char *host = slu_cstr(L, 2, "host");
    int port = slu_int(L, 3, "port");
    if (!self)
        return slu_link_closed(L);
    if (srt_client_seed(self->client, host, port) != SERIATIM_OK)
        return slu_raise(L, "not enough memory");
    return slu_true(L);
}

/*
 * client:tick(): does what is due in a cluster. The ms until it is to be called again; nil: need not be, if nothing
 * else happens
 */
static int client_tick(lua_State *L)
{
    slu_link *self = client_of(L);
    int64_t now = srt_clock_ms(), due = self ? srt_client_tick(self->client, now) : INT64_MAX;
    if (due == INT64_MAX)
        return 0;
    slu_push_int(L, due > now ? due - now : 0);
    return 1;
}

/* client:master(place): number, host, port, wanted, waits; nil: there are no more */
static int client_master(lua_State *L)
{
    slu_link *self = client_of(L);
    size_t place = slu_place(L, 2, "place");
    srt_client_master_view master;
    if (!self || !srt_client_master(self->client, place, &master))
        return 0;
    slu_push_int(L, (int64_t)master.number);
    lua_pushstring(L, master.host);
    slu_push_int(L, master.port);
    lua_pushboolean(L, master.wanted);
    lua_pushboolean(L, master.waits);
    return 5;
}

/* client:left(master): the host gives its connection to others; false: it must be closed */
static int client_left(lua_State *L)
{
    slu_link *self = client_of(L);
    unsigned number = 0;
    lua_pushboolean(L, client_number(L, 2, &number) && self && srt_client_master_left(self->client, number));
    return 1;
}

/* client:answers(): the number of answers that operations have got */
static int client_answers(lua_State *L)
{
    slu_link *self = client_of(L);
    slu_push_int(L, self ? (int64_t)srt_client_answers(self->client) : 0);
    return 1;
}

/* client:held_up(): kind and message of why requests are sent again; nil: they are not */
static int client_held_up(lua_State *L)
{
    slu_link *self = client_of(L);
    const seriatim_error *why = self ? srt_client_held_up(self->client) : NULL;
    if (!why || why->status == SERIATIM_OK)
        return 0;
    lua_pushstring(L, seriatim_status_name(why->status));
    lua_pushstring(L, why->message);
    return 2;
}

static int client_greet(seriatim_client *client, const char *user, const char *password, int database, int fresh)
{
    return fresh ? srt_client_connected(client, user, password, database) : srt_client_connected_again(client);
}

static int client_greet_master(seriatim_client *client, unsigned number, const char *user, const char *password,
                               int fresh)
{
    return fresh ? srt_client_master_connected(client, number, user, password)
                 : srt_client_master_connected_again(client, number);
}

/* client:connected(user, password, database, fresh, master): one that is not fresh has been greeted before */
static int client_connected(lua_State *L)
{
    slu_link *self = client_of(L);
    const char *user = slu_cstr_or_null(L, 2, "user"), *password = slu_cstr_or_null(L, 3, "password");
    int database = lua_isnoneornil(L, 4) ? 0 : slu_int(L, 4, "database"), status;
    int fresh = lua_isnoneornil(L, 5) || lua_toboolean(L, 5);
    unsigned number = 0;
    int is_numbered = client_number(L, 6, &number);
    if (!self)
        return slu_link_closed(L);
    status = is_numbered ? client_greet_master(self->client, number, user, password, fresh)
                         : client_greet(self->client, user, password, database, fresh);
    return status == SERIATIM_OK ? slu_true(L) : slu_failure(L, status, NULL);
}

/* client:expect_master(): each connection is asked whether it leads to one; a replica ends it as READONLY */
static int client_expect_master(lua_State *L)
{
    slu_link *self = client_of(L);
    if (self)
        srt_client_expect_master(self->client);
    return 0;
}

/* client:disconnected(master) */
static int client_disconnected(lua_State *L)
{
    slu_link *self = client_of(L);
    unsigned number = 0;
    int is_numbered = client_number(L, 2, &number);
    if (self && is_numbered)
        srt_client_master_disconnected(self->client, number);
    else if (self)
        srt_client_disconnected(self->client);
    return 0;
}

static void client_peek(const slu_link *self, int is_numbered, unsigned number, const char **data, size_t *len)
{
    if (is_numbered)
        srt_client_master_output(self->client, number, data, len);
    else
        srt_client_output(self->client, data, len);
}

/* client:output(master) */
static int client_output(lua_State *L)
{
    slu_link *self = client_of(L);
    const char *data = NULL;
    size_t len = 0;
    unsigned number = 0;
    int is_numbered = client_number(L, 2, &number);
    if (self)
        client_peek(self, is_numbered, number, &data, &len);
    lua_pushlstring(L, data ? data : "", len);
    return 1;
}

/* client:sent(count, master) */
static int client_sent(lua_State *L)
{
    slu_link *self = client_of(L);
    size_t count = slu_size(L, 2, "count"), len;
    const char *data;
    unsigned number = 0;
    int is_numbered = client_number(L, 3, &number);
    if (!self)
        return 0;
    client_peek(self, is_numbered, number, &data, &len);
    luaL_argcheck(L, count <= len, 2, "more than there was");
    if (is_numbered)
        srt_client_master_sent(self->client, number, count);
    else
        srt_client_sent(self->client, count);
    return 0;
}

/*
 * client:limit(): seconds that the operation under way may take as a whole; nil: only the time without an answer is
 * limited
 */
static int client_limit(lua_State *L)
{
    slu_link *self = client_of(L);
    int64_t limit_ms = self ? srt_client_whole_ms(self->client) : 0;
    if (limit_ms)
        lua_pushnumber(L, (lua_Number)limit_ms / 1000);
    else
        lua_pushnil(L);
    return 1;
}

/* client:tell_left(ms): what is left of the limit, before each input */
static int client_tell_left(lua_State *L)
{
    slu_link *self = client_of(L);
    double left = slu_double(L, 2, "milliseconds");
    if (self && left < 1e12)
        srt_client_tell_left(self->client, (int64_t)left);
    return 0;
}

/* ---- Sleep ----------------------------------------------------------------------------------- */

/* client:sleeps(): for how many milliseconds the operation under way sleeps; nil: it does not */
static int client_sleeps(lua_State *L)
{
    slu_link *self = client_of(L);
    int64_t sleep_ms = self ? srt_client_sleeps(self->client) : -1;
    if (sleep_ms < 0)
        return 0;
    slu_push_int(L, sleep_ms);
    return 1;
}

/* client:repeats(): does it sleep before it sends again what shards could not take yet? */
static int client_repeats(lua_State *L)
{
    slu_link *self = client_of(L);
    lua_pushboolean(L, self && srt_client_repeats(self->client));
    return 1;
}

/* client:keeps(): is it a push that keeps its connections while it sleeps, because replicas are counted on them? */
static int client_keeps(lua_State *L)
{
    slu_link *self = client_of(L);
    lua_pushboolean(L, self && srt_client_keeps(self->client));
    return 1;
}

static int client_wake(lua_State *L)
{
    slu_link *self = client_of(L);
    if (self)
        srt_client_wake(self->client);
    return 0;
}

/* client:tell_spent(ms): since the operation was begun, before each input and wake */
static int client_tell_spent(lua_State *L)
{
    slu_link *self = client_of(L);
    int64_t spent_ms = slu_int64(L, 2, "milliseconds");
    if (self)
        srt_client_tell_spent(self->client, spent_ms);
    return 0;
}

/* client:channels(): the names of the wake-up channels of the queues of a pop that sleeps */
static int client_channels(lua_State *L)
{
    slu_link *self = client_of(L);
    srt_bytes *names = slu_bytes(L);
    const char *name;
    int count = 0;
    if (!self)
        return slu_link_closed(L);
    if (srt_client_channels(self->client, names) != SERIATIM_OK)
        return slu_raise(L, "not enough memory");
    lua_newtable(L);
    for (name = names->data; names->len && name < names->data + names->len; name += strlen(name) + 1) {
        lua_pushstring(L, name);
        lua_rawseti(L, -2, ++count);
    }
    return 1;
}

/* client:listens(is_so): the host listens to all channels of the queues of a pop */
static int client_listens(lua_State *L)
{
    slu_link *self = client_of(L);
    if (self)
        srt_client_listens(self->client, lua_toboolean(L, 2));
    return 0;
}

/* client:input(bytes, master) */
static int client_input(lua_State *L)
{
    slu_link *self = client_of(L);
    seriatim_error error = {0};
    size_t len;
    const char *data = slu_text(L, 2, "bytes", &len);
    unsigned number = 0;
    int is_numbered = client_number(L, 3, &number), status;
    if (!self)
        return slu_link_closed(L);
    status = is_numbered ? srt_client_master_input(self->client, number, data, len, &error)
                         : srt_client_input(self->client, data, len, &error);
    return status == SERIATIM_OK ? slu_true(L) : slu_nil_error(L, &error);
}

static int client_status(lua_State *L)
{
    slu_link *self = client_of(L);
    int status;
    if (!self)
        return slu_link_closed(L);
    status = srt_client_status(self->client);
    if (status == SERIATIM_OK)
        return slu_true(L);
    if (status == SERIATIM_INVALID) /* only the result raises */
        return slu_nil_error(L, seriatim_client_error(self->client));
    if (status != SERIATIM_AGAIN)
        return slu_link_fail(L, self, status);
    lua_pushliteral(L, "again");
    return 1;
}

/* The status of that name; OK where there is none. */
static int client_kind(const char *name)
{
    static const int codes[] = {
#define X(name, code, text) code,
        SERIATIM_STATUSES(X)
#undef X
    };
    size_t i;
    for (i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(name, seriatim_status_name(codes[i])) == 0)
            return codes[i];
    return SERIATIM_OK;
}

/* client:give_up(kind, why): what it ends with, as status() tells it */
static int client_give_up(lua_State *L)
{
    slu_link *self = client_of(L);
    int status = client_kind(slu_cstr(L, 2, "kind"));
    const char *why = slu_cstr(L, 3, "why");
    luaL_argcheck(L, status != SERIATIM_OK && status != SERIATIM_AGAIN, 2, "no such kind");
    if (!self)
        return slu_link_closed(L);
    srt_client_give_up(self->client, status, why);
    return client_status(L);
}

void slu_open_client(lua_State *L)
{
    static const luaL_Reg methods[] = {{"connected", client_connected},
                                       {"disconnected", client_disconnected},
                                       {"output", client_output},
                                       {"sent", client_sent},
                                       {"input", client_input},
                                       {"status", client_status},
                                       {"give_up", client_give_up},
                                       {"close", client_close},
                                       {"expect_master", client_expect_master},
                                       {"seed", client_seed},
                                       {"tick", client_tick},
                                       {"master", client_master},
                                       {"left", client_left},
                                       {"answers", client_answers},
                                       {"held_up", client_held_up},
                                       {"limit", client_limit},
                                       {"tell_left", client_tell_left},
                                       {"sleeps", client_sleeps},
                                       {"repeats", client_repeats},
                                       {"keeps", client_keeps},
                                       {"wake", client_wake},
                                       {"tell_spent", client_tell_spent},
                                       {"channels", client_channels},
                                       {"listens", client_listens},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"client", client_new}, {NULL, NULL}};
    slu_class(L, SLU_CLIENT, methods, client_close);
    slu_methods(L, SLU_CLIENT, slu_operations);
    slu_methods(L, SLU_CLIENT, slu_operators);
    slu_methods(L, SLU_CLIENT, slu_pops);
    slu_methods(L, SLU_CLIENT, slu_ick);
    slu_methods(L, SLU_CLIENT, slu_web);
    slu_functions(L, functions);
}
