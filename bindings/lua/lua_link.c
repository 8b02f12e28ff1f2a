/* lua_link.c - native.link: one connection that pushes and asks; and what a Client shares with it. */
#include "lua_link.h"

/* ---- Use ------------------------------------------------------------------------------------- */

/*
 * In a child of fork(2): what the parent has under way, and its connection, are the parent's. A link notices by a step.
 */
static void link_adopt(slu_link *self)
{
    self->pid = slu_pid();
    if (self->link)
        seriatim_link_step(self->link);
    else
        slu_client_forked(self);
}

slu_link *slu_link_of(lua_State *L)
{
    slu_link *self = slu_test(L, 1, SLU_LINK);
    if (!self)
        self = slu_test(L, 1, SLU_CLIENT);
    if (!self)
        luaL_argerror(L, 1, "a Link or a Client is expected");
    if (!self->client)
        return NULL;
    if (self->busy)
        luaL_error(L, "the connection is in use");
    if (self->pid != slu_pid())
        link_adopt(self);
    return self;
}

int slu_link_closed(lua_State *L)
{
    return slu_failure(L, SERIATIM_CLOSED, "the link is closed");
}

/* Places count from 1 in Lua. */
static const char *link_count_from_1(const char *message, char *text, size_t size)
{
    char list[5]; /* jobs, ids */
    unsigned long place;
    int len = 0;
    if (sscanf(message, "%4[a-z][%lu]%n", list, &place, &len) != 2 || len == 0)
        return message;
    snprintf(text, size, "%s[%lu]%s", list, place + 1, message + len);
    return text;
}

int slu_link_fail(lua_State *L, const slu_link *self, int status)
{
    char text[300];
    const seriatim_error *error = seriatim_client_error(self->client);
    return slu_failure(L, status, link_count_from_1(error->message, text, sizeof text));
}

int slu_link_begun(lua_State *L, slu_link *self, int status, int (*read)(lua_State *, const slu_link *))
{
    if (status == SERIATIM_OK) {
        self->read = read;
        self->answers = 0;
        return slu_true(L);
    }
    if (srt_client_status(self->client) != SERIATIM_AGAIN)
        self->read = NULL; /* nothing is under way, and what came before is forgotten */
    return slu_link_fail(L, self, status);
}

static int link_read(lua_State *L)
{
    const slu_link *self = lua_touserdata(L, 1);
    luaL_checkstack(L, 10, "a result");
    return self->read(L, self);
}

int slu_link_result(lua_State *L, slu_link *self, int status)
{
    int top = lua_gettop(L);
    if (!self->read)
        return luaL_error(L, "no operation was begun");
    if (status == SERIATIM_AGAIN)
        return luaL_error(L, "the operation has not ended yet");
    if (status != SERIATIM_OK && status != SERIATIM_REPLICAS && !self->answers) /* too few have it, but it is written */
        return slu_link_fail(L, self, status);
    slu_prepare(L, link_read, self);
    self->busy = 1;
    status = slu_protect(L);
    self->busy = 0;
    return status ? lua_error(L) : lua_gettop(L) - top;
}

/* link:result() */
static int link_result(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    return self ? slu_link_result(L, self, srt_client_status(self->client)) : slu_link_closed(L);
}

/* ---- Queues and layout ----------------------------------------------------------------------- */

/* link:queue(settings) -> its number in this link */
static int link_queue(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    seriatim_queue_settings settings;
    size_t queue;
    int status;
    if (!self)
        return slu_link_closed(L);
    slu_queue_settings(L, 2, &settings);
    status = seriatim_client_queue(self->client, &settings, &queue);
    if (status != SERIATIM_OK)
        return slu_link_fail(L, self, status);
    slu_push_int(L, (int64_t)queue);
    return 1;
}

static int link_read_layout(lua_State *L, const slu_link *self)
{
    slu_push_int(L, seriatim_layout_shards(self->client, self->queue));
    return 1;
}

/* link:layout(queue): shards_count as Redis has it, 0 when there is no such queue */
static int link_layout(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    if (!self)
        return slu_link_closed(L);
    self->queue = slu_size(L, 2, "queue");
    return slu_link_begun(L, self, seriatim_layout_begin(self->client, self->queue), link_read_layout);
}

/* ---- Push ------------------------------------------------------------------------------------ */

