/* routes.c - what the web application answers: one row for each path, with the role that it needs and who answers it. */
#include "web/web.h"

/*
 * ROUTES is a list of X(method, path, role, action, next, write, number, flag, text, uses). seriatim_web_routes tells the
 * first four, of which the action is the name of a change in the audit log; the others make the srt_web_handler.
 */
#define PAGE(X, path, name, uses) X(GET, path, VIEWER, NULL, srt_web_##name##_next, srt_web_##name##_write, 0, 0, NULL, uses)
#define RANGE(X, name, kind, reverse)                                                                                        \
    X(GET, "/api/web/:worker/" name, VIEWER, NULL, srt_web_range_next, srt_web_range_write, SERIATIM_##kind, reverse, NULL,  \
      SRT_WEB_NAMES_WORKERS)
#define ACTION(X, name, role, kind)                                                                                          \
    X(POST, "/api/web/:worker/" name, role, name, srt_web_act_next, srt_web_count_write, SERIATIM_##kind, 0, NULL,           \
      SRT_WEB_NAMES_WORKERS)
#define DROP(X, name, kind)                                                                                                  \
    X(POST, "/api/web/:worker/" name, ADMIN, name, srt_web_drop_next, srt_web_count_write, SERIATIM_##kind, 0, NULL,         \
      SRT_WEB_NAMES_WORKERS | SRT_WEB_TAKES_PAYLOAD)
/* Of the ids with one error: the dead, or the retrying. */
#define GROUP(X, name, role, kind, retrying)                                                                                 \
    X(POST, "/api/v1/queues/:queue/errors/:fingerprint/" name, role, "errors_" name, srt_web_group_next, srt_web_group_write, \
      SERIATIM_##kind, retrying, NULL, 0)
#define ORDER(X, name, role, kind)                                                                                           \
    X(POST, "/api/v1/nodes/:node/" name, role, name "_node", srt_web_order_next, srt_web_count_write, SERIATIM_##kind, 0, NULL, 0)

/* clang-format off */
#define ROUTES(X) \
    PAGE(X, "/api/v1/stats", stats, SRT_WEB_NAMES_WORKERS | SRT_WEB_SHOWS_FIGURES) \
    PAGE(X, "/api/web/dashboard", dashboard, SRT_WEB_SHOWS_FIGURES) \
    RANGE(X, "range_by_id", RANGE_BY_ID, 0) \
    RANGE(X, "rev_range_by_id", RANGE_BY_ID, 1) \
    RANGE(X, "range_by_perform_in", RANGE_BY_PERFORM_IN, 0) \
    RANGE(X, "rev_range_by_perform_in", RANGE_BY_PERFORM_IN, 1) \
    RANGE(X, "range_by_retry_count", RANGE_BY_RETRY_COUNT, 0) \
    RANGE(X, "rev_range_by_retry_count", RANGE_BY_RETRY_COUNT, 1) \
    RANGE(X, "morgue_range_by_id", MORGUE_RANGE_BY_ID, 0) \
    RANGE(X, "morgue_rev_range_by_id", MORGUE_RANGE_BY_ID, 1) \
    RANGE(X, "morgue_range_by_updated_at", MORGUE_RANGE_BY_UPDATED_AT, 0) \
    RANGE(X, "morgue_rev_range_by_updated_at", MORGUE_RANGE_BY_UPDATED_AT, 1) \
    RANGE(X, "processing_data", PROCESSING, 0) \
    ACTION(X, "perform_all_jobs_now", OPERATOR, PERFORM_ALL_JOBS_NOW) \
    ACTION(X, "perform_all_failed_jobs_now", OPERATOR, PERFORM_ALL_FAILED_JOBS_NOW) \
    ACTION(X, "kill_all_failed_jobs", ADMIN, KILL_ALL_FAILED_JOBS) \
    ACTION(X, "delete_all_failed_jobs", ADMIN, DELETE_ALL_FAILED_JOBS) \
    ACTION(X, "morgue_queue_up_all_jobs", OPERATOR, MORGUE_QUEUE_UP_ALL_JOBS) \
    ACTION(X, "morgue_delete_all_jobs", ADMIN, MORGUE_DELETE_ALL_JOBS) \
    ACTION(X, "pause", OPERATOR, PAUSE) \
    ACTION(X, "resume", OPERATOR, RESUME) \
    ACTION(X, "delete", ADMIN, DELETE) \
    ACTION(X, "morgue_queue_up", OPERATOR, MORGUE_QUEUE_UP) \
    ACTION(X, "morgue_delete", ADMIN, MORGUE_DELETE) \
    ACTION(X, "park", OPERATOR, PARK) \
    ACTION(X, "unpark", OPERATOR, UNPARK) \
    ACTION(X, "perform_now", OPERATOR, PERFORM_NOW) \
    ACTION(X, "unpark_all", OPERATOR, UNPARK_ALL) \
    DROP(X, "drop_payload", DROP_PAYLOAD) \
    DROP(X, "morgue_drop_payload", MORGUE_DROP_PAYLOAD) \
    PAGE(X, "/api/v1/queues/:queue", queue, SRT_WEB_SHOWS_FIGURES) \
    PAGE(X, "/api/v1/queues/:queue/records", records, 0) \
    PAGE(X, "/api/v1/queues/:queue/id", id, 0) \
    PAGE(X, "/api/v1/queues/:queue/hottest", hottest, 0) \
    PAGE(X, "/api/v1/queues/:queue/ages", ages, 0) \
    PAGE(X, "/api/v1/queues/:queue/bytes", bytes, 0) \
    PAGE(X, "/api/v1/queues/:queue/errors", errors, 0) \
    GROUP(X, "queue_up", OPERATOR, MORGUE_QUEUE_UP, 0) \
    GROUP(X, "delete", ADMIN, MORGUE_DELETE, 0) \
    GROUP(X, "perform_now", OPERATOR, PERFORM_NOW, 1) \
    GROUP(X, "kill", ADMIN, KILL, 1) \
    PAGE(X, "/api/v1/running", running, 0) \
    PAGE(X, "/api/v1/nodes", nodes, 0) \
    ORDER(X, "quiet", OPERATOR, ORDER_QUIET) \
    ORDER(X, "stop", ADMIN, ORDER_STOP) \
    PAGE(X, "/api/v1/search", search, 0) \
    PAGE(X, "/api/v1/history", history, SRT_WEB_SHOWS_FIGURES) \
    X(GET, "/metrics", VIEWER, NULL, srt_web_metrics_next, NULL, 0, 0, srt_web_metrics_text, SRT_WEB_SHOWS_FIGURES) \
    X(GET, "/livez", NOBODY, NULL, srt_web_livez_next, srt_web_well_write, 0, 0, NULL, 0) \
    X(GET, "/readyz", VIEWER, NULL, srt_web_readyz_next, srt_web_well_write, 0, 0, NULL, 0)
/* clang-format on */

#define ROUTE(method, path, role, action, next, write, number, flag, text, uses) {#method, path, SERIATIM_WEB_##role, action},
#define HANDLER(method, path, role, action, next, write, number, flag, text, uses) {next, write, number, flag, text, uses},

static const seriatim_web_route route_table[] = {ROUTES(ROUTE)};
static const srt_web_handler route_handlers[] = {ROUTES(HANDLER)};

const seriatim_web_route *seriatim_web_routes(size_t *count)
{
    *count = sizeof route_table / sizeof *route_table;
    return route_table;
}

const srt_web_handler *srt_web_handlers(void)
{
    return route_handlers;
}
