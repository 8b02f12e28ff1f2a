/* subscriber.h - the second connection of a link, on which the client's listener subscribes to wake-up channels. */
#ifndef SRT_SUBSCRIBER_H
#define SRT_SUBSCRIBER_H

#include "client/client.h"
#include "net/transport.h"

typedef struct srt_subscriber {
    const seriatim_allocator *mem;
    const srt_url *url;       /* borrowed */
    seriatim_client *client;  /* borrowed */
    srt_transport *transport; /* NULL: none was made yet */
    int connecting, open;     /* neither: it is closed */
    unsigned failures;        /* in a row */
    size_t turn;              /* of the nodes of a cluster, which are tried in turn */
    unsigned at;              /* srt_redis.number of the one to which it is connected */
    int64_t retry_ms;         /* closed: when to connect */
} srt_subscriber;

/* A zeroed one becomes closed. It connects at its first step. */
void srt_subscriber_init(srt_subscriber *s, const seriatim_allocator *mem, const srt_url *url, seriatim_client *client);
void srt_subscriber_close(srt_subscriber *s);
void srt_subscriber_free(srt_subscriber *s);
/*
 * Connects if the listener wants a connection, sends what the listener has to send, and reads all that has come, which
 * may wake the client. `input` is room for `cap` bytes of it. A failure is no error: it connects again after a pause.
 */
void srt_subscriber_step(srt_subscriber *s, char *input, size_t cap);

/* What to wait for between two steps. The transport, or NULL while the connection is closed. */
srt_transport *srt_subscriber_transport(const srt_subscriber *s);
/* When a connect that is under way has taken too long, by srt_clock_ms; INT64_MAX: none is under way. */
int64_t srt_subscriber_deadline(const srt_subscriber *s);

#endif
