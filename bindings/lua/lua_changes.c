/*
 * lua_changes.c - workers that are added to a runner or node, or withdrawn from it, while several Lua states take its
 * deliveries: the state that adds a worker leaves a text, of which each other state makes the same worker.
 */
#include "lua_runner.h"

void slu_changes_free(slu_source *source)
{
    size_t i;
    for (i = 0; i < source->change_count; i++)
        free(source->changes[i].text);
    free(source->changes);
}

/* Under the lock: room for one more. */
static int changes_reserve(slu_source *source)
{
    slu_change *changes = realloc(source->changes, (source->change_count + 1) * sizeof *changes);
    if (!changes)
        return SERIATIM_NOMEM;
    source->changes = changes;
    return SERIATIM_OK;
}

/* Under the lock, after changes_reserve. Takes over the text. */
static void changes_note(slu_source *source, size_t worker, char *text, size_t len)
{
    slu_change *change = source->changes, *end = change + source->change_count;
    while (change < end && change->worker != worker)
        change++;
    if (change == end) {
        memset(change, 0, sizeof *change);
        source->change_count++;
    }
    free(change->text);
    change->worker = worker;
    change->number = ++source->last_change;
    change->text = text;
    change->len = len;
}

/* Under the lock, so that the changes are in the order in which the runner has made them. */
static int add_worker(slu_source *source, const seriatim_queue_settings *settings, const char *text, size_t len,
                      size_t *worker, seriatim_error *error)
{
    char *copy = text ? malloc(len + 1) : NULL;
    int status;
    error->status = SERIATIM_NOMEM;
    if ((text && !copy) || changes_reserve(source) != SERIATIM_OK) {
        free(copy);
        return SERIATIM_NOMEM;
    }
    status = source->runner ? seriatim_runner_worker(source->runner, settings, worker, error)
                            : srt_node_worker(source->node, settings, worker, error);
    if (status != SERIATIM_OK) {
        free(copy);
        return status;
    }
    if (copy) {
        memcpy(copy, text, len);
        changes_note(source, *worker, copy, len);
    }
    return SERIATIM_OK;
}

/*
 * deliveries:worker(settings, text) -> its number, also when it runs already. text: for the change that other states
 * learn of; nil: none is noted.
 */
int slu_deliveries_worker(lua_State *L)
{
    slu_source *source;
    seriatim_queue_settings settings;
    seriatim_error error = {0};
    const char *text = NULL;
    size_t worker = 0, len = 0;
    int status;
    slu_queue_settings(L, 2, &settings);
    if (!lua_isnoneornil(L, 3))
        text = slu_text(L, 3, "text", &len);
    source = slu_source_inside(L); /* nothing below raises until it is left */
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    pthread_mutex_lock(&source->lock);
    status = add_worker(source, &settings, text, len, &worker, &error);
    pthread_mutex_unlock(&source->lock);
    slu_source_leave(source);
    if (status != SERIATIM_OK)
        return slu_failure_of(L, &error);
    slu_push_int(L, (int64_t)worker);
    return 1;
}

/* Under the lock. */
static int withdraw_worker(slu_source *source, size_t worker, seriatim_error *error)
{
    int status;
    error->status = SERIATIM_NOMEM;
    if (changes_reserve(source) != SERIATIM_OK)
        return SERIATIM_NOMEM;
    status = source->runner ? seriatim_runner_withdraw(source->runner, worker, error)
                            : srt_node_withdraw(source->node, worker, srt_clock_ms(), error);
    if (status == SERIATIM_OK)
        changes_note(source, worker, NULL, 0);
    return status;
}

/* deliveries:withdraw(worker) -> false: it was withdrawn before */
int slu_deliveries_withdraw(lua_State *L)
{
    seriatim_error error = {0};
    size_t worker = slu_size(L, 2, "worker"); /* it may raise: before the source is entered */
    slu_source *source = slu_source_inside(L);
    int status;
    if (!source)
        return slu_source_closed(L, slu_source_of(L));
    pthread_mutex_lock(&source->lock);
    status = withdraw_worker(source, worker, &error);
    pthread_mutex_unlock(&source->lock);
    slu_source_leave(source);
    if (status != SERIATIM_OK && status != SERIATIM_AGAIN)
        return slu_failure_of(L, &error);
    lua_pushboolean(L, status == SERIATIM_OK);
    return 1;
}

static int change_push(lua_State *L)
{
    const slu_change *change = *(slu_change **)lua_touserdata(L, 1);
    slu_push_int(L, change->number);
    slu_push_int(L, (int64_t)change->worker);
    if (change->text)
        lua_pushlstring(L, change->text, change->len);
    else
        lua_pushnil(L);
    return 3;
}

/* Under the lock. NULL: none is later than `number`. */
static slu_change *change_after(const slu_source *source, int64_t number)
{
    slu_change *next = NULL;
    size_t i;
    if (number >= source->last_change)
        return NULL;
    for (i = 0; i < source->change_count; i++)
        if (source->changes[i].number > number && (!next || source->changes[i].number < next->number))
            next = &source->changes[i];
    return next;
}

/*
 * deliveries:change(number) -> number, worker, text: of the first change after that number (0: of all); nothing if no
 * change came after it. text nil: the worker was withdrawn.
 */
int slu_deliveries_change(lua_State *L)
{
    int64_t number = slu_int64(L, 2, "number");
    slu_source *source;
    slu_change *change;
    int failed = 0;
    lua_settop(L, 2);
    slu_prepare(L, change_push, &change);
    source = slu_source_inside(L);
    if (!source)
        return 0;
    pthread_mutex_lock(&source->lock);
    change = change_after(source, number);
    if (change)
        failed = slu_protect(L); /* memory may be short */
    pthread_mutex_unlock(&source->lock);
    slu_source_leave(source);
    if (failed)
        return lua_error(L);
    return change ? lua_gettop(L) - 2 : 0;
}
