/*
 * mover.h - moves the ids of a shard to the shards where they belong by the new number of shards: mover.c decides what
 * is done next, mover_batch.c moves a batch, mover_end.c ends the move.
 *
 * The node has a mover for each shard that it owns and that ids leave. A batch is at most 100 ids, all of one
 * destination unless another mover opened it; only one mover of a node works at a time. Nothing is remembered that the
 * next owner of the shard would need: a mover begins by asking for an open batch.
 *
 * An id that runs is flagged, and stands still from the end of its run until it has moved. So the mover looks for such
 * ids every few milliseconds, also while it rests, and takes them, whatever their destinations.
 */
#ifndef SRT_MOVER_H
#define SRT_MOVER_H

#include "node/node_state.h"

#define SRT_MOVE_NUMBER 24       /* bytes of a number as text, NUL included */
#define SRT_MOVE_RETRY_MS 20     /* after a lost connection; the first after a refusal, then it doubles */
#define SRT_MOVE_REFUSED_MS 1000 /* pause after an error that another layout does not explain */

typedef enum srt_move_step {
    SRT_MOVE_ASK,       /* is a batch open? */
    SRT_MOVE_SCAN,      /* which ids are to leave? */
    SRT_MOVE_CATCH,     /* opens a batch of ids whose run has ended since they were to leave */
    SRT_MOVE_OPEN,      /* opens a batch */
    SRT_MOVE_OPENED,    /* are the replicas told of it? */
    SRT_MOVE_SLICE_OUT, /* reads payloads that lie outside of the parts */
    SRT_MOVE_SLICE_IN,  /* and writes them */
    SRT_MOVE_ARRIVE,
    SRT_MOVE_ARRIVED, /* are the replicas told of it? */
    SRT_MOVE_DEPARTED,
    SRT_MOVE_TICK, /* nothing is to leave: which tick has the shard? */
    SRT_MOVE_LIFT, /* no destination is to have a lower one */
    SRT_MOVE_LIFTED,
    SRT_MOVE_OUT, /* says that nothing is to leave */
    SRT_MOVE_IS_OUT,
    SRT_MOVE_REST, /* waits for the others; the mover of shard 0 asks them, another one of its own shard */
    SRT_MOVE_POLL,
    SRT_MOVE_POLLED,
    SRT_MOVE_END
} srt_move_step;

/* An id, and what belongs to it: extra of foreign.lua, or a part and letters of depart.lua. */
typedef struct srt_move_id {
    struct srt_move_id *next;
    unsigned target;
    size_t id_len, part_len, letters_len; /* in this order behind the struct */
} srt_move_id;

struct srt_mover {
    srt_layout layout;
    int finishes; /* only brings an open batch of an earlier layout to its end */
    srt_move_step step;
    int asking;          /* the answer to the step's request has not come */
    int64_t serial;      /* of that request */
    int64_t at;          /* when the step is done; nothing before */
    int pause_ms;        /* after a refusal */
    srt_written written; /* what the replicas are to have */

    /* The scan. */
    size_t kind;      /* what is looked through; after the last one the scan has ended */
    srt_bytes cursor; /* where it goes on; empty: at the first id of this kind */
    char mark[SRT_MOVE_NUMBER];
    srt_written scanned;          /* the connection on which it began */
    int64_t scan_asked, scan_ms;  /* when its last call was sent, and how long its calls have taken */
    int64_t unrested_ms;          /* of them, since the mover has rested */
    int has_moved;                /* a batch of what it has found has left */
    int has_broken;               /* an id that it has found stays, because its record is broken */
    int64_t broken_told;          /* when that is said again */
    size_t listed;                /* ids that it has found */
    srt_move_id **found;          /* of each destination: ids that no batch has taken */
    unsigned *found_counts;       /* their number */
    size_t found_total, scanning; /* scanning: 1 behind the first call of a scan */

    /* The batch. */
    srt_move_id *sent; /* ids that it was to have, until it is open */
    srt_move_id *batch;
    char sequence[SRT_MOVE_NUMBER], tick[SRT_MOVE_NUMBER];
    srt_bytes about;     /* what each destination is told of the shard: a part of depart.lua */
    unsigned target;     /* whose ids arrive now */
    srt_move_id *sliced; /* whose payloads are copied; NULL: those of the target are */
    size_t letter;       /* of sliced */
    char place[SRT_MOVE_NUMBER], next_place[SRT_MOVE_NUMBER];
    srt_bytes slice;
    int64_t opened_at;
    int has_slices;
    int missing;        /* how often payloads of it were missing at the arrival */
    int64_t cost_us;    /* of Redis, about: of a batch without slices */
    int caught;         /* it was opened by SRT_MOVE_CATCH */
    int64_t catch_at;   /* when such ids are looked for again */
    int catch_pause_ms; /* behind that */
    unsigned limit;     /* ids of the next batch */

