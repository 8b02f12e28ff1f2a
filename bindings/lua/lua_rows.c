/* lua_rows.c - native.rows: the jobs of a push, as they usually are, turned into rows in one pass. */
#include "seriatim_native.h"

#define X(number, name) #name,
static const char *const row_keys[] = {SERIATIM_JOB_FIELDS(X)};
#undef X
/* A job's keys by their places in the list, and as bits. */
enum {
#define X(number, name) PLACE_##number,
    SERIATIM_JOB_FIELDS(X)
#undef X
};
enum {
#define X(number, name) ROW_##number = 1 << PLACE_##number,
    SERIATIM_JOB_FIELDS(X)
#undef X
};

#define ROW_EXACT 9007199254740992.0 /* 2^53 */

/* Where the parts of a call stand on the stack. */
enum { ROWS_LIST = 1, ROWS_RAW, ROWS_BYTES, ROWS_ROWS, ROWS_PLACE, ROWS_JOB, ROWS_ROW };

static int row_is_null(lua_State *L, int at)
{
    return lua_islightuserdata(L, at) && lua_touserdata(L, at) == NULL;
}

/* The bit of the key on the stack, which is a text; 0: there is no such key. */
static int row_key(lua_State *L, int at)
{
    size_t len, i;
    const char *key = lua_tolstring(L, at, &len);
    for (i = 0; i < sizeof row_keys / sizeof *row_keys; i++)
        if (strlen(row_keys[i]) == len && memcmp(key, row_keys[i], len) == 0)
            return 1 << i;
    return 0;
}

/*
 * Which keys the job has; null is nothing, but for id and payload. 0: some key is unknown or a time of delivery, which
 * jobs.lua reads, or the job is no plain table.
 */
static int row_has(lua_State *L)
{
    int has = 0, bit;
    if (lua_type(L, ROWS_JOB) != LUA_TTABLE || lua_getmetatable(L, ROWS_JOB))
        return 0;
    lua_pushnil(L);
    while (lua_next(L, ROWS_JOB)) {
        bit = lua_type(L, -2) == LUA_TSTRING ? row_key(L, -2) : 0;
        if (!bit || bit & (ROW_DELIVER_AT | ROW_DELIVER_IN))
            return 0;
        if (bit <= ROW_PAYLOAD || !row_is_null(L, -1))
            has |= bit;
        lua_pop(L, 1);
    }
    return has;
}

/* Pushes the job's value of that key. */
static int row_get(lua_State *L, int bit)
{
    size_t i = 0;
    while (1 << i != bit)
        i++;
    lua_pushstring(L, row_keys[i]);
    lua_rawget(L, ROWS_JOB);
    return lua_type(L, -1);
}

static int row_set(lua_State *L, int place)
{
    lua_rawseti(L, ROWS_ROW, place);
    return 1;
}

/* Is the number on top a whole one, and exact? */
static int row_is_whole(lua_State *L)
{
    double number;
#if LUA_VERSION_NUM >= 503
    if (lua_isinteger(L, -1))
        return 1;
#endif
    number = (double)lua_tonumber(L, -1);
    return number == floor(number) && fabs(number) <= ROW_EXACT;
}

/* Replaces the value on top by its bytes. */
static void row_take_bytes(lua_State *L, const srt_bytes *bytes)
{
    lua_pop(L, 1);
    lua_pushlstring(L, bytes->data ? bytes->data : "", bytes->len);
}

static int row_id(lua_State *L, srt_bytes *bytes)
{
    int type = row_get(L, ROW_ID);
    if (type == LUA_TNUMBER && row_is_whole(L)) {
        srt_bytes_clear(bytes);
        srt_bytes_add_int(bytes, slu_int64(L, -1, "id"));
        if (bytes->failed)
            return 0;
        row_take_bytes(L, bytes);
    } else if (type != LUA_TSTRING) {
        return 0;
    }
    return row_set(L, 1);
}

static int row_json(lua_State *L, srt_bytes *bytes)
{
    srt_bytes_clear(bytes);
    if (!slu_json_write(L, lua_gettop(L), bytes))
        return 0;
    row_take_bytes(L, bytes);
    return 1;
}

