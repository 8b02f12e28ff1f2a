/* lua_source.c - the life of a runner or a node, held by several Lua states and their deliveries. */
#include "lua_runner.h"

/* state counts calls in steps of SOURCE_CALL: the last one to leave frees what is closed. */
enum { SOURCE_CLOSED = 1, SOURCE_FREED = 2, SOURCE_CALL = 4 };

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
    source->pid = slu_pid();
    return source;
}

/* Joins a runner's thread, which may be asking the resolver. */
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
    __atomic_add_fetch(&source->references, 1, __ATOMIC_RELAXED);
}

/* In a child of fork(2) there is no thread to end: all is left alone. */
void slu_source_release(slu_source *source)
{
    if (source->pid != slu_pid() || __atomic_sub_fetch(&source->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    source_end(source);
    close(source->wake[0]);
    close(source->wake[1]);
    slu_changes_free(source);
    pthread_mutex_destroy(&source->lock);
    free(source);
}

int slu_source_enter(slu_source *source)
{
    if (source->pid != slu_pid())
        return 0;
    if (!(__atomic_fetch_add(&source->state, SOURCE_CALL, __ATOMIC_ACQUIRE) & SOURCE_CLOSED))
        return 1;
    slu_source_leave(source);
    return 0;
}

void slu_source_leave(slu_source *source)
{
    size_t last = SOURCE_CLOSED;
    if (__atomic_sub_fetch(&source->state, SOURCE_CALL, __ATOMIC_ACQ_REL) == last &&
        __atomic_compare_exchange_n(&source->state, &last, SOURCE_CLOSED | SOURCE_FREED, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        source_end(source);
}

int slu_source_is_closed(slu_source *source)
{
    return (__atomic_load_n(&source->state, __ATOMIC_ACQUIRE) & SOURCE_CLOSED) != 0;
}

/* Every later call of it, or of a delivery of it, tells so, as do those that wait. */
void slu_source_close(slu_source *source)
{
    ssize_t written;
    if (!slu_source_enter(source))
        return;
    __atomic_or_fetch(&source->state, SOURCE_CLOSED, __ATOMIC_ACQ_REL);
    written = write(source->wake[1], "!", 1); /* stays in the pipe, so it wakes all */
    (void)written;
    slu_source_leave(source);
}

/* ---- As userdata ----------------------------------------------------------------------------- */

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
    return slu_failure(L, SERIATIM_CLOSED,
                       source->pid == slu_pid()
                           ? "the runner is closed"
                           : "the runner belongs to the process that created it; create another one after fork");
}

int slu_source_gc(lua_State *L)
{
    slu_source **box = lua_touserdata(L, 1), *source = *box;
    *box = NULL;
    if (source)
        slu_source_release(source);
    return 0;
}