    unsigned asked; /* shard that is told the tick, or asked whether it is out */
};

/* What mover.c does for the files that it calls. */
struct srt_move_table {
    void (*send)(srt_node *node, srt_shard *shard, int64_t now);   /* does the step */
    void (*choose)(srt_node *node, srt_shard *shard, int64_t now); /* what follows a batch, or a slice of the scan */
    void (*sure)(srt_node *node, srt_shard *shard, int64_t now);   /* the replicas have what the step has written */
};

/* mover_steps.c */
const char *srt_move_id_bytes(const srt_move_id *id);
const char *srt_move_part(const srt_move_id *id);
const char *srt_move_letters(const srt_move_id *id);
/* NULL: out of memory. part and letters may be NULL. */
srt_move_id *srt_move_id_new(srt_node *node, unsigned target, const srt_token *id, const srt_token *part,
                             const srt_token *letters);
void srt_move_id_free(srt_node *node, srt_move_id *id);

/* Starts a request of the mover's step to the shard with this number. NULL: out of memory, or no such shard. */
srt_request *srt_move_request(srt_node *node, srt_shard *shard, unsigned number, int script);
/* Sends it; NULL is not sent, and the step is tried again. */
void srt_move_send(srt_node *node, srt_shard *shard, srt_request *request, int64_t now);
/* The next step is done at once, or when its time has come. */
void srt_move_go(srt_node *node, srt_shard *shard, srt_move_step step, int64_t now);
/* Begins anew: a batch that is open will be found. */
void srt_move_anew(srt_node *node, srt_shard *shard, int64_t pause_ms, int64_t now);
/* The mover sends nothing for rest_ms, so that jobs and other movers get their turn. */
void srt_move_rest(srt_node *node, srt_shard *shard, int64_t rest_ms, int64_t now);
/*
 * The same behind what took so long: eight times as long if jobs of the node have ended since it did so last, or else
 * not at all. In a move most jobs are of other shards than those that ids leave.
 */
void srt_move_rest_behind(srt_node *node, srt_shard *shard, int64_t took_ms, int64_t now);
/* Asks whether the replicas have what this answer has told; then the step is done. */
void srt_move_make_sure(srt_node *node, srt_shard *shard, srt_move_step step, int64_t now);
void srt_move_take_sure(srt_node *node, srt_shard *shard, srt_sure sure, int64_t now);
/* Keeps the tick of an answer of depart.lua, and what destinations are told of the shard. OK, PROTOCOL or NOMEM. */
int srt_move_take_source(srt_mover *mover, const srt_reply *reply);
/* Begins the request that says this to a destination; NULL as srt_move_request. sequence "0": no batch follows. */
srt_request *srt_move_arrive_request(srt_node *node, srt_shard *shard, unsigned number, const char *sequence);
/* An id waits to leave. */
void srt_move_keep(srt_mover *mover, srt_move_id *id);
void srt_move_drop_found(srt_node *node, srt_mover *mover);
void srt_move_scan_begin(srt_mover *mover);
/* Did the answer tell a list of texts and numbers of this length at least? If not, the mover begins anew. */
int srt_move_is_list(srt_node *node, srt_shard *shard, const srt_reply *reply, size_t count, int64_t now);

/* mover_batch.c */
/* Is the mover's step lost with the connection of the step before? */
int srt_move_is_bound(const srt_node *node, const srt_mover *mover);
void srt_move_batch_send(srt_node *node, srt_shard *shard, int64_t now);
void srt_move_batch_answered(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_move_opened(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_move_bring(srt_node *node, srt_shard *shard, int64_t now);   /* the replicas have the departure */
void srt_move_arrived(srt_node *node, srt_shard *shard, int64_t now); /* the replicas have the arrival */
void srt_move_drop_batch(srt_node *node, srt_mover *mover);

/* mover_end.c */
void srt_move_end_send(srt_node *node, srt_shard *shard, int64_t now);
void srt_move_end_answered(srt_node *node, srt_shard *shard, const srt_reply *reply, int64_t now);
void srt_move_end_sure(srt_node *node, srt_shard *shard, int64_t now);

#endif
