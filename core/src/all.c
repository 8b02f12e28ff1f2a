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

#include "base/status.c"
#include "base/system.c"
#include "base/bytes.c"
#include "base/json_text.c"
#include "base/json_number.c"
#include "base/json_writer.c"
#include "base/json_path.c"
#include "base/json_reader.c"
#include "base/printable.c"
#include "command/command.c"
#include "wire/resp.c"
#include "wire/script.c"
#include "wire/keys.c"
#include "model/settings.c"
#include "model/registry.c"
#include "model/policy.c"
#include "client/client.c"
#include "client/push.c"
#include "base/msgpack.c"
#include "model/record.c"
#include "client/operator.c"
#include "client/query.c"
#include "client/action.c"
#include "client/delete.c"
#include "client/observe.c"
#include "client/health.c"
#include "client/queues.c"
#include "client/check.c"
#include "model/history.c"
#include "web/assets.c"
#include "web/request.c"
#include "web/change.c"
#include "web/write.c"
#include "web/survey.c"
#include "web/scan.c"
#include "web/api.c"
#include "web/act.c"
#include "web/records.c"
#include "web/errors.c"
#include "web/pages.c"
#include "web/ages.c"
#include "web/bytes.c"
#include "web/running.c"
#include "web/search.c"
#include "web/history.c"
#include "web/sample.c"
#include "web/metrics.c"
#include "web/routes.c"
#include "web/web.c"
#include "node/job.c"
#include "node/events.c"
#include "node/timers.c"
#include "node/shard_request.c"
#include "node/ready.c"
#include "node/quarantine.c"
#include "node/membership.c"
#include "node/notice.c"
#include "node/batch.c"
#include "node/recall.c"
#include "node/offer.c"
#include "node/recover.c"
#include "node/acquire.c"
#include "node/settle.c"
#include "node/slice.c"
#include "node/claim.c"
#include "node/shard.c"
#include "node/delivery.c"
#include "node/sample.c"
#include "node/node.c"
#include "net/url.c"
#include "net/sentinel.c"
#include "net/transport.c"
#include "net/private_redis.c"
#include "io/link.c"
#include "io/waiters.c"
#include "io/runner.c"
