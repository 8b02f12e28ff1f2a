/* all.c - the whole core as one unit: what each binding compiles. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE 1

/* Nothing of ours is exported. What is declared after the pragma is, so the system's headers come before it. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#ifdef __APPLE__
#include <mach/mach.h>
#endif
#ifdef SERIATIM_WITH_OPENSSL
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

#include "status.c"
#include "system.c"
#include "bytes.c"
#include "json_text.c"
#include "json_number.c"
#include "json_writer.c"
#include "json_path.c"
#include "json_reader.c"
#include "printable.c"
#include "command.c"
#include "resp.c"
#include "script.c"
#include "keys.c"
#include "settings.c"
#include "registry.c"
#include "policy.c"
#include "client.c"
#include "push.c"
#include "msgpack.c"
#include "record.c"
#include "operator.c"
#include "query.c"
#include "action.c"
#include "delete.c"
#include "observe.c"
#include "health.c"
#include "queues.c"
#include "check.c"
#include "history.c"
#include "web_assets.c"
#include "web_request.c"
#include "web_change.c"
#include "web_write.c"
#include "web_survey.c"
#include "web_scan.c"
#include "web_api.c"
#include "web_act.c"
#include "web_records.c"
#include "web_errors.c"
#include "web_pages.c"
#include "web_ages.c"
#include "web_bytes.c"
#include "web_running.c"
#include "web_search.c"
#include "web_history.c"
#include "web_sample.c"
#include "web_metrics.c"
#include "web.c"
#include "job.c"
#include "events.c"
#include "timers.c"
#include "shard_request.c"
#include "ready.c"
#include "quarantine.c"
#include "membership.c"
#include "notice.c"
#include "shard.c"
#include "delivery.c"
#include "sample.c"
#include "node.c"
#include "url.c"
#include "sentinel.c"
#include "transport.c"
#include "private_redis.c"
#include "link.c"
#include "waiters.c"
#include "runner.c"
