/* lua_json.c - native.dump and .load: Lua values to canonical JSON and back, by the core's writer and reader. */
#include "seriatim_native.h"

#define ARRAY_MT "seriatim.array_mt"
#define READER "seriatim.json_reader"
#define FROM_TEXT "seriatim.int64_from_text"
#define TO_TEXT "seriatim.int64_to_text"
#define PATH_SIZE 256
#define EXACT 9007199254740992.0 /* 2^53: doubles of whole numbers are exact up to here */

/* ---- dump: nothing in here raises while the writer lives ------------------------------------- */

typedef struct json_dump {
    srt_json_writer writer;
    char refused[96]; /* the rule that was broken and that only this binding knows, or empty */
} json_dump;

static int json_write(json_dump *d, lua_State *L, int at);

/* Nothing is written of a value that no rule covers; the path then still ends at it. */
static int json_refuse(json_dump *d, const char *before, const char *rule)
{
    snprintf(d->refused, sizeof d->refused, "%s%s", before, rule);
    return 0;
}

static int json_is_marked(lua_State *L, int at)
{
    int same;
    if (!lua_getmetatable(L, at))
        return 0;
    lua_getfield(L, LUA_REGISTRYINDEX, ARRAY_MT);
    same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

/* Are its keys 1 to count, and no other? */
static int json_is_list(lua_State *L, int at, size_t count)
{
    size_t keys = 0;
    lua_pushnil(L);
    while (lua_next(L, at)) {
        double key = lua_type(L, -2) == LUA_TNUMBER ? (double)lua_tonumber(L, -2) : 0.5;
        lua_pop(L, 1);
        if (key < 1 || key > (double)count || key != floor(key)) {
            lua_pop(L, 1);
            return 0;
        }
        keys++;
    }
    return keys == count;
}

static int json_refuse_keys(json_dump *d)
{
    return json_refuse(d, "", "a table must be a list from 1 on without holes, or have only text keys");
}

static int json_write_list(json_dump *d, lua_State *L, int at)
{
    size_t count = slu_rawlen(L, at), i;
    if (!json_is_list(L, at, count))
        return json_refuse_keys(d);
    srt_json_made_of(&d->writer, lua_topointer(L, at));
    if (srt_json_begin_array(&d->writer) != SERIATIM_OK)
        return 0;
    for (i = 1; i <= count; i++) {
        lua_rawgeti(L, at, (int)i);
        if (!json_write(d, L, lua_gettop(L)))
            return 0;
        lua_pop(L, 1);
    }
    return srt_json_end_array(&d->writer) == SERIATIM_OK;
}

/* With the first key and its value on the stack. */
static int json_write_members(json_dump *d, lua_State *L, int at)
{
    do {
        size_t len;
        const char *key;
        if (lua_type(L, -2) != LUA_TSTRING)
            return json_refuse_keys(d);
        key = lua_tolstring(L, -2, &len);
        if (srt_json_key(&d->writer, key, len) != SERIATIM_OK || !json_write(d, L, lua_gettop(L)))
            return 0;
        lua_pop(L, 1);
    } while (lua_next(L, at));
    return 1;
}

static int json_write_table(json_dump *d, lua_State *L, int at)
{
    int empty;
    if (!lua_checkstack(L, 8))
        return json_refuse(d, "", "too deep for Lua's stack");
    if (json_is_marked(L, at))
        return json_write_list(d, L, at);
    lua_pushnil(L);
    empty = !lua_next(L, at);
    if (!empty && lua_type(L, -2) == LUA_TNUMBER) {
        lua_pop(L, 2);
        return json_write_list(d, L, at);
    }
    srt_json_made_of(&d->writer, lua_topointer(L, at));
    if (srt_json_begin_object(&d->writer) != SERIATIM_OK || (!empty && !json_write_members(d, L, at)))
        return 0;
    return srt_json_end_object(&d->writer) == SERIATIM_OK;
}

static int json_write_number(json_dump *d, lua_State *L, int at)
{
    double number;
#if LUA_VERSION_NUM >= 503
    if (lua_isinteger(L, at))
        return srt_json_int(&d->writer, lua_tointeger(L, at)) == SERIATIM_OK;
#endif
    number = (double)lua_tonumber(L, at);
    if (fabs(number) <= EXACT && number == floor(number))
        return srt_json_int(&d->writer, (int64_t)number) == SERIATIM_OK;
    return srt_json_double(&d->writer, number) == SERIATIM_OK;
}

/* LuaJIT's int64_t: text of it is asked for. */
static int json_write_foreign(json_dump *d, lua_State *L, int at)
{
    const char *text = NULL;
    char *end;
    long long number;
    int written;
    lua_getfield(L, LUA_REGISTRYINDEX, TO_TEXT);
    lua_pushvalue(L, at);
    if (lua_isfunction(L, -2) && lua_pcall(L, 1, 1, 0) == 0)
        text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
    if (!text)
        return json_refuse(d, lua_typename(L, lua_type(L, at)), " cannot be written as JSON");
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno || *end || end == text)
        return json_refuse(d, "", "an integer must be from -2^63 to 2^63-1");
    written = srt_json_int(&d->writer, number) == SERIATIM_OK;
    lua_pop(L, 1);
    return written;
}

