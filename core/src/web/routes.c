/*
 * routes.c - what the web application answers: one row for each path, with the role that it needs and who answers it.
 */
#include "web/consume.h"

/*
 * ROUTES is a list, beside those of queries and actions, of X(method, path, role, action, next, write, number, flag,
 * text, uses). seriatim_web_routes tells the first four, of which the action is the name of a change in the audit log;
 * the others make the srt_web_handler.
 */
#define PAGE(X, path, name, uses)                                                                                      \
    X(GET, path, VIEWER, NULL, srt_web_##name##_next, srt_web_##name##_write, 0, 0, NULL, uses)
/*
 * The routes of queries and actions come from their definitions: a RANGE has two, a FETCH or a LIST none, and an action
 * without a role none. What an action takes decides who answers it.
 */
#define QUERY_RANGE(X, kind, name, reverse)                                                                            \
    X(GET, "/api/web/:worker/" name, VIEWER, NULL, srt_web_range_next, srt_web_range_write, SERIATIM_##kind, reverse,  \
      NULL, SRT_WEB_NAMES_WORKERS)
#define QUERY_ROUTES_RANGE(X, kind, name, descending) QUERY_RANGE(X, kind, name, 0) QUERY_RANGE(X, kind, descending, 1)
#define QUERY_ROUTES_FETCH(X, kind, name, descending)
#define QUERY_ROUTES_LIST(X, kind, name, descending)

#define ACTION(X, kind, name, role, next, uses)                                                                        \
    X(POST, "/api/web/:worker/" name, role, name, srt_web_##next##_next, srt_web_count_write, SERIATIM_##kind, 0,      \
      NULL, SRT_WEB_NAMES_WORKERS | (uses))
#define ACTION_NOTHING(X, kind, name, role) ACTION(X, kind, name, role, act, 0)
#define ACTION_IDS(X, kind, name, role) ACTION(X, kind, name, role, act, 0)
#define ACTION_PAYLOAD(X, kind, name, role) ACTION(X, kind, name, role, drop, SRT_WEB_TAKES_PAYLOAD)
#define ACTION_HANDLE(X, kind, name, role) ACTION(X, kind, name, role, handle, SRT_WEB_TAKES_HANDLE)
#define ACTION_HANDLE_AT(X, kind, name, role) ACTION(X, kind, name, role, handle, SRT_WEB_TAKES_HANDLE)
#define ACTION_SHARDS(X, kind, name, role) ACTION(X, kind, name, role, shards, SRT_WEB_TAKES_SHARDS)
#define ACTION_ROUTE_OPERATOR(X, kind, name, takes) ACTION_##takes(X, kind, name, OPERATOR)
#define ACTION_ROUTE_ADMIN(X, kind, name, takes) ACTION_##takes(X, kind, name, ADMIN)
#define ACTION_ROUTE_NONE(X, kind, name, takes)

/* Of the ids with one error: the dead, or the retrying. */
#define GROUP(X, name, role, kind, retrying)                                                                           \
    X(POST, "/api/v1/queues/:queue/errors/:fingerprint/" name, role, "errors_" name, srt_web_group_next,               \
      srt_web_group_write, SERIATIM_##kind, retrying, NULL, 0)
#define ORDER(X, name, role, kind)                                                                                     \
    X(POST, "/api/v1/nodes/:node/" name, role, name "_node", srt_web_order_next, srt_web_count_write, SERIATIM_##kind, \
      0, NULL, 0)

/*
 * They change what is stored, but have no action: at the rate of a queue, lines of the audit would be noise. They are
 * there only with the setting `consume`.
 */
#define CONSUME(X, name, answers, kind)                                                                                \
    X(POST, SRT_CONSUME_PATH name, CONSUMER, NULL, srt_web_consume_##answers##_next,                                   \
      srt_web_consume_##answers##_write, kind, 0, NULL, SRT_WEB_CONSUMES)
#define OUTCOME(X, name, kind) CONSUME(X, name, outcome, SERIATIM_POPPED_##kind)

/* clang-format off */
#define ROUTES(X) \
    PAGE(X, "/api/v1/stats", stats, SRT_WEB_NAMES_WORKERS | SRT_WEB_SHOWS_FIGURES) \
    PAGE(X, "/api/web/dashboard", dashboard, SRT_WEB_SHOWS_FIGURES) \
    QUERY_RANGE(X, PROCESSING_DATA, "processing_data", 0) \
    QUERY_RANGE(X, RANGE_BY_DELIVER_AT, "range_by_deliver_at", 0) \
    QUERY_RANGE(X, RANGE_BY_DELIVER_AT, "rev_range_by_deliver_at", 1) \
    PAGE(X, "/api/v1/queues/:queue", queue, SRT_WEB_SHOWS_FIGURES) \
    PAGE(X, "/api/v1/queues/:queue/records", records, 0) \
    PAGE(X, "/api/v1/queues/:queue/id", id, 0) \
    PAGE(X, "/api/v1/queues/:queue/scheduled", scheduled, 0) \
    PAGE(X, "/api/v1/queues/:queue/hottest", hottest, 0) \
    PAGE(X, "/api/v1/queues/:queue/ages", ages, 0) \
    PAGE(X, "/api/v1/queues/:queue/bytes", bytes, 0) \
    PAGE(X, "/api/v1/queues/:queue/errors", errors, 0) \
    GROUP(X, "queue_up", OPERATOR, MORGUE_QUEUE_UP, 0) \
    GROUP(X, "delete", ADMIN, MORGUE_DELETE, 0) \
    GROUP(X, "perform_now", OPERATOR, PERFORM_NOW, 1) \
    GROUP(X, "kill", ADMIN, KILL, 1) \
    PAGE(X, "/api/v1/running", running, 0) \
    PAGE(X, "/api/v1/masters", masters, 0) \
    PAGE(X, "/api/v1/nodes", nodes, 0) \
    ORDER(X, "quiet", OPERATOR, ORDER_QUIET) \
    ORDER(X, "stop", ADMIN, ORDER_STOP) \
    PAGE(X, "/api/v1/search", search, 0) \
    PAGE(X, "/api/v1/history", history, SRT_WEB_SHOWS_FIGURES) \
    X(GET, "/metrics", VIEWER, NULL, srt_web_metrics_next, NULL, 0, 0, srt_web_metrics_text, SRT_WEB_SHOWS_FIGURES) \
    X(GET, "/livez", NOBODY, NULL, srt_web_livez_next, srt_web_well_write, 0, 0, NULL, 0) \
    X(GET, "/readyz", NOBODY, NULL, srt_web_readyz_next, srt_web_well_write, 0, 0, NULL, 0) \
    X(GET, SRT_CONSUME_PATH "openapi.json", CONSUMER, NULL, srt_web_consume_openapi_next, NULL, 0, 0, NULL, 0) \
    CONSUME(X, "push", push, SRT_CONSUME_PUSH) \
    CONSUME(X, "pop", pop, SRT_CONSUME_POP) \
    OUTCOME(X, "ack", ACK) \
    OUTCOME(X, "fail", FAIL) \
    OUTCOME(X, "release", RELEASE) \
    OUTCOME(X, "extend", EXTEND) \
    OUTCOME(X, "snooze", SNOOZE) \
    OUTCOME(X, "checkpoint", CHECKPOINT)
/* clang-format on */

#define ROUTE(method, path, role, action, next, write, number, flag, text, uses)                                       \
    {#method, path, SERIATIM_WEB_##role, action},
#define HANDLER(method, path, role, action, next, write, number, flag, text, uses)                                     \
    {next, write, number, flag, text, uses},

#define QUERY_ROUTE(kind, name, form, descending) QUERY_ROUTES_##form(ROUTE, kind, #name, #descending)
#define QUERY_HANDLER(kind, name, form, descending) QUERY_ROUTES_##form(HANDLER, kind, #name, #descending)
#define ACTION_ROUTE(kind, name, takes, role) ACTION_ROUTE_##role(ROUTE, kind, #name, takes)
#define ACTION_HANDLER(kind, name, takes, role) ACTION_ROUTE_##role(HANDLER, kind, #name, takes)

static const seriatim_web_route route_table[] = {SERIATIM_QUERIES(QUERY_ROUTE) SERIATIM_ACTIONS(ACTION_ROUTE)
                                                     ROUTES(ROUTE)};
static const srt_web_handler route_handlers[] = {SERIATIM_QUERIES(QUERY_HANDLER) SERIATIM_ACTIONS(ACTION_HANDLER)
                                                     ROUTES(HANDLER)};

const seriatim_web_route *seriatim_web_routes(size_t *count)
{
    *count = sizeof route_table / sizeof *route_table;
    return route_table;
}

const srt_web_handler *srt_web_handlers(void)
{
    return route_handlers;
}
