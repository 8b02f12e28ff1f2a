/* seriatim_native.h - what the files of this glue share: convert, call, convert; no rule of the queue lives here. */
#ifndef SERIATIM_NATIVE_H
#define SERIATIM_NATIVE_H

#include <ruby.h>
#include <ruby/encoding.h>
#include <ruby/io.h>
#include <ruby/thread.h>

#include "seriatim/binding.h"

/* Seriatim::Native, registered with the collector. */
extern VALUE srb_native;

/* How often the process forked on the way here from the one that loaded the library: equal numbers, same process. */
unsigned long srb_generation(void);

/* Raises the class that Seriatim::Native.error has for the status. */
NORETURN(void srb_raise(int status, const char *message));
NORETURN(void srb_invalid(VALUE message));
NORETURN(void srb_raise_error(const seriatim_error *error));
VALUE srb_error(const seriatim_error *error); /* as an exception; nil for OK */

/* A String that holds the bytes: UTF-8 when they are valid UTF-8, else binary. */
VALUE srb_text(const char *bytes, size_t len);
/* A binary String. */
VALUE srb_bytes(const char *bytes, size_t len);

/*
 * Keeps what is in the Arrays where it is, until rb_free_tmp_buffer(buffer): a collection may move what only an Array
 * refers to, a short String together with its bytes.
 */
void srb_pin(VALUE *buffer, int count, const VALUE *arrays);

/* A Hash of a queue's settings by name (Symbols), which keeps the texts; what is missing or nil is the default. */
void srb_queue_settings(VALUE hash, seriatim_queue_settings *settings);

/* Writes many values as canonical JSON, one after another. Must be closed, also after a raise. */
typedef struct srb_json_writer {
    srt_json_writer writer;
    srt_bytes out; /* the latest value's bytes */
    VALUE refused; /* the rule that was broken, or nil */
} srb_json_writer;

void srb_json_open_writer(srb_json_writer *writer);
/*
 * 0: the value cannot be written, and srb_json_refuse raises why; `root` is what the path in the message begins with.
 */
int srb_json_write(srb_json_writer *writer, VALUE value);
NORETURN(void srb_json_refuse(srb_json_writer *writer, const char *root));
void srb_json_close_writer(srb_json_writer *writer);

/* Reads many JSON texts, one after another. Must be closed, also after a raise. */
typedef struct srb_json_reader {
    srt_json_reader reader;
    srt_json_token token;
} srb_json_reader;

void srb_json_open(srb_json_reader *reader);
/* What the text says; raises the class of :UNDECODABLE. The bytes are only read during the call. */
VALUE srb_json_read(srb_json_reader *reader, const char *bytes, size_t len);
void srb_json_close(srb_json_reader *reader);

/* Waits, at most timeout_ms, for fd (-1: none) to become ready for SERIATIM_WANT_* bits. May raise. */
void srb_wait(int fd, int wants, int timeout_ms);

/*
 * Calls f(p) without the interpreter's lock; with it while an interrupt of the thread is pending, which stays so.
 * Raises nothing: for what must be done.
 */
void srb_without_lock(void (*f)(void *), void *p);

/* [id, fence, retry_count, perform_in, error or nil, [[bytes, score, context or nil], ...], payload_total] */
VALUE srb_claimed(const seriatim_claimed *job);
/* The handle of each of its payloads. queue: the name, a String. */
VALUE srb_claimed_handles(const seriatim_claimed *job, VALUE queue);

void srb_init_definitions(void);
void srb_init_json(void);
void srb_init_policy(void);
void srb_init_link(void);
void srb_init_jobs(void);
void srb_init_runner(void);
void srb_init_private_redis(void);
void srb_init_fake(void);

#endif
