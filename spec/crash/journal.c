/* journal.c - one write a line, each begun with its own newline: see kit/journal.rb. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "journal.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int journal = -1;

int journal_open(void)
{
    const char *path = getenv("JOURNAL");
    journal = path ? open(path, O_WRONLY | O_APPEND | O_CREAT, 0644) : -1;
    return journal < 0 ? -1 : 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void line(const char *format, ...)
{
    char text[8192];
    va_list args;
    int len;
    va_start(args, format);
    len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0 || len >= (int)sizeof text || write(journal, text, (size_t)len) != len) {
        fprintf(stderr, "the journal cannot be written\n");
        exit(1);
    }
}

const char *journal_find(const char *data, size_t len, const char *word)
{
    size_t size = strlen(word), at;
    for (at = 0; at + size <= len; at++)
        if (memcmp(data + at, word, size) == 0)
            return data + at + size;
    return NULL;
}

static long number_of(const seriatim_payload *payload)
{
    const char *word = journal_find(payload->data, payload->len, "\"n\":");
    return word ? strtol(word, NULL, 10) : -1;
}

/* 1, 2, 3, 7 as 1-3,7. */
static void pack(const seriatim_claimed *job, char *text, size_t cap)
{
    size_t i = 0, len = 0;
    while (i < job->payload_count && len < cap) {
        long first = number_of(&job->payloads[i]), last = first;
        while (++i < job->payload_count && number_of(&job->payloads[i]) == last + 1)
            last++;
        len +=
            (size_t)snprintf(text + len, cap - len, last > first ? "%s%ld-%ld" : "%s%ld", len ? "," : "", first, last);
    }
}

void journal_start(const char *queue, const seriatim_claimed *job)
{
    char numbers[4096] = "";
    pack(job, numbers, sizeof numbers);
    line("\nstart %ld %s %.*s %lld %lld %s %.6f .", (long)getpid(), queue, (int)job->id_len, job->id,
         (long long)job->fence, (long long)job->retry_count, numbers, now());
}

void journal_end(const char *kind, const char *queue, const seriatim_claimed *job)
{
    line("\n%s %ld %s %.*s %lld %.6f .", kind, (long)getpid(), queue, (int)job->id_len, job->id, (long long)job->fence,
         now());
}

void journal_task(const char *kind, const char *queue, const seriatim_claimed *job, const seriatim_payload *payload)
{
    line("\n%s %ld %s %.*s %lld %ld %.6f .", kind, (long)getpid(), queue, (int)job->id_len, job->id,
         (long long)job->fence, number_of(payload), now());
}

void journal_popper(double ttr)
{
    line("\npopper %ld %g .", (long)getpid(), ttr);
}

void journal_pushed(const char *queue, const char *id, long number)
{
    line("\npushed %s %s %ld .", queue, id, number);
}
