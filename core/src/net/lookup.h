/* lookup.h - looks up a host name on a thread of its own, because getaddrinfo blocks, and nothing can interrupt it. */
#ifndef SRT_LOOKUP_H
#define SRT_LOOKUP_H

#include <netdb.h>

typedef struct srt_lookup srt_lookup;

/* hints->ai_flags, ai_family and ai_socktype are used. NULL: there is no memory, descriptor or thread for it. */
srt_lookup *srt_lookup_begin(const char *host, const char *port, const struct addrinfo *hints);
/* Becomes readable when the look-up ends. */
int srt_lookup_fd(const srt_lookup *l);
int srt_lookup_has_ended(const srt_lookup *l);
/* After its end: what getaddrinfo has returned and found, which the caller frees by freeaddrinfo. Frees the look-up. */
int srt_lookup_take(srt_lookup *l, struct addrinfo **found);
/* Before its end: frees it when it has ended. NULL is fine. */
void srt_lookup_abandon(srt_lookup *l);

#endif