/* The row keeps the texts. */
static void link_job(lua_State *L, int row, seriatim_job *job)
{
    luaL_checktype(L, row, LUA_TTABLE);
    seriatim_job_init(job);
    slu_item(L, row, 1);
    job->id = slu_text(L, -1, "id", &job->id_len);
    slu_item(L, row, 2);
    job->payload = slu_text(L, -1, "payload", &job->payload_len);
    job->has_score = slu_item(L, row, 3);
    if (job->has_score)
        job->score = slu_double(L, -1, "score");
    if (slu_item(L, row, 4))
        job->when = slu_int(L, -1, "when");
    if (slu_item(L, row, 5))
        job->time = slu_double(L, -1, "time");
    if (slu_item(L, row, 6))
        job->retry_count = slu_int64(L, -1, "retry_count");
    if (slu_item(L, row, 7))
        job->on_waiting = slu_cstr(L, -1, "on_waiting");
    if (slu_item(L, row, 8))
        job->context = slu_text(L, -1, "context", &job->context_len);
    if (slu_item(L, row, 9))
        job->deliver_when = slu_int(L, -1, "deliver_when");
    if (slu_item(L, row, 10))
        job->deliver_time = slu_double(L, -1, "deliver_time");
}

static void link_push_place(lua_State *L, const void *places, size_t i)
{
    slu_push_int(L, (int64_t)((const size_t *)places)[i] + 1);
}

static void link_push_handle(lua_State *L, const void *handles, size_t i)
{
    const seriatim_text *handle = (const seriatim_text *)handles + i;
    if (handle->data)
        lua_pushlstring(L, handle->data, handle->len);
    else
        lua_pushboolean(L, 0);
}

int slu_link_read_push(lua_State *L, const slu_link *self)
{
    seriatim_push_counts counts = seriatim_push_result(self->client);
    size_t count, handle_count;
    const size_t *places = seriatim_push_refused(self->client, &count);
    const seriatim_text *handles = seriatim_push_handles(self->client, &handle_count);
    slu_push_int(L, (int64_t)counts.added);
    slu_push_int(L, (int64_t)counts.folded);
    slu_push_list(L, count, link_push_place, places);
    if (srt_client_status(self->client) == SERIATIM_REPLICAS)
        lua_pushstring(L, seriatim_client_error(self->client)->message);
    else
        lua_pushnil(L);
    lua_pushstring(L, seriatim_client_warning(self->client)); /* nil for NULL */
    slu_push_int(L, (int64_t)counts.scheduled);
    slu_push_int(L, (int64_t)counts.stale);
    slu_push_list(L, handle_count, link_push_handle, handles);
    return 8;
}

int slu_link_push_rows(lua_State *L, const slu_link *self, int rows)
{
    size_t count = slu_rawlen(L, rows), i;
    int top = lua_gettop(L), status = SERIATIM_OK;
    luaL_checkstack(L, 12, "a job");
    for (i = 1; status == SERIATIM_OK && i <= count; i++) {
        seriatim_job job;
        lua_rawgeti(L, rows, (int)i);
        link_job(L, top + 1, &job);
        status = seriatim_push_job(self->client, &job);
        lua_settop(L, top);
    }
    return status;
}

/*
 * link:push(queue, rows, replicas, wait_timeout, push_timeout, handles): added, folded, {places of refused jobs}, what
 * was said of too few replicas or nil, what is to be warned of or nil, scheduled, stale, {handles, or false}. A row of
 * a wrong type leaves a push that is not sent.
 */
static int link_push(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t queue;
    int64_t replicas = lua_isnoneornil(L, 4) ? 0 : slu_int64(L, 4, "wait_replicas");
    double timeout = lua_isnoneornil(L, 5) ? 1 : slu_double(L, 5, "wait_timeout");
    double limit = lua_isnoneornil(L, 6) ? 10 : slu_double(L, 6, "push_timeout");
    int handles = lua_toboolean(L, 7), status;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    status = seriatim_push_begin(self->client, queue);
    if (status == SERIATIM_OK) {
        self->read = NULL;
        status = seriatim_push_replicas(self->client, replicas, timeout);
    }
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(self->client, limit);
    if (status == SERIATIM_OK && handles)
        status = seriatim_push_want_handles(self->client);
    if (status == SERIATIM_OK)
        status = slu_link_push_rows(L, self, 3);
    if (status == SERIATIM_OK)
        status = seriatim_push_send(self->client);
    return slu_link_begun(L, self, status, slu_link_read_push);
}

/* link:check_jobs(queue, rows): raises what a push of them would before it is sent; sends nothing */
static int link_check_jobs(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t queue;
    int status;
    if (!self)
        return slu_link_closed(L);
    queue = slu_size(L, 2, "queue");
    luaL_checktype(L, 3, LUA_TTABLE);
    lua_settop(L, 3);
    status = seriatim_push_begin(self->client, queue);
    if (status == SERIATIM_OK)
        status = slu_link_push_rows(L, self, 3);
    return status == SERIATIM_OK ? slu_true(L) : slu_link_fail(L, self, status);
}

