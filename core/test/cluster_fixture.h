/* cluster_fixture.h - a cluster without a network: its masters A and B, what it sends to them, and what they answer. */
#ifndef SRT_TEST_CLUSTER_FIXTURE_H
#define SRT_TEST_CLUSTER_FIXTURE_H

#include "wire/cluster.h"

/* A has the slots 0..8191, B the others. "{b}" is in slot 3300, "{a}" in 15495. */
#define MAP_AB "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\nA\r\n:1\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nB\r\n:2\r\n"
#define MAP_CB "*2\r\n*3\r\n:0\r\n:8191\r\n*2\r\n$1\r\nC\r\n:3\r\n*3\r\n:8192\r\n:16383\r\n*2\r\n$1\r\nB\r\n:2\r\n"
#define LOW "{b}"
#define HIGH "{a}"

extern srt_cluster cl;
extern int64_t now;          /* milliseconds */
extern size_t dropped_peers; /* that the host was told of */

/* The peer with this host; NULL: there is none. */
srt_redis *peer_at(const char *host);
/* Time passes: step by step, as a host that obeys srt_cluster_due_ms. */
void cluster_wait_ms(int64_t ms);
/* What is to be sent to this peer, sent: commands with | between them, their arguments with a space behind each. */
const char *cluster_sends(const char *host);
void cluster_connect(const char *host);
/* The answer's status: AGAIN, the owner gets none; else the kind of its request in *kind, which may be NULL. */
int cluster_hears(const char *host, const char *answer, int *kind, seriatim_error *error);
/* The owner gets none of these answers. */
void cluster_swallows(const char *host, const char *answer);
/* The owner gets it as the answer to the request of this kind. */
void cluster_answers(const char *host, const char *answer, int kind);
/* GET of a key, not sent. */
srt_request *cluster_get(const char *key, int kind);
void cluster_asks(const char *key, int kind);
/* One seed, A. */
void cluster_make(void);
/* The map is known, and A and B are connected. */
int cluster_set_up(void **state);
int cluster_tear_down(void **state);

#endif