static int json_write(json_dump *d, lua_State *L, int at)
{
    size_t len;
    const char *text;
    switch (lua_type(L, at)) {
    case LUA_TSTRING:
        text = lua_tolstring(L, at, &len);
        return srt_json_string(&d->writer, text, len) == SERIATIM_OK;
    case LUA_TNUMBER:
        return json_write_number(d, L, at);
    case LUA_TBOOLEAN:
        return srt_json_bool(&d->writer, lua_toboolean(L, at)) == SERIATIM_OK;
    case LUA_TTABLE:
        return json_write_table(d, L, at);
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, at) == NULL)
            return srt_json_null(&d->writer) == SERIATIM_OK;
        break;
    default:
        break;
    }
    return lua_checkstack(L, 4) ? json_write_foreign(d, L, at) : json_refuse(d, "", "too deep for Lua's stack");
}

/* Places count from 1 in Lua. */
static void json_path(json_dump *d, char path[PATH_SIZE])
{
    size_t i;
    for (i = 1; i <= d->writer.depth; i++)
        d->writer.levels[i].count += d->writer.levels[i].kind == '[';
    srt_json_writer_path(&d->writer, path, PATH_SIZE);
}

int slu_json_write(lua_State *L, int at, srt_bytes *out)
{
    json_dump d;
    int written;
    d.refused[0] = '\0';
    srt_json_writer_init(&d.writer, out, "");
    written = json_write(&d, L, at) && srt_json_finish(&d.writer) == SERIATIM_OK;
    srt_json_writer_free(&d.writer);
    return written;
}

/* SERIATIM_OK, _NOMEM, or _INVALID with a text. */
static int json_dump_to(lua_State *L, srt_bytes *out, const char *root, char text[PATH_SIZE + 128])
{
    json_dump d;
    char path[PATH_SIZE];
    int status;
    d.refused[0] = '\0';
    srt_json_writer_init(&d.writer, out, root);
    if (json_write(&d, L, 1))
        srt_json_finish(&d.writer);
    status = d.refused[0] ? SERIATIM_INVALID : d.writer.error.status;
    if (status == SERIATIM_INVALID) {
        json_path(&d, path);
        snprintf(text, PATH_SIZE + 128, "%s%s%.120s", path, path[0] ? ": " : "",
                 d.refused[0] ? d.refused : d.writer.error.message);
    }
    srt_json_writer_free(&d.writer);
    return status;
}

/* native.dump(value, root) */
static int json_dump_function(lua_State *L)
{
    char text[PATH_SIZE + 128];
    const char *root = lua_isnoneornil(L, 2) ? "" : slu_cstr(L, 2, "root");
    srt_bytes *out;
    int status;
    luaL_checkany(L, 1);
    lua_settop(L, 2);
    out = slu_bytes(L);
    status = json_dump_to(L, out, root, text);
    lua_settop(L, 3);
    if (status != SERIATIM_OK)
        return status == SERIATIM_NOMEM ? slu_raise(L, "not enough memory") : slu_raise(L, text);
    lua_pushlstring(L, out->data ? out->data : "", out->len);
    srt_bytes_free(out);
    return 1;
}

/* ---- load ------------------------------------------------------------------------------------ */

static int reader_gc(lua_State *L)
{
    srt_json_reader_free(luaL_checkudata(L, 1, READER));
    return 0;
}

struct srt_json_reader *slu_json_reader(lua_State *L)
{
    srt_json_reader *reader = slu_new(L, READER, sizeof *reader);
    srt_json_reader_init(reader, seriatim_default_allocator(), "", 0);
    return reader;
}

/* 0: it is no JSON. */
static int json_next(lua_State *L, srt_json_reader *r, srt_json_token *token)
{
    if (srt_json_next(r, token) == SERIATIM_OK)
        return 1;
    if (r->error.status == SERIATIM_NOMEM)
        slu_raise(L, "not enough memory");
    return 0;
}

static int json_read(lua_State *L, srt_json_reader *r, srt_json_token *token);

