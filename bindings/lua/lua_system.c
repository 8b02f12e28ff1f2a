/* lua_system.c - what the package needs of the system and standard Lua has not: clock, sleep, randomness, URLs. */
#include "seriatim_native.h"

#define URL "seriatim.url"
#define MOST_RANDOM 256

static int system_now_ms(lua_State *L)
{
    slu_push_int(L, srt_clock_ms());
    return 1;
}

/* native.time(): Unix seconds */
static int system_time(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    lua_pushnumber(L, (double)now.tv_sec + (double)now.tv_nsec / 1e9);
    return 1;
}

/* native.sleep(seconds) */
static int system_sleep(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TNUMBER);
    slu_poll(NULL, 0, slu_deadline(L, 1), L);
    return 0;
}

/* native.random_hex(bytes) */
static int system_random_hex(lua_State *L)
{
    unsigned char random[MOST_RANDOM];
    char hex[2 * MOST_RANDOM];
    seriatim_error error = {0};
    size_t count = slu_size(L, 1, "bytes"), i;
    luaL_argcheck(L, count <= MOST_RANDOM, 1, "too many bytes");
    if (srt_random(random, count, &error) != SERIATIM_OK)
        return slu_failure_of(L, &error);
    for (i = 0; i < 2 * count; i++)
        hex[i] = "0123456789abcdef"[(i % 2 ? random[i / 2] : random[i / 2] >> 4) & 15];
    lua_pushlstring(L, hex, 2 * count);
    return 1;
}

static int system_getpid(lua_State *L)
{
    slu_push_int(L, (int64_t)slu_pid());
    return 1;
}

static int system_hostname(lua_State *L)
{
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) != 0)
        strcpy(name, "localhost");
    lua_pushstring(L, name);
    return 1;
}

/*
 * native.fill_standard_descriptors(): opens /dev/null in place of standard files that the caller of a program closed.
 * Not for writing, so that output fails and is not lost in silence.
 */
static int system_fill_standard_descriptors(lua_State *L)
{
    int fd;
    for (fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0) /* gets the lowest number that is free: fd */
            return luaL_error(L, "cannot open /dev/null: %s", strerror(errno));
    return 0;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static int url_gc(lua_State *L)
{
    srt_url_free(luaL_checkudata(L, 1, URL));
    return 0;
}

static void url_push_host(lua_State *L, const void *hosts, size_t i)
{
    const srt_url_host *host = (const srt_url_host *)hosts + i;
    lua_createtable(L, 0, 2);
    slu_set_cstr(L, "host", host->host);
    slu_set_int(L, "port", host->port);
}

/* native.parse_url(url) */
static int system_parse_url(lua_State *L)
{
    static const char *const schemes[] = {"redis", "rediss", "unix", "redis+sentinel", "redis+cluster"};
    seriatim_error error = {0};
    size_t len;
    const char *text = slu_text(L, 1, "url", &len);
    srt_url *url = slu_new(L, URL, sizeof *url);
    srt_bytes *redacted = slu_bytes(L);
    if (srt_url_parse(url, seriatim_default_allocator(), text, len, &error) != SERIATIM_OK) {
        memset(url, 0, sizeof *url);
        return slu_nil_error(L, &error);
    }
    srt_url_redact(url, redacted);
    lua_newtable(L);
    slu_set_cstr(L, "scheme", schemes[url->kind]);
    slu_set_cstr(L, "user", url->user);
    slu_set_cstr(L, "password", url->password);
    slu_set_int(L, "database", url->db);
    slu_set_text(L, "redacted", redacted->data, redacted->len);
    if (url->kind == SRT_URL_UNIX) {
        slu_set_cstr(L, "path", url->path);
    } else if (url->kind == SRT_URL_TCP || url->kind == SRT_URL_TLS) {
        slu_set_cstr(L, "host", url->host);
        slu_set_int(L, "port", url->port);
    } else if (url->kind == SRT_URL_CLUSTER) {
        slu_set_bool(L, "tls", url->tls);
        slu_push_list(L, url->host_count, url_push_host, url->hosts);
        lua_setfield(L, -2, "hosts");
    }
    return 1;
}

/* native.connect_error(url, reason, url_from) -> what the error of a connection that could not be made says */
static int system_connect_error(lua_State *L)
{
    seriatim_error error = {0};
    srt_connect_error(&error, SERIATIM_IO, slu_cstr(L, 1, "url"), slu_cstr(L, 2, "reason"),
                      slu_cstr_or_null(L, 3, "url_from"));
    lua_pushstring(L, error.message);
    return 1;
}

void slu_open_system(lua_State *L)
{
    static const luaL_Reg none[] = {{NULL, NULL}};
    static const luaL_Reg functions[] = {{"now_ms", system_now_ms},
                                         {"time", system_time},
                                         {"sleep", system_sleep},
                                         {"random_hex", system_random_hex},
                                         {"getpid", system_getpid},
                                         {"hostname", system_hostname},
                                         {"fill_standard_descriptors", system_fill_standard_descriptors},
                                         {"parse_url", system_parse_url},
                                         {"connect_error", system_connect_error},
                                         {NULL, NULL}};
    slu_class(L, URL, none, url_gc);
    slu_functions(L, functions);
}
