/* lua_node.c - native.node: a runner without sockets, thread and clock of its own; the host does the I/O. */
#include "lua_runner.h"

/* native.node(settings) */
static int node_new(lua_State *L)
{
    seriatim_node_settings settings;
    seriatim_error error = {0};
    slu_source **box, *source;
    slu_node_settings(L, 1, &settings);
    box = slu_source_box(L, SLU_NODE);
    source = *box = slu_source_new();
    if (!source)
        return slu_nil(L, "IO", strerror(errno));
    if (srt_node_new(&settings, &source->node, &error) != SERIATIM_OK)
        return slu_nil_error(L, &error);
    return 1;
}

/*
 * The node, started, with the channel; NULL: return slu_source_closed. Only one Lua state has it: nothing is entered.
 */
static srt_node *node_of(lua_State *L, srt_channel *channel)
{
    slu_source *source = slu_source_of(L);
    size_t number = slu_place(L, 2, "channel");
    luaL_argcheck(L, number == SRT_WAKES || (number % 2 == 0 && number < INT_MAX), 2, "no such channel");
    *channel = (srt_channel)number;
    if (source->pid != slu_pid() || slu_source_is_closed(source))
        return NULL;
    if (!source->node || !source->started)
        luaL_error(L, "the node is not started");
    return source->node;
}

static int node_closed(lua_State *L)
{
    return slu_source_closed(L, slu_source_of(L));
}

/* node:expect_masters(): each connection is asked whether it leads to one; a replica ends it as READONLY */
static int node_expect_masters(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    if (source->pid != slu_pid() || slu_source_is_closed(source) || !source->node)
        return node_closed(L);
    srt_node_expect_masters(source->node);
    return slu_true(L);
}

/* node:seed(host, port): it is one of the cluster that this address leads to; before the start */
static int node_seed(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    const char *host = slu_cstr(L, 2, "host");
    int port = slu_int(L, 3, "port");
    if (source->pid != slu_pid() || slu_source_is_closed(source) || !source->node)
        return node_closed(L);
    if (srt_node_seed(source->node, host, port) != SERIATIM_OK)
        return slu_raise(L, "not enough memory");
    return slu_true(L);
}

/* node:connected(channel, user, password, database) */
static int node_connected(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    const char *user = slu_cstr_or_null(L, 3, "user"), *password = slu_cstr_or_null(L, 4, "password");
    int database = lua_isnoneornil(L, 5) ? 0 : slu_int(L, 5, "database"), status;
    if (!node)
        return node_closed(L);
    status = srt_node_connected(node, channel, user, password, database, srt_clock_ms());
    return status == SERIATIM_OK ? slu_true(L) : slu_failure(L, status, NULL);
}

static int node_disconnected(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    if (!node)
        return node_closed(L);
    srt_node_disconnected(node, channel, srt_clock_ms());
    return slu_true(L);
}

/* node:output(channel): the bytes to send now */
static int node_output(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    const char *data = NULL;
    size_t len = 0;
    if (!node)
        return node_closed(L);
    srt_node_output(node, channel, &data, &len);
    lua_pushlstring(L, data ? data : "", len);
    return 1;
}

static int node_sent(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    size_t count = slu_size(L, 3, "count"), len;
    const char *data;
    if (!node)
        return node_closed(L);
    srt_node_output(node, channel, &data, &len);
    luaL_argcheck(L, count <= len, 3, "more than there was");
    srt_node_sent(node, channel, count);
    return slu_true(L);
}

/* node:input(channel, bytes) */
static int node_input(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    seriatim_error error = {0};
    size_t len;
    const char *data = slu_text(L, 3, "bytes", &len);
    if (!node)
        return node_closed(L);
    if (srt_node_input(node, channel, data, len, srt_clock_ms(), &error) == SERIATIM_OK)
        return slu_true(L);
    return slu_nil_error(L, &error);
}

/* The node, started; NULL: closed. */
static srt_node *node_started(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    if (source->pid != slu_pid() || slu_source_is_closed(source))
        return NULL;
    if (!source->node || !source->started)
        luaL_error(L, "the node is not started");
    return source->node;
}

/* node:tick() -> ms until the next one is wanted */
static int node_tick(lua_State *L)
{
    srt_node *node = node_started(L);
    int64_t now = srt_clock_ms(), next;
    if (!node)
        return node_closed(L);
    if (srt_heartbeat_due(node, now))
        srt_node_vitals(node, srt_resident_bytes(), srt_clock_wall_us() - now * 1000);
    next = srt_node_tick(node, now) - now;
    slu_push_int(L, next < 0 ? 0 : next < 60000 ? next : 60000);
    return 1;
}

/* node:news(group): true when a take may give something since this was last asked */
static int node_news(lua_State *L)
{
    srt_node *node = node_started(L);
    size_t group = slu_size(L, 2, "group");
    int news;
    if (!node)
        return node_closed(L);
    news = srt_node_news(node, group);
    luaL_argcheck(L, news >= 0, 2, "no such group");
    lua_pushboolean(L, news);
    return 1;
}

/* node:waits(channel): an answer of Redis is owed there */
static int node_waits(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    if (!node)
        return node_closed(L);
    lua_pushboolean(L, srt_node_waits(node, channel));
    return 1;
}

/* node:served(channel): that connection has answered more than its greeting */
static int node_served(lua_State *L)
{
    srt_channel channel;
    srt_node *node = node_of(L, &channel);
    if (!node)
        return node_closed(L);
    lua_pushboolean(L, srt_node_served(node, channel));
    return 1;
}

/* node:master(place): channel, host, port, wanted of a master of a cluster; nil: there are no more */
static int node_master(lua_State *L)
{
    srt_node *node = node_started(L);
    size_t place = slu_place(L, 2, "place");
    srt_node_master_view master;
    if (!node)
        return node_closed(L);
    if (!srt_node_master(node, place, &master) || !master.host)
        return 0;
    slu_push_int(L, (int64_t)master.channel + 1);
    lua_pushstring(L, master.host);
    slu_push_int(L, master.port);
    lua_pushboolean(L, master.wanted);
    return 4;
}

void slu_open_node(lua_State *L)
{
    static const luaL_Reg methods[] = {{"connected", node_connected},
                                       {"disconnected", node_disconnected},
                                       {"output", node_output},
                                       {"sent", node_sent},
                                       {"input", node_input},
                                       {"tick", node_tick},
                                       {"news", node_news},
                                       {"waits", node_waits},
                                       {"served", node_served},
                                       {"expect_masters", node_expect_masters},
                                       {"seed", node_seed},
                                       {"master", node_master},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"node", node_new}, {NULL, NULL}};
    slu_class(L, SLU_NODE, methods, slu_source_gc);
    slu_methods(L, SLU_NODE, slu_deliveries);
    slu_functions(L, functions);
}
