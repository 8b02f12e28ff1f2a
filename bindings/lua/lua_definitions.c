/* lua_definitions.c - what the core defines by name, for Lua: the settings of a worker. */
#include "seriatim_native.h"

static void definitions_set_words(lua_State *L, const char *words)
{
    int place = 1;
    lua_newtable(L);
    for (; *words; words += strlen(words) + 1) {
        lua_pushstring(L, words);
        lua_rawseti(L, -2, place++);
    }
    lua_setfield(L, -2, "words");
}

static void definitions_set_number(lua_State *L, const char *name, const seriatim_setting *s, double number)
{
    if (s->kind == SERIATIM_SETTING_SECONDS)
        slu_set_double(L, name, number);
    else
        slu_set_int(L, name, (int64_t)number);
}

static void definitions_set_default(lua_State *L, const seriatim_setting *s)
{
    if (s->use == SERIATIM_USE_OPTIONAL || s->kind == SERIATIM_SETTING_TEXT)
        return;
    if (s->kind == SERIATIM_SETTING_WORD)
        slu_set_cstr(L, "default", s->initial_word);
    else if (s->kind == SERIATIM_SETTING_FLAG)
        slu_set_bool(L, "default", s->initial > 0);
    else
        definitions_set_number(L, "default", s, s->initial);
}

static void definitions_push(lua_State *L, const seriatim_setting *s)
{
    lua_newtable(L);
    slu_set_cstr(L, "name", s->name);
    slu_set_cstr(L, "kind", s->kind_name);
    slu_set_bool(L, "optional", s->use == SERIATIM_USE_OPTIONAL);
    definitions_set_number(L, "low", s, s->least);
    definitions_set_number(L, "high", s, s->most);
    definitions_set_default(L, s);
    if (s->words)
        definitions_set_words(L, s->words);
}

/* native.worker_settings(): {{name, kind, default, optional, low, high, words}, ...} of those that users set */
static int definitions_worker_settings(lua_State *L)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    int place = 1;
    lua_newtable(L);
    for (i = 0; i < count; i++)
        if (all[i].use != SERIATIM_USE_HIDDEN) {
            definitions_push(L, &all[i]);
            lua_rawseti(L, -2, place++);
        }
    return 1;
}

/* Takes the value on top of the stack. */
static void definitions_take(lua_State *L, seriatim_queue_settings *settings, const seriatim_setting *s)
{
    void *field = seriatim_setting_field(settings, s);
    switch (s->kind) {
    case SERIATIM_SETTING_TEXT:
        settings->name = slu_text(L, -1, s->name, &settings->name_len);
        break;
    case SERIATIM_SETTING_WORD:
        *(const char **)field = slu_cstr(L, -1, s->name);
        break;
    case SERIATIM_SETTING_COUNT:
        *(int64_t *)field = slu_int64(L, -1, s->name);
        break;
    case SERIATIM_SETTING_SECONDS:
        *(double *)field = slu_double(L, -1, s->name);
        break;
    default:
        *(int *)field = lua_toboolean(L, -1);
    }
}

void slu_queue_settings(lua_State *L, int at, seriatim_queue_settings *settings)
{
    size_t count, i;
    const seriatim_setting *all = seriatim_settings(&count);
    luaL_checktype(L, at, LUA_TTABLE);
    seriatim_queue_settings_init(settings);
    for (i = 0; i < count; i++) {
        lua_getfield(L, at, all[i].name);
        if (!lua_isnil(L, -1))
            definitions_take(L, settings, &all[i]);
        lua_pop(L, 1);
    }
}

void slu_open_definitions(lua_State *L)
{
    static const luaL_Reg functions[] = {{"worker_settings", definitions_worker_settings}, {NULL, NULL}};
    slu_functions(L, functions);
}
