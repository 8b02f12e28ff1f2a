/* lua_fake.c - seriatim.Fake: queues in memory, for tests of applications. */
#include "lua_link.h"

#define FAKE "seriatim.Fake"

typedef struct fake_box {
    slu_link link; /* never connected: it checks and packs what is pushed. Busy while a result is made */
    srt_fake *fake;
} fake_box;

/* ---- Life ------------------------------------------------------------------------------------ */

/* native.fake() */
static int fake_new(lua_State *L)
{
    fake_box *self = slu_new(L, FAKE, sizeof *self);
    seriatim_error error = {0};
    if (seriatim_link_new(NULL, "redis://localhost", &self->link.link, &error) != SERIATIM_OK)
        return slu_failure_of(L, &error);
    self->link.client = seriatim_link_client(self->link.link);
    self->fake = srt_fake_new(self->link.client);
    return self->fake ? 1 : slu_failure(L, SERIATIM_NOMEM, NULL);
}

static int fake_gc(lua_State *L)
{
    fake_box *self = luaL_checkudata(L, 1, FAKE);
    srt_fake_free(self->fake);
    self->fake = NULL;
    seriatim_link_free(self->link.link);
    self->link.link = NULL;
    return 0;
}

static fake_box *fake_of(lua_State *L)
{
    fake_box *self = luaL_checkudata(L, 1, FAKE);
    if (!self->fake)
        luaL_error(L, "the queues in memory are closed");
    if (self->link.busy)
        luaL_error(L, "the queues in memory are in use");
    return self;
}

/* The results of f, which is called with a pointer; the collector may run anyone's code meanwhile. */
static int fake_read(lua_State *L, fake_box *self, lua_CFunction f, void *p)
{
    int top = lua_gettop(L), status;
    slu_prepare(L, f, p);
    self->link.busy = 1;
    status = slu_protect(L);
    self->link.busy = 0;
    return status ? lua_error(L) : lua_gettop(L) - top;
}

static int fake_flag(lua_State *L, fake_box *self, int status, int flag)
{
    if (status != SERIATIM_OK)
        return slu_link_fail(L, &self->link, status);
    lua_pushboolean(L, flag);
    return 1;
}

static seriatim_text fake_text(lua_State *L, int at, const char *what)
{
    seriatim_text text = {NULL, 0};
    if (!lua_isnoneornil(L, at))
        text.data = slu_text(L, at, what, &text.len);
    return text;
}

/* ---- Pushes and handles ---------------------------------------------------------------------- */

/* fake:queue(settings) -> its number */
static int fake_queue(lua_State *L)
{
    fake_box *self = fake_of(L);
    seriatim_queue_settings settings;
    size_t queue;
    int status;
    slu_queue_settings(L, 2, &settings);
    status = seriatim_client_queue(self->link.client, &settings, &queue);
    if (status != SERIATIM_OK)
        return slu_link_fail(L, &self->link, status);
    slu_push_int(L, (int64_t)queue);
    return 1;
}

static int fake_read_push(lua_State *L)
{
    luaL_checkstack(L, 12, "a result");
    return slu_link_read_push(L, lua_touserdata(L, 1));
}

/* fake:push(queue, rows, handles, now) -> as link:push; now: Unix time in microseconds, as below */
static int fake_push(lua_State *L)
{
    fake_box *self = fake_of(L);
    size_t queue = slu_size(L, 2, "queue");
    int handles = lua_toboolean(L, 4), status;
    int64_t now = slu_int64(L, 5, "now");
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    status = seriatim_push_begin(self->link.client, queue);
    if (status == SERIATIM_OK && handles)
        status = seriatim_push_want_handles(self->link.client);
    if (status == SERIATIM_OK)
        status = slu_link_push_rows(L, &self->link, 3);
    if (status == SERIATIM_OK)
        status = srt_fake_push(self->fake, now);
    return status == SERIATIM_OK ? fake_read(L, self, fake_read_push, &self->link)
                                 : slu_link_fail(L, &self->link, status);
}

/* fake:cancel(queue, handle) -> was it cancelled? */
static int fake_cancel(lua_State *L)
{
    fake_box *self = fake_of(L);
    int changed = 0;
    int status = srt_fake_cancel(self->fake, slu_size(L, 2, "queue"), fake_text(L, 3, "handle"), &changed);
    return fake_flag(L, self, status, changed);
}