/* ---- Pipelines ------------------------------------------------------------------------------- */

/* The name of its status and its text, or false and false. */
static void link_push_error(lua_State *L, const seriatim_error *error)
{
    if (error->status == SERIATIM_OK) {
        lua_pushboolean(L, 0);
        lua_pushboolean(L, 0);
        return;
    }
    lua_pushstring(L, seriatim_status_name(error->status));
    lua_pushstring(L, error->message);
}

static void link_push_places(lua_State *L, const seriatim_client *client, size_t push, size_t refused)
{
    size_t job;
    int count = 0;
    lua_newtable(L);
    for (job = 0; refused; job++) {
        if (seriatim_pipeline_outcome(client, push, job) != SERIATIM_JOB_REFUSED)
            continue;
        refused--;
        slu_push_int(L, (int64_t)job + 1);
        lua_rawseti(L, -2, ++count);
    }
}

/* One letter a job, where not all of the push was written, or nil. */
static void link_push_letters(lua_State *L, const seriatim_client *client, size_t push, const seriatim_error *error)
{
    luaL_Buffer letters;
    size_t job;
    int outcome;
    if (error->status == SERIATIM_OK || error->status == SERIATIM_REPLICAS) {
        lua_pushnil(L);
        return;
    }
    luaL_buffinit(L, &letters);
    for (job = 0; (outcome = seriatim_pipeline_outcome(client, push, job)) != 0; job++)
        luaL_addchar(&letters, (char)outcome);
    luaL_pushresult(&letters);
}

static void link_push_piped(lua_State *L, const void *object, size_t push)
{
    const seriatim_client *client = object;
    seriatim_push_counts counts;
    seriatim_error error;
    size_t count;
    int at;
    const seriatim_text *handles = seriatim_pipeline_handles(client, push, &count);
    seriatim_pipeline_result(client, push, &counts, &error);
    luaL_checkstack(L, 30, "a result"); /* a buffer of letters lies there in pieces */
    lua_createtable(L, 9, 0);
    slu_push_int(L, (int64_t)counts.added);
    slu_push_int(L, (int64_t)counts.folded);
    link_push_places(L, client, push, counts.refused);
    link_push_error(L, &error);
    slu_push_int(L, (int64_t)counts.scheduled);
    slu_push_int(L, (int64_t)counts.stale);
    slu_push_list(L, count, link_push_handle, handles);
    link_push_letters(L, client, push, &error);
    for (at = 9; at > 0; at--)
        lua_rawseti(L, -1 - at, at);
}

static int link_read_pipeline(lua_State *L, const slu_link *self)
{
    seriatim_error error = {0, ""};
    if (srt_client_status(self->client) != SERIATIM_OK)
        error = *seriatim_client_error(self->client);
    slu_push_list(L, self->queue, link_push_piped, self->client);
    link_push_error(L, &error);
    lua_pushstring(L, seriatim_client_warning(self->client)); /* nil for NULL */
    return 4;
}

/* One push of a pipeline: {queue, rows, replicas, wait_timeout, push_timeout, handles}, at `row`. */
static int link_collect(lua_State *L, const slu_link *self, int row)
{
    int status, handles;
    int64_t replicas;
    double timeout, limit;
    luaL_checktype(L, row, LUA_TTABLE);
    slu_item(L, row, 1);
    status = seriatim_pipeline_push(self->client, slu_size(L, -1, "queue"));
    slu_item(L, row, 3);
    replicas = slu_int64(L, -1, "wait_replicas");
    slu_item(L, row, 4);
    timeout = slu_double(L, -1, "wait_timeout");
    slu_item(L, row, 5);
    limit = slu_double(L, -1, "push_timeout");
    lua_rawgeti(L, row, 6);
    handles = lua_toboolean(L, -1);
    lua_settop(L, row);
    lua_rawgeti(L, row, 2);
    luaL_checktype(L, row + 1, LUA_TTABLE);
    if (status == SERIATIM_OK)
        status = seriatim_push_replicas(self->client, replicas, timeout);
    if (status == SERIATIM_OK)
        status = seriatim_push_timeout(self->client, limit);
    if (status == SERIATIM_OK && handles)
        status = seriatim_push_want_handles(self->client);
    return status == SERIATIM_OK ? slu_link_push_rows(L, self, row + 1) : status;
}

/*
 * link:pipeline(pushes): {{added, folded, {places of refused jobs}, kind of the error or false, its text or false,
 * scheduled, stale, {handles, or false}, letters of seriatim_job_outcome or nil}, ...}, kind and text of what they
 * together end with or false, what is to be warned of or nil
 */