static int json_read_array(lua_State *L, srt_json_reader *r, srt_json_token *token)
{
    int i = 1;
    lua_newtable(L);
    luaL_getmetatable(L, ARRAY_MT);
    lua_setmetatable(L, -2);
    for (; json_next(L, r, token); i++) {
        if (token->type == SRT_JSON_END_ARRAY)
            return 1;
        if (!json_read(L, r, token))
            return 0;
        lua_rawseti(L, -2, i);
    }
    return 0;
}

static int json_read_object(lua_State *L, srt_json_reader *r, srt_json_token *token)
{
    lua_newtable(L);
    while (json_next(L, r, token)) {
        if (token->type == SRT_JSON_END_OBJECT)
            return 1;
        lua_pushlstring(L, token->text, token->len);
        if (!json_next(L, r, token) || !json_read(L, r, token))
            return 0;
        lua_rawset(L, -3);
    }
    return 0;
}

static void json_push_int(lua_State *L, int64_t value)
{
#if LUA_VERSION_NUM >= 503
    lua_pushinteger(L, (lua_Integer)value);
#else
    char text[24];
    if (value >= -(int64_t)EXACT && value <= (int64_t)EXACT) {
        lua_pushnumber(L, (lua_Number)value);
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)value);
    lua_getfield(L, LUA_REGISTRYINDEX, FROM_TEXT);
    lua_pushstring(L, text);
    if (lua_isnil(L, -2))
        lua_remove(L, -2);
    else
        lua_call(L, 1, 1);
#endif
}

/* The value that begins with the current token; leaves its last token current. */
static int json_read(lua_State *L, srt_json_reader *r, srt_json_token *token)
{
    luaL_checkstack(L, 6, "JSON");
    switch (token->type) {
    case SRT_JSON_BEGIN_ARRAY:
        return json_read_array(L, r, token);
    case SRT_JSON_BEGIN_OBJECT:
        return json_read_object(L, r, token);
    case SRT_JSON_STRING:
        lua_pushlstring(L, token->text, token->len);
        return 1;
    case SRT_JSON_INT:
        json_push_int(L, token->integer);
        return 1;
    case SRT_JSON_DOUBLE:
        lua_pushnumber(L, token->number);
        return 1;
    case SRT_JSON_TRUE:
    case SRT_JSON_FALSE:
        lua_pushboolean(L, token->type == SRT_JSON_TRUE);
        return 1;
    default:
        lua_pushlightuserdata(L, NULL);
        return 1;
    }
}

int slu_json_read(lua_State *L, struct srt_json_reader *reader)
{
    srt_json_token token;
    int top = lua_gettop(L);
    if (json_next(L, reader, &token) && json_read(L, reader, &token) && json_next(L, reader, &token)) /* END */
        return 1;
    lua_settop(L, top);
    return 0;
}

/* native.load(bytes) */
static int json_load_function(lua_State *L)
{
    srt_json_reader *reader;
    size_t len;
    const char *data = slu_text(L, 1, "JSON", &len);
    int read;
    lua_settop(L, 1);
    reader = slu_json_reader(L);
    srt_json_reader_reset(reader, data, len);
    read = slu_json_read(L, reader);
    srt_bytes_free(&reader->scratch);
    return read ? 1 : slu_nil(L, "UNDECODABLE", reader->error.message);
}

/* native.check_json(bytes, root): true; or nil, "INVALID" and what a push would refuse of the text. */
static int json_check_function(lua_State *L)
{
    size_t len;
    const char *data = slu_text(L, 1, "JSON", &len), *root = slu_cstr(L, 2, "root");
    seriatim_error error;
    int status = srt_json_check(seriatim_default_allocator(), data, len, root, SRT_JSON_DEPTH, SRT_JSON_REFUSE, &error);
    if (status != SERIATIM_OK)
        return slu_nil_error(L, &error);
    return slu_true(L);
}

/* native.set_int64(from_text, to_text) */
static int json_set_int64(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_settop(L, 2);
    lua_setfield(L, LUA_REGISTRYINDEX, TO_TEXT);
    lua_setfield(L, LUA_REGISTRYINDEX, FROM_TEXT);
    return 0;
}

void slu_open_json(lua_State *L)
{
    static const luaL_Reg none[] = {{NULL, NULL}};
    static const luaL_Reg functions[] = {{"dump", json_dump_function},
                                         {"load", json_load_function},
                                         {"check_json", json_check_function},
                                         {"set_int64", json_set_int64},
                                         {NULL, NULL}};
    slu_class(L, READER, none, reader_gc);
    luaL_newmetatable(L, ARRAY_MT);
    lua_setfield(L, -2, "array_mt");
    slu_functions(L, functions);
}
