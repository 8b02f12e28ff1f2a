/* subscriber.c - the second connection of a link, on which the client's listener subscribes to wake-up channels. */
#include "io/subscriber.h"

#include "base/system.h"

#define SUBSCRIBER_CONNECT_MS 5000
#define SUBSCRIBER_PAUSE_MS 50 /* after the first failure; twice as long after each further one, six times */
#define SUBSCRIBER_DOUBLED 6

void srt_subscriber_init(srt_subscriber *s, const seriatim_allocator *mem, const srt_url *url, seriatim_client *client)
{
    s->mem = mem;
    s->url = url;
    s->client = client;
}

void srt_subscriber_close(srt_subscriber *s)
{
    int was_open = s->open;
    if (s->transport)
        srt_transport_close(s->transport);
    s->connecting = s->open = 0;
    if (was_open)
        srt_listener_disconnected(s->client);
}

void srt_subscriber_free(srt_subscriber *s)
{
    srt_transport_destroy(s->transport);
    s->transport = NULL;
}

static void subscriber_lose(srt_subscriber *s)
{
    srt_subscriber_close(s);
    s->failures += s->failures < SUBSCRIBER_DOUBLED;
    s->retry_ms = srt_clock_ms() + ((int64_t)SUBSCRIBER_PAUSE_MS << s->failures);
}

/*
 * Of a cluster any master will do, because all give on every message: one that is connected, or after a failure
 * another. A node without slots is soon known no more.
 */
static void subscriber_aim(srt_subscriber *s)
{
    const srt_cluster *cl = &s->client->cluster;
    const srt_redis *p = cl->peers[s->turn++ % cl->peer_count];
    size_t i;
    if (!cl->many)
        return;
    for (i = 0; i < cl->peer_count && (p->away || p->slots == 0 || !p->commands.connected); i++)
        p = cl->peers[s->turn++ % cl->peer_count];
    s->at = p->number;
    srt_transport_aim(s->transport, p->host, p->port);
}

static void subscriber_connect(srt_subscriber *s)
{
    int status;
    if (!s->transport)
        s->transport = srt_transport_create(s->mem, s->url);
    if (!s->transport || (!s->connecting && srt_clock_ms() < s->retry_ms))
        return;
    if (!s->connecting)
        subscriber_aim(s);
    status =
        s->connecting ? srt_transport_step(s->transport) : srt_transport_connect(s->transport, SUBSCRIBER_CONNECT_MS);
    s->connecting = status == SERIATIM_AGAIN;
    s->open = status == SERIATIM_OK;
    if (s->open)
        status = srt_listener_connected(s->client, s->url->user, s->url->password, s->url->db);
    if (status != SERIATIM_OK && status != SERIATIM_AGAIN)
        subscriber_lose(s);
}

/* Is its node known no more? It may have left the cluster and live on, and then the connection stays and nothing comes.
 */
static int subscriber_is_outside(const srt_subscriber *s)
{
    const srt_cluster *cl = &s->client->cluster;
    size_t i;
    for (i = 0; i < cl->peer_count; i++)
        if (cl->peers[i]->number == s->at)
            return 0;
    return cl->many;
}

static int subscriber_write(srt_subscriber *s)
{
    srt_session *session = &s->client->listener.session;
    const char *data;
    size_t len, written;
    int status = SERIATIM_OK;
    if (srt_transport_wants(s->transport) & SERIATIM_WANT_WRITE)
        status = srt_transport_step(s->transport);
    for (srt_session_output(session, &data, &len); len && status == SERIATIM_OK;
         srt_session_output(session, &data, &len)) {
        status = srt_transport_write(s->transport, data, len, &written);
        if (status == SERIATIM_OK)
            srt_session_sent(session, written);
    }
    return status == SERIATIM_AGAIN ? SERIATIM_OK : status;
}

/* Reads everything, so that an operation that sleeps again is not woken by an old message. */
static void subscriber_exchange(srt_subscriber *s, char *input, size_t cap)
{
    seriatim_error why;
    size_t got;
    int status = subscriber_write(s);
    while (status == SERIATIM_OK) {
        status = srt_transport_read(s->transport, input, cap, &got);
        if (status == SERIATIM_OK)
            status = srt_listener_input(s->client, input, got, &why);
        if (status == SERIATIM_OK && s->client->listener.subscribed) {
            s->failures = 0;
            srt_transport_served(s->transport);
        }
    }
    if (status == SERIATIM_AGAIN)
        status = subscriber_write(s);
    if (status != SERIATIM_OK)
        subscriber_lose(s);
}

void srt_subscriber_step(srt_subscriber *s, char *input, size_t cap)
{
    if (s->open && subscriber_is_outside(s))
        srt_subscriber_close(s); /* the next step connects, because it may ask the resolver */
    else if (!s->open && srt_listener_wanted(s->client))
        subscriber_connect(s);
    if (s->open)
        subscriber_exchange(s, input, cap);
}

srt_transport *srt_subscriber_transport(const srt_subscriber *s)
{
    return s->open || s->connecting ? s->transport : NULL;
}

int64_t srt_subscriber_deadline(const srt_subscriber *s)
{
    return s->connecting ? srt_transport_deadline(s->transport) : INT64_MAX;
}
