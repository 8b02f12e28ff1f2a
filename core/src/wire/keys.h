/* keys.h - key names, hash tags, and the hash of an id from which seriatim_shard_of computes the shard. */
#ifndef SRT_KEYS_H
#define SRT_KEYS_H

#include "base/bytes.h"

#define SRT_SHARD_KINDS 14
#define SRT_QUEUE_KINDS 5
#define SRT_ICK_KINDS 6

/*
 * Among the KEYS of a script that writes is the guard: a key that never exists. While a Redis Cluster moves a slot, the
 * old master runs a script only if all of its declared keys are there, and the new one likewise. Without the guard the
 * script may run, and fail behind its first write at a key that is absent. A script of a shard is given the state, the
 * guard and, if its client counts its calls, the client's key; it names the other keys itself, because each key of a
 * call costs time. The scripts of a queue and of a set are given all.
 */
#define SRT_GUARD "-"
#define SRT_SHARD_KEYS 2
#define SRT_QUEUE_KEYS (SRT_QUEUE_KINDS + 1)
#define SRT_ICK_KEYS (SRT_ICK_KINDS + 1)
#define SRT_HEARTBEAT_KEYS 5

/* What the keys of a shard end with (core/scripts/lib/prelude.lua, keys.lua), the state first; then NULL. */
extern const char *const srt_shard_kinds[SRT_SHARD_KINDS + 1];
/* The same of the keys of a queue as a whole, in the order of core/scripts/client/layout.lua. */
extern const char *const srt_queue_kinds[SRT_QUEUE_KINDS + 1];
/* The same of a two-phase commit set, in the order of core/scripts/lib/ick_keys.lua. */
extern const char *const srt_ick_kinds[SRT_ICK_KINDS + 1];

uint32_t srt_crc32(const void *data, size_t len);

#define SRT_SLOTS 16384
/* The slot of a key in a Redis Cluster: CRC-16 of its hash tag, or of the whole key if it has none. */
unsigned srt_key_slot(const char *key, size_t len);

/*
 * Names are data: every byte outside [A-Za-z0-9_.:-] and beyond ASCII is written as %XX, so that a name can neither end
 * the hash tag nor be taken for another's.
 */
void srt_key_escape(srt_bytes *out, const char *name, size_t len);

/* NAMESPACE:{QUEUE/SHARD}: - what all keys of a shard begin with. */
void srt_key_shard(srt_bytes *out, const char *ns, const char *queue, size_t queue_len, unsigned shard);
/* NAMESPACE:{QUEUE}:layout */
void srt_key_layout(srt_bytes *out, const char *ns, const char *queue, size_t queue_len);
/* NAMESPACE:{QUEUE}:history */
void srt_key_history(srt_bytes *out, const char *ns, const char *queue, size_t queue_len);
/* NAMESPACE:{QUEUE}:run_times */
void srt_key_run_times(srt_bytes *out, const char *ns, const char *queue, size_t queue_len);
/* A pattern for SCAN that the keys of all layouts match; other keys may match, too. */
void srt_key_layouts(srt_bytes *out, const char *ns);
/* Appends the name of the queue whose layout key this is, decoded. INVALID: it is not the key of a layout. NOMEM. */
int srt_key_read_layout(srt_bytes *name, const char *ns, const char *key, size_t len);
/* NAMESPACE:wake:NODE, the channel that a node listens to. */
void srt_key_wake(srt_bytes *out, const char *ns, const char *node, size_t len);
/* NAMESPACE:{/nodes}:order:NODE */
void srt_key_order(srt_bytes *out, const char *ns, const char *node, size_t len);
/* The KEYS of heartbeat.lua for this node, as RESP bulk strings. */
void srt_key_heartbeat_args(srt_bytes *out, const char *ns, const char *node, size_t len);
/* NAMESPACE:{/NAME}:KIND, for what belongs to no queue: nodes, queues. */
void srt_key_global(srt_bytes *out, const char *ns, const char *name, const char *kind);

/* NAMESPACE:{/ick/NAME}: - what all keys of a two-phase commit set begin with. */
void srt_key_ick(srt_bytes *out, const char *ns, const char *name, size_t len);
/* The KEYS of a two-phase commit set as RESP bulk strings. */
void srt_key_ick_args(srt_bytes *out, const char *prefix, size_t len);

/* The KEYS of a queue as a whole as RESP bulk strings. */
void srt_key_queue_args(srt_bytes *out, const char *ns, const char *queue, size_t queue_len);
/* The KEYS of a shard as RESP bulk strings, ready to be copied into a command. */
void srt_key_shard_args(srt_bytes *out, const char *prefix, size_t len);

#endif
