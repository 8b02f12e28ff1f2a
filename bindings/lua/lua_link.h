/*
 * lua_link.h - a connection as push and operators share it: a Link, which waits by itself, or a Client, whose host does
 * the I/O.
 */
#ifndef LUA_LINK_H
#define LUA_LINK_H

#include "seriatim_native.h"

#define SLU_LINK "seriatim.Link"
#define SLU_CLIENT "seriatim.Client"

typedef struct slu_link {
    seriatim_client *client; /* NULL: closed */
    seriatim_link *link;     /* its owner; NULL: this is a Client */
    pid_t pid;               /* where it was used last */
    int busy;                /* its result is being read, in which the collector may run anyone's code */
    int answers;             /* what was begun has a result however it ends */
    size_t queue;            /* of what was begun */
    int (*read)(lua_State *, const struct slu_link *); /* pushes the result of what was begun; NULL: nothing was */
} slu_link;

/* The first argument, a Link or a Client that nobody is inside of; NULL when it is closed: return slu_link_closed. */
slu_link *slu_link_of(lua_State *L);
int slu_link_closed(lua_State *L);
/* After a begin: true, with `read` for its result; or its failure. */
int slu_link_begun(lua_State *L, slu_link *self, int status, int (*read)(lua_State *, const slu_link *));
/* The failure that the client tells of. */
int slu_link_fail(lua_State *L, const slu_link *self, int status);
/* What the ended operation gave: its result or its failure. */
int slu_link_result(lua_State *L, slu_link *self, int status);
/* The options of a new one, from three places of the stack on. */
void slu_link_options(lua_State *L, int at, seriatim_options *options);
void slu_link_share_turns(seriatim_client *client); /* pops with weights take turns in the whole process */

/*
 * lua_link.c: adds the rows at this place of the stack to the push that was begun: OK or a status. Converting a row
 * runs no code of the caller's.
 */
int slu_link_push_rows(lua_State *L, const slu_link *self, int rows);
/* lua_link.c: pushes the eight results of an ended push. */
int slu_link_read_push(lua_State *L, const slu_link *self);

/* lua_client.c: makes a Client this process' own. */
void slu_client_forked(slu_link *self);

/* lua_operators.c: queries and actions, as methods of both. */
extern const luaL_Reg slu_operators[];
/* lua_pop.c: pop and popped, as methods of both. */
extern const luaL_Reg slu_pops[];
/* lua_ick.c: two-phase commit sets, as a method of both. */
extern const luaL_Reg slu_ick[];
/* lua_web.c: web, as a method of both. */
extern const luaL_Reg slu_web[];
/* lua_web.c: lets go of the functions that its last request was given. */
void slu_web_forget_hooks(lua_State *L, slu_link *self);
/* lua_link.c: queue, push, layout, result. */
extern const luaL_Reg slu_operations[];

#endif