/* fake:reschedule(queue, handle, decimal Unix seconds, now) -> was it? */
static int fake_reschedule(lua_State *L)
{
    fake_box *self = fake_of(L);
    int changed = 0, status = srt_fake_reschedule(self->fake, slu_size(L, 2, "queue"), fake_text(L, 3, "handle"),
                                                  fake_text(L, 4, "at"), slu_int64(L, 5, "now"), &changed);
    return fake_flag(L, self, status, changed);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* fake:next(queue, now) -> Unix time in microseconds, or nil: nothing will be due */
static int fake_next(lua_State *L)
{
    fake_box *self = fake_of(L);
    int64_t at;
    if (!srt_fake_next(self->fake, slu_size(L, 2, "queue"), slu_int64(L, 3, "now"), &at))
        return 0;
    slu_push_int(L, at);
    return 1;
}

typedef struct fake_view {
    const fake_box *self;
    const srt_fake_row *rows;
    size_t count;
} fake_view;

/* A table of what slu_push_claimed pushes, by place. */
static void fake_push_taken(lua_State *L, const void *self, size_t i)
{
    int count, table;
    luaL_checkstack(L, 20, "a job");
    lua_createtable(L, 7, 0);
    table = lua_gettop(L);
    for (count = slu_push_claimed(L, srt_fake_taken(((const fake_box *)self)->fake, i)); count > 0; count--)
        lua_rawseti(L, table, count);
}

static int fake_read_taken(lua_State *L)
{
    const fake_view *view = lua_touserdata(L, 1);
    slu_push_list(L, view->count, fake_push_taken, view->self);
    return 1;
}

/* fake:take(queue, limit, now) -> shard, {{as delivery:job gives them}} */
static int fake_take(lua_State *L)
{
    fake_box *self = fake_of(L);
    fake_view view = {self, NULL, 0};
    unsigned shard = 0;
    int status = srt_fake_take(self->fake, slu_size(L, 2, "queue"), slu_size(L, 3, "limit"), slu_int64(L, 4, "now"),
                               &shard, &view.count);
    if (status != SERIATIM_OK)
        return slu_link_fail(L, &self->link, status);
    slu_push_int(L, shard);
    return 1 + fake_read(L, self, fake_read_taken, &view);
}

/* fake:take_exhausted(queue) -> {{as delivery:job gives them}}, of one or none */
static int fake_take_exhausted(lua_State *L)
{
    fake_box *self = fake_of(L);
    fake_view view = {self, NULL, 0};
    int status = srt_fake_take_exhausted(self->fake, slu_size(L, 2, "queue"), &view.count);
    if (status != SERIATIM_OK)
        return slu_link_fail(L, &self->link, status);
    return fake_read(L, self, fake_read_taken, &view);
}

/* Of a table, the places that it lists, in Lua's memory on the stack; else the count. */
static void fake_which(lua_State *L, int at, srt_fake_outcome *outcome)
{
    size_t *places, i;
    if (lua_type(L, at) != LUA_TTABLE) {
        outcome->count = lua_isnoneornil(L, at) ? 0 : slu_size(L, at, "count");
        return;
    }
    outcome->count = slu_rawlen(L, at);
    outcome->places = places = lua_newuserdata(L, (outcome->count + 1) * sizeof *places);
    for (i = 0; i < outcome->count; i++) {
        lua_rawgeti(L, at, (int)(i + 1));
        places[i] = slu_place(L, -1, "a payload's place");
        lua_pop(L, 1);
    }
}

/*
 * fake:settle(queue, id, fence, kind, seconds, text or nil, which, now): which: the places of payloads ("reject"),
 * their count ("checkpoint") or nil
 */
static int fake_settle(lua_State *L)
{
    static const char *const kinds[] = {"done", "fail", "release", "snooze", "reject", "checkpoint", NULL};
    fake_box *self = fake_of(L);
    srt_fake_outcome outcome = {0};
    size_t queue = slu_size(L, 2, "queue");
    int64_t now;
    lua_settop(L, 9);
    outcome.id = fake_text(L, 3, "id");
    outcome.fence = slu_int64(L, 4, "fence");
    outcome.kind = luaL_checkoption(L, 5, NULL, kinds);
    outcome.seconds = slu_double(L, 6, "seconds");
    outcome.text = fake_text(L, 7, "text");
    now = slu_int64(L, 9, "now");
    fake_which(L, 8, &outcome);
    return fake_flag(L, self, srt_fake_settle(self->fake, queue, &outcome, now), 1);
}

/* ---- What is kept ---------------------------------------------------------------------------- */

static void fake_push_row(lua_State *L, const void *rows, size_t i)
{
    static const char *const states[] = {"waiting", "running", "scheduled", "parked", "dead"};
    const srt_fake_row *row = (const srt_fake_row *)rows + i;
    const seriatim_payload *p = &row->payload;
    luaL_checkstack(L, 6, "a payload");
    lua_createtable(L, 0, 8);
    slu_set_cstr(L, "state", states[row->state]);
    slu_set_text(L, "id", row->id.data, row->id.len);
    slu_set_text(L, "payload", p->data, p->len);
    if (p->has_score)
        slu_set_double(L, "score", p->score);
    slu_set_text_or_nil(L, "context", p->context, p->context_len);
    slu_set_int(L, "time", row->time);
    slu_set_int(L, "retry_count", row->retry_count);
    slu_set_text_or_nil(L, "error", row->error.data, row->error.len);
}

static int fake_read_rows(lua_State *L)
{
    const fake_view *view = lua_touserdata(L, 1);
    slu_push_list(L, view->count, fake_push_row, view->rows);
    return 1;
}

/* fake:rows(queue) -> {{state, id, payload, score, context, time, retry_count, error}}: all payloads, by time */
static int fake_rows(lua_State *L)
{
    fake_box *self = fake_of(L);
    fake_view view = {self, NULL, 0};
    int status = srt_fake_list(self->fake, slu_size(L, 2, "queue"), &view.rows, &view.count);
    return status == SERIATIM_OK ? fake_read(L, self, fake_read_rows, &view) : slu_link_fail(L, &self->link, status);
}

/* fake:clear(queue) */
static int fake_clear(lua_State *L)
{
    srt_fake_clear(fake_of(L)->fake, slu_size(L, 2, "queue"));
    return slu_true(L);
}

void slu_open_fake(lua_State *L)
{
    static const luaL_Reg methods[] = {{"queue", fake_queue},
                                       {"push", fake_push},
                                       {"cancel", fake_cancel},
                                       {"reschedule", fake_reschedule},
                                       {"next", fake_next},
                                       {"take", fake_take},
                                       {"take_exhausted", fake_take_exhausted},
                                       {"settle", fake_settle},
                                       {"rows", fake_rows},
                                       {"clear", fake_clear},
                                       {NULL, NULL}};
    static const luaL_Reg functions[] = {{"fake", fake_new}, {NULL, NULL}};
    slu_class(L, FAKE, methods, fake_gc);
    slu_functions(L, functions);
}
