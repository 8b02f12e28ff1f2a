/* seriatim_native.h - what the files of this glue share: convert, call, convert; no rule of the queue lives here. */
#ifndef SERIATIM_NATIVE_H
#define SERIATIM_NATIVE_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif

/* Nothing of ours is exported but luaopen_seriatim_native. What is declared after the pragma is hidden. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

#include "seriatim/binding.h"

/*
 * Raising jumps over our frames, so all that must be freed lies in a userdata with __gc before a call that may raise.
 * No lua_State is kept across calls. The API used is that of 5.1; what differs later stands in seriatim_native.c.
 */

/* ---- Errors: invalid arguments raise, failures return nil, kind, message --------------------- */

int slu_raise(lua_State *L, const char *message); /* without a place in the source: the callers name it */
int slu_nil(lua_State *L, const char *kind, const char *message);
/* As slu_nil with the status' name; but INVALID and NOMEM raise. */
int slu_failure(lua_State *L, int status, const char *message);
int slu_failure_of(lua_State *L, const seriatim_error *error);
/* As slu_nil with the status' name; only NOMEM raises. */
int slu_nil_error(lua_State *L, const seriatim_error *error);
int slu_true(lua_State *L);

/*
 * Pushes f and p, its light userdata, for slu_protect. In Lua 5.1 and LuaJIT the collector may run, and raise what a
 * finalizer raises: so before a lock is taken, a source is entered or something is marked as in use.
 */
void slu_prepare(lua_State *L, lua_CFunction f, void *p);
/* Calls what slu_prepare has pushed on top; what it returns, or its error, takes its place. Returns lua_pcall's. */
int slu_protect(lua_State *L);

/* ---- From Lua: raise where the type is wrong ------------------------------------------------- */

/* What does not fit is the nearest that does: the core refuses it with the field's name. */
int64_t slu_int64(lua_State *L, int at, const char *what);
size_t slu_size(lua_State *L, int at, const char *what);
/* A number that counts from 1 as one that counts from 0; SIZE_MAX where it is below 1. */
size_t slu_place(lua_State *L, int at, const char *what);
int slu_int(lua_State *L, int at, const char *what); /* -1 where it is no int from 0 */
double slu_double(lua_State *L, int at, const char *what);
const char *slu_text(lua_State *L, int at, const char *what, size_t *len); /* of a string, which keeps it */
const char *slu_cstr(lua_State *L, int at, const char *what);              /* the same, without NUL */
const char *slu_cstr_or_null(lua_State *L, int at, const char *what);
/* Pushes t[place]; returns 0 where that is nil or false. */
int slu_item(lua_State *L, int table, int place);
/* Of a table of settings by name, which keeps the texts; what is nil is the default. */
void slu_queue_settings(lua_State *L, int at, seriatim_queue_settings *settings);
/* The time of the monotonic clock, in ms, at which the seconds at this argument will have passed; INT64_MAX for nil. */
int64_t slu_deadline(lua_State *L, int at);
/* The list of texts at a place of the stack, which keeps them; NULL for nil. */
const seriatim_text *slu_texts(lua_State *L, int at, size_t *count);

size_t slu_rawlen(lua_State *L, int at);

/* ---- To Lua ---------------------------------------------------------------------------------- */

void slu_push_int(lua_State *L, int64_t value);
void slu_set_text(lua_State *L, const char *name, const char *text, size_t len);
void slu_set_text_or_nil(lua_State *L, const char *name, const char *text, size_t len); /* nothing where it is empty */
void slu_set_cstr(lua_State *L, const char *name, const char *text);
void slu_set_int(lua_State *L, const char *name, int64_t value);
void slu_set_double(lua_State *L, const char *name, double value);
void slu_set_bool(lua_State *L, const char *name, int value);
typedef void (*slu_push)(lua_State *L, const void *array, size_t i);
void slu_push_list(lua_State *L, size_t count, slu_push push, const void *array);

/* Pushes id, fence, retry_count, perform_in, error or nil, {{payload, score, context}} and payload_total: 7 values. */
int slu_push_claimed(lua_State *L, const seriatim_claimed *job);

/* ---- Userdata -------------------------------------------------------------------------------- */

/* A class: its methods, and __gc where there is one. */
void slu_class(lua_State *L, const char *name, const luaL_Reg *methods, lua_CFunction gc);
void slu_methods(lua_State *L, const char *name, const luaL_Reg *methods); /* more of them */
/* A zeroed one of that class. */
void *slu_new(lua_State *L, const char *name, size_t size);
void *slu_test(lua_State *L, int at, const char *name); /* NULL where it is not one */
/* A buffer that is freed when it is collected. */
srt_bytes *slu_bytes(lua_State *L);

/* ---- Waiting --------------------------------------------------------------------------------- */

/*
 * Deadlines are in srt_clock_ms time. The ms left until one as poll(2) wants them: -1 for INT64_MAX, never more than a
 * minute.
 */
int slu_left_ms(int64_t deadline_ms);
/* poll(2) until something is ready (1), the deadline (0), or it cannot (-1). A signal does not end it. */
int slu_poll(struct pollfd *fds, nfds_t count, int64_t deadline_ms, lua_State *L);
int slu_pipe(int fds[2]); /* neither blocks nor is inherited; 0 or -1 */

/* ---- This process ---------------------------------------------------------------------------- */

/* getpid(2) without the system call, which every job would pay for several times. */
pid_t slu_pid(void);

/* ---- The other files ------------------------------------------------------------------------- */

/* Pushes what the reader's JSON says. 0: it cannot be read, reader->error says why; then nothing is pushed. */
struct srt_json_reader;
int slu_json_read(lua_State *L, struct srt_json_reader *reader);
/* Appends the value's canonical JSON. 0: it has none, or there is no memory; why, native.dump says. */
int slu_json_write(lua_State *L, int at, srt_bytes *out);
/* A reader that is freed when it is collected. */
struct srt_json_reader *slu_json_reader(lua_State *L);

/* Where somebody asked this thread for its traceback, gives it. */
void slu_thread_answer(lua_State *L);
/* Is it the hook that gives this thread's traceback, and puts back the one that was there before? */
int slu_thread_traces(lua_Hook hook);

/* The number of the signal that is named there; raises where there is none. */
int slu_signal_number(lua_State *L, int at);
/* Notes what the runner's threads have in hand, for the line that is written when a signal ends the process at once. */
void slu_ending_note(seriatim_runner *runner);

/* Each adds its functions to the table on top of the stack. */
void slu_open_definitions(lua_State *L);
void slu_open_json(lua_State *L);
void slu_open_pop(lua_State *L);
void slu_open_fake(lua_State *L);
void slu_open_rows(lua_State *L);
void slu_open_link(lua_State *L);
void slu_open_client(lua_State *L);
void slu_open_runner(lua_State *L);
void slu_open_node(lua_State *L);
void slu_open_delivery(lua_State *L);
void slu_open_policy(lua_State *L);
void slu_open_system(lua_State *L);
void slu_open_process(lua_State *L);
void slu_open_signals(lua_State *L);
void slu_open_sentinel(lua_State *L);
void slu_open_thread(lua_State *L);
void slu_open_private_redis(lua_State *L);
void slu_open_web(lua_State *L);
void slu_open_socket(lua_State *L);
void slu_open_places(lua_State *L);
void slu_functions(lua_State *L, const luaL_Reg *functions);

#endif
