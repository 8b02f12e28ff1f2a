/* handle.h - the text that names one pushed payload for as long as it is there. */
#ifndef SRT_HANDLE_H
#define SRT_HANDLE_H

#include "client/client.h"
#include "seriatim/binding/handle.h"

/* base64url without padding: of how many characters, and they, of some bytes. */
size_t srt_text64_size(size_t len);
void srt_text64_write(char *out, const char *data, size_t len);
/*
 * Decodes base64url into `out`, which has room for as many bytes as the text has. Returns the number of bytes, or 0 if
 * the text is not base64url.
 */
size_t srt_text64_read(seriatim_text text, char *out);

/*
 * A handle is base64url without padding of: a byte (2: the push gave the payload a score, else 1), the arrival as 8
 * bytes >d, the length of the queue's name as two bytes, the greater first, that name, the id. Nine bytes are twelve
 * characters, so the arrival is filled in later than the rest.
 */
size_t srt_handle_size(size_t queue_len, size_t id_len);
/* Writes srt_handle_size bytes, without the arrival. */
void srt_handle_write(char *out, seriatim_text queue, const char *id, size_t id_len);
/* Fills in the first bytes. */
void srt_handle_arrive(char *out, int scored, double arrival);

/* What a handle says; `stamp` has 8 bytes. */
typedef struct srt_handle {
    int scored;
    const char *stamp;
    seriatim_text queue, id;
} srt_handle;

/* Its texts lie in the arena. OK; INVALID: the text is no handle; NOMEM. */
int srt_handle_read(srt_arena *memory, seriatim_text text, srt_handle *handle);
/* The same; also INVALID if the handle is of another queue. c->error says why. */
int srt_handle_check(seriatim_client *c, srt_arena *memory, const srt_queue *queue, seriatim_text text,
                     srt_handle *handle);
/* The Unix time of reschedule, a decimal text: *at becomes its seconds. OK, or INVALID, as c->error says. */
int srt_handle_read_time(seriatim_client *c, seriatim_text text, double *at);

#endif