static int link_pipeline(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t i, count;
    int status;
    if (!self)
        return slu_link_closed(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    luaL_checkstack(L, 10, "a push");
    count = slu_rawlen(L, 2);
    status = seriatim_pipeline_begin(self->client);
    if (status == SERIATIM_OK)
        self->read = NULL;
    for (i = 1; i <= count && status == SERIATIM_OK; i++) {
        lua_rawgeti(L, 2, (int)i);
        status = link_collect(L, self, 3);
        lua_settop(L, 2);
    }
    if (status == SERIATIM_OK)
        status = seriatim_pipeline_send(self->client);
    self->queue = count;
    i = (size_t)slu_link_begun(L, self, status, link_read_pipeline);
    self->answers = status == SERIATIM_OK;
    return (int)i;
}

const luaL_Reg slu_operations[] = {{"queue", link_queue},
                                   {"push", link_push},
                                   {"check_jobs", link_check_jobs},
                                   {"pipeline", link_pipeline},
                                   {"layout", link_layout},
                                   {"result", link_result},
                                   {NULL, NULL}};

/* ---- Going on with what was begun ------------------------------------------------------------ */

/*
 * The handler of a signal cannot run Lua code: those of lua.c and of luaposix set a debug hook, which Lua calls when
 * Lua code runs next. While a link waits in C none does. Another thread may have received the signal, so poll(2) need
 * not end with EINTR; hence a wait looks for a new hook this often.
 */
#define LINK_HOOK_MS 50

/* Waits until something happened or LINK_HOOK_MS are over; 0: the deadline is over. */
static int link_wait(lua_State *L, seriatim_link *link, int64_t deadline_ms)
{
    int wants = seriatim_link_wants(link), patience = seriatim_link_timeout_ms(link);
    struct pollfd fd = {seriatim_link_fd(link), POLLIN, 0};
    int64_t until = srt_clock_ms() + (patience < 0 || patience > LINK_HOOK_MS ? LINK_HOOK_MS : patience);
    if (wants)
        fd.events = (short)((wants & SERIATIM_WANT_READ ? POLLIN : 0) | (wants & SERIATIM_WANT_WRITE ? POLLOUT : 0));
    slu_poll(&fd, fd.fd >= 0, until < deadline_ms ? until : deadline_ms, L);
    return slu_left_ms(deadline_ms) != 0;
}

/* Whose hook the handlers of signals set: in Lua 5.4 each coroutine has a hook of its own, in LuaJIT all share one. */
static lua_State *main_coroutine(lua_State *L)
{
#ifdef LUA_RIDX_MAINTHREAD
    lua_State *state;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    state = lua_tothread(L, -1);
    lua_pop(L, 1);
    return state;
#else
    return L; /* PUC 5.1 does not tell: there a wait in another coroutine goes on to its end */
#endif
}

/*
 * Moves a hook that was set in the main coroutine since `before` was its hook to L, the coroutine that waits. Left
 * there, it would be called when the main coroutine runs again, after the wait. That of a traceback stays, because the
 * hook that it puts back is the main coroutine's.
 */
static void link_move_hook(lua_State *L, lua_State *from, lua_Hook before)
{
    lua_Hook hook = lua_gethook(from);
    int mask = lua_gethookmask(from), count = lua_gethookcount(from);
    if (from == L || !hook || hook == before)
        return;
    if (slu_thread_traces(hook)) {
        slu_thread_answer(L);
        return;
    }
    lua_sethook(from, NULL, 0, 0);
    lua_sethook(L, hook, mask, count);
}

/*
 * Lets Lua call a debug hook that was set since `before` was the hook: runs an empty Lua function. What the hook raises
 * is raised here, after what was begun was dropped with its socket. A hook that was there before, such as a profiler's,
 * has no part in this.
 */
static void link_run_hook(lua_State *L, slu_link *self, lua_Hook before)
{
    lua_Hook hook = lua_gethook(L);
    int status;
    if (!hook || hook == before)
        return;
    luaL_checkstack(L, 1, "a debug hook");
    status = luaL_loadstring(L, "return"); /* in LuaJIT it may raise as slu_prepare does */
    self->busy = 1;                        /* the hook may run anyone's code */
    if (status == 0)
        status = lua_pcall(L, 0, 0, 0);
    self->busy = 0;
    if (status == 0)
        return;
    seriatim_link_reset(self->link);
    lua_error(L);
}

/*
 * link:drive(seconds). What does not end in time is dropped with its socket, so no answer can be mistaken for
 * another's.
 */
static int link_drive(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    lua_State *first = main_coroutine(L);
    lua_Hook hook = lua_gethook(L), first_hook = lua_gethook(first);
    int64_t deadline_ms;
    int status;
    if (!self)
        return slu_link_closed(L);
    luaL_argcheck(L, self->link != NULL, 1, "a Client is driven by its host");
    deadline_ms = slu_deadline(L, 2);
    status = seriatim_link_step(self->link);
    while (status == SERIATIM_AGAIN && link_wait(L, self->link, deadline_ms)) {
        link_move_hook(L, first, first_hook);
        link_run_hook(L, self, hook);
        status = seriatim_link_step(self->link);
    }
    if (status == SERIATIM_AGAIN && (status = seriatim_link_step(self->link)) == SERIATIM_AGAIN)
        status = srt_link_expire(self->link);
    return slu_link_result(L, self, status);
}

/* ---- Life ------------------------------------------------------------------------------------ */

void slu_link_options(lua_State *L, int at, seriatim_options *options)
{
    memset(options, 0, sizeof *options);
    options->ns = slu_cstr_or_null(L, at, "namespace");
    options->name = slu_cstr_or_null(L, at + 1, "name");
    if (!lua_isnoneornil(L, at + 2))
        options->max_payload = slu_size(L, at + 2, "max_payload");
}

static seriatim_turns *link_turns; /* of the process, of all its Lua states */
static pthread_once_t link_turns_once = PTHREAD_ONCE_INIT;

static void link_make_turns(void)
{
    link_turns = seriatim_turns_new(NULL);
}

void slu_link_share_turns(seriatim_client *client)
{
    pthread_once(&link_turns_once, link_make_turns);
    seriatim_client_share_turns(client, link_turns);
}

/* native.link(url, namespace, name, max_payload, url_from) */
static int link_new(lua_State *L)
{
    const char *url = slu_cstr(L, 1, "url");
    seriatim_options options;
    seriatim_error error = {0};
    slu_link *self;
    lua_settop(L, 5);
    slu_link_options(L, 2, &options);
    options.url_from = slu_cstr_or_null(L, 5, "url_from");
    self = slu_new(L, SLU_LINK, sizeof *self);
    if (seriatim_link_new(&options, url, &self->link, &error) != SERIATIM_OK)
        return slu_nil_error(L, &error);
    self->client = seriatim_link_client(self->link);
    slu_link_share_turns(self->client);
    self->pid = slu_pid();
    return 1;
}

/* Also __gc. In a child of fork(2) the parent's connection is left alone by the transport. */
static int link_close(lua_State *L)
{
    slu_link *self = luaL_checkudata(L, 1, SLU_LINK);
    seriatim_link *link = self->link;
    if (self->busy)
        return 0;
    self->link = NULL;
    self->client = NULL;
    slu_web_forget_hooks(L, self);
    seriatim_link_free(link);
    return 0;
}

static int link_reset(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    if (self && self->link)
        seriatim_link_reset(self->link);
    return 0;
}

/*
 * link:progress(what, total or nil): is the next action on a whole queue or check shown on stderr? It is where that is
 * a terminal.
 */
static int link_progress(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    size_t len;
    const char *what = slu_text(L, 2, "what", &len);
    int64_t total = lua_isnoneornil(L, 3) ? -1 : slu_int64(L, 3, "total");
    if (!self)
        return slu_link_closed(L);
    luaL_argcheck(L, self->link != NULL, 1, "a Client has no terminal");
    lua_pushboolean(L, seriatim_link_progress(self->link, STDERR_FILENO, what, len, total));
    return 1;
}

static int link_url(lua_State *L)
{
    slu_link *self = slu_link_of(L);
    if (!self || !self->link)
        return slu_link_closed(L);
    lua_pushstring(L, seriatim_link_url(self->link));
    return 1;
}

void slu_open_link(lua_State *L)
{
    static const luaL_Reg methods[] = {{"drive", link_drive},       {"url", link_url},     {"reset", link_reset},
                                       {"progress", link_progress}, {"close", link_close}, {NULL, NULL}};
    static const luaL_Reg functions[] = {{"link", link_new}, {NULL, NULL}};
    slu_class(L, SLU_LINK, methods, link_close);
    slu_methods(L, SLU_LINK, slu_operations);
    slu_methods(L, SLU_LINK, slu_operators);
    slu_methods(L, SLU_LINK, slu_pops);
    slu_methods(L, SLU_LINK, slu_ick);
    slu_methods(L, SLU_LINK, slu_web);
    slu_functions(L, functions);
}