static int row_payload(lua_State *L, srt_bytes *bytes)
{
    int type = row_get(L, ROW_PAYLOAD);
    if (type == LUA_TNIL) {
        lua_pop(L, 1);
        lua_pushliteral(L, "");
        type = LUA_TSTRING;
        if (!lua_toboolean(L, ROWS_RAW) && !row_json(L, bytes))
            return 0;
    } else if (lua_toboolean(L, ROWS_RAW) ? type != LUA_TSTRING : !row_json(L, bytes)) {
        return 0;
    }
    return row_set(L, 2);
}

/* nil, false or a number, set at that place. */
static int row_number(lua_State *L, int has, int bit, int place)
{
    if (!(has & bit))
        return 1;
    return row_get(L, bit) == LUA_TNUMBER && row_set(L, place);
}

/* When it is due, and how that is said. */
static int row_due(lua_State *L, int has)
{
    int times = has & (ROW_PERFORM_IN | ROW_PERFORM_AT | ROW_DELAY);
    if (times & (times - 1)) /* more than one */
        return 0;
    lua_pushinteger(L, times == ROW_DELAY ? SERIATIM_DELAY : times ? SERIATIM_AT : SERIATIM_NOW);
    return row_set(L, 4) && row_number(L, has, times, 5);
}

static int row_retry_count(lua_State *L, int has)
{
    if (!(has & ROW_RETRY_COUNT))
        return 1;
    return row_get(L, ROW_RETRY_COUNT) == LUA_TNUMBER && row_is_whole(L) && lua_tonumber(L, -1) >= -1 && row_set(L, 6);
}

static int row_on_waiting(lua_State *L, int has)
{
    if (!(has & ROW_ON_WAITING))
        return 1;
    return row_get(L, ROW_ON_WAITING) == LUA_TSTRING && srt_on_waiting_place(lua_tostring(L, -1)) && row_set(L, 7);
}

/* Texts by texts; none is no context. */
static int row_context(lua_State *L, int has, srt_bytes *bytes)
{
    int count = 0;
    if (!(has & ROW_CONTEXT))
        return 1;
    if (row_get(L, ROW_CONTEXT) != LUA_TTABLE || lua_getmetatable(L, -1))
        return 0;
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1), count++)
        if (lua_type(L, -2) != LUA_TSTRING || lua_type(L, -1) != LUA_TSTRING)
            return 0;
    return count == 0 || (row_json(L, bytes) && row_set(L, 8));
}

/* Of the job on the stack, and pushed; 0: it is unusual. */
static int row_push(lua_State *L, srt_bytes *bytes)
{
    int has = row_has(L), more = has & ~(ROW_ID | ROW_PAYLOAD), place;
    if (!(has & ROW_ID))
        return 0;
    lua_createtable(L, more ? 8 : 2, 0);
    if (!row_id(L, bytes) || !row_payload(L, bytes))
        return 0;
    for (place = 3; more && place <= 8; place++) {
        lua_pushboolean(L, 0);
        lua_rawseti(L, ROWS_ROW, place);
    }
    return !more || (row_number(L, has, ROW_SCORE, 3) && row_due(L, has) && row_retry_count(L, has) &&
                     row_on_waiting(L, has) && row_context(L, has, bytes));
}

/*
 * native.rows(jobs, raw) -> rows; nil: something is unusual, or wrong, which others say. raw: payloads are bytes, not
 * JSON.
 */
static int rows_function(lua_State *L)
{
    srt_bytes *bytes;
    int place = 0;
    if (lua_type(L, ROWS_LIST) != LUA_TTABLE || lua_getmetatable(L, ROWS_LIST))
        return 0;
    luaL_checkstack(L, 20, "rows");
    lua_settop(L, ROWS_RAW);
    bytes = slu_bytes(L);
    lua_createtable(L, (int)slu_rawlen(L, ROWS_LIST), 0);
    lua_pushnil(L);
    while (lua_next(L, ROWS_LIST)) { /* a list without strangers gives 1, 2, 3 */
        if (lua_type(L, ROWS_PLACE) != LUA_TNUMBER || lua_tonumber(L, ROWS_PLACE) != ++place || !row_push(L, bytes))
            return 0;
        lua_settop(L, ROWS_ROW);
        lua_rawseti(L, ROWS_ROWS, place);
        lua_pop(L, 1);
    }
    srt_bytes_free(bytes);
    return 1;
}

void slu_open_rows(lua_State *L)
{
    static const luaL_Reg functions[] = {{"rows", rows_function}, {NULL, NULL}};
    slu_functions(L, functions);
}
