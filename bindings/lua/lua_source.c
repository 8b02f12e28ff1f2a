/* lua_source.c - the life of a runner or a node, held by several Lua states and their deliveries. */
#include "lua_runner.h"

slu_source *slu_source_new(void)
{
    slu_source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    if (slu_pipe(source->wake) != 0) {
        free(source);
        return NULL;
    }
    pthread_mutex_init(&source->lock, NULL);
    source->references = 1;
    source->pid = getpid();
    return source;
}

/* Joins a runner's thread, which may be asking the resolver: not under the lock. */
static void source_end(slu_source *source)
{
    seriatim_runner *runner = source->runner;
    srt_node *node = source->node;
    source->runner = NULL;
    source->node = NULL;
    if (runner)
        seriatim_runner_free(runner);
    if (node)
        srt_node_free(node);
}

void slu_source_hold(slu_source *source)
{
    pthread_mutex_lock(&source->lock);
    source->references++;
    pthread_mutex_unlock(&source->lock);
}

/* In a child of fork(2) there is no thread to end, and the lock may be anyone's: all is left alone. */
void slu_source_release(slu_source *source)
{
    int last;
    if (source->pid != getpid())
        return;
    pthread_mutex_lock(&source->lock);
    last = --source->references == 0;
    pthread_mutex_unlock(&source->lock);
    if (!last)
        return;
    source_end(source);
    close(source->wake[0]);
    close(source->wake[1]);
    pthread_mutex_destroy(&source->lock);
    free(source);
}

int slu_source_enter(slu_source *source)
{
    int open;
    if (source->pid != getpid())
        return 0;
    pthread_mutex_lock(&source->lock);
    open = !source->closed;
    source->inside += (size_t)open;
    pthread_mutex_unlock(&source->lock);
    return open;
}

void slu_source_leave(slu_source *source)
{
    int last;
    pthread_mutex_lock(&source->lock);
    last = --source->inside == 0 && source->closed;
    pthread_mutex_unlock(&source->lock);
    if (last)
        source_end(source);
}

int slu_source_is_closed(slu_source *source)
{
    int closed;
    pthread_mutex_lock(&source->lock);
    closed = source->closed;
    pthread_mutex_unlock(&source->lock);
    return closed;
}

/* Every later call of it, or of a delivery of it, tells so, as do those that wait. */
void slu_source_close(slu_source *source)
{
    ssize_t written;
    if (!slu_source_enter(source))
        return;
    pthread_mutex_lock(&source->lock);
    source->closed = 1;
    pthread_mutex_unlock(&source->lock);
    written = write(source->wake[1], "!", 1); /* stays in the pipe, so it wakes all */
    (void)written;
    slu_source_leave(source);
}

/* ---- As userdata ----------------------------------------------------------------------------------------- */

slu_source **slu_source_box(lua_State *L, const char *name)
{
    return slu_new(L, name, sizeof(slu_source *));
}

slu_source *slu_source_of(lua_State *L)
{
    slu_source **box = slu_test(L, 1, SLU_RUNNER);
    if (!box)
        box = slu_test(L, 1, SLU_NODE);
    if (!box || !*box)
        luaL_argerror(L, 1, "a Runner or a Node is expected");
    return *box;
}

slu_source *slu_source_inside(lua_State *L)
{
    slu_source *source = slu_source_of(L);
    return slu_source_enter(source) ? source : NULL;
}

int slu_source_closed(lua_State *L, slu_source *source)
{
    return slu_weather(L, SERIATIM_CLOSED,
                       source->pid == getpid() ? "the runner is closed"
                                               : "the runner belongs to the process that made it; after fork make another");
}

int slu_source_gc(lua_State *L)
{
    slu_source **box = lua_touserdata(L, 1), *source = *box;
    *box = NULL;
    if (source)
        slu_source_release(source);
    return 0;
}
