/* event.c - reads one event of an id's history as core/scripts/lib/events.lua packs it. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* gmtime_r */
#endif
#include "model/event.h"

#include <stdio.h>
#include <time.h>

/* What the number and the text of an event are. */
enum { EVENT_IS_DUE = 1, EVENT_IS_FENCE = 2, EVENT_IS_COUNT = 4, EVENT_HAS_NODE = 8, EVENT_HAS_ERROR = 16 };

static const struct {
    const char *name, *words; /* for programs, for readers */
    int holds;
} event_kinds[] = {
    /* clang-format off */
    /* definitions: events, written by script/embed from core/definitions/events.json */

    [SRT_EVENT_PUSHED] = {"pushed", "pushed", EVENT_IS_DUE},
    [SRT_EVENT_FOLDED] = {"folded", "pushed, and united with what waits", EVENT_IS_DUE},
    [SRT_EVENT_REFUSED] = {"refused", "a push was refused", 0},
    [SRT_EVENT_SCHEDULED] = {"scheduled", "pushed for later", EVENT_IS_DUE},
    [SRT_EVENT_ARRIVED] = {"arrived", "what was pushed for later has arrived", EVENT_IS_DUE},
    [SRT_EVENT_CLAIMED] = {"claimed", "claimed", EVENT_IS_FENCE | EVENT_HAS_NODE},
    [SRT_EVENT_DONE] = {"done", "done", EVENT_IS_FENCE},
    [SRT_EVENT_FAILED] = {"failed", "failed", EVENT_IS_DUE | EVENT_HAS_ERROR},
    [SRT_EVENT_BURIED] = {"buried", "buried in the morgue", EVENT_IS_COUNT | EVENT_HAS_ERROR},
    [SRT_EVENT_DROPPED] = {"dropped", "dropped, because its retries are used up", EVENT_HAS_ERROR},
    [SRT_EVENT_PARKED] = {"parked", "parked", EVENT_HAS_ERROR},
    [SRT_EVENT_UNPARKED] = {"unparked", "unparked", 0},
    [SRT_EVENT_REQUEUED] = {"requeued", "queued again out of the morgue", 0},
    [SRT_EVENT_DELETED] = {"deleted", "deleted", 0},
    [SRT_EVENT_DELETED_DEAD] = {"deleted_dead", "deleted out of the morgue", 0},
    [SRT_EVENT_CHECKPOINT] = {"checkpoint", "payloads were done by a checkpoint", EVENT_IS_COUNT},
    [SRT_EVENT_SNOOZED] = {"snoozed", "snoozed", EVENT_IS_DUE},
    [SRT_EVENT_RETURNED] = {"returned", "its run was handed back", 0},
    [SRT_EVENT_RECOVERED] = {"recovered", "the process that ran it died", 0},
    [SRT_EVENT_OVERRUN] = {"overrun", "its run took longer than ttr", 0},
    [SRT_EVENT_CANCELLED] = {"cancelled", "a payload was removed", 0},
    [SRT_EVENT_RESCHEDULED] = {"rescheduled", "a payload got another time", EVENT_IS_DUE},
    [SRT_EVENT_DUE_NOW] = {"due_now", "made due by an operator", 0},
    [SRT_EVENT_STALE] = {"stale", "refused or removed, because the score was not above that of a run that was done", EVENT_IS_COUNT},
    [SRT_EVENT_POPPED] = {"popped", "popped", EVENT_IS_FENCE},

    /* end of definitions */
    /* clang-format on */
};

#define EVENT_LARGEST 9e15 /* of a number that is a time, a fence or a count */

/* "2026-03-01T12:00:00.000Z words by node N under fence 7, due 60.0 s later, payloads: 3" */
static const char *event_text(const seriatim_history_entry *entry, const char *words, srt_arena *arena)
{
    time_t seconds = (time_t)entry->at;
    int millis = (int)((entry->at - (double)seconds) * 1000), len;
    char text[512], when[48];
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || !strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm))
        when[0] = '\0';
    len = snprintf(text, sizeof text, "%s.%03dZ %s", when, millis, words);
    if (*entry->node)
        len += snprintf(text + len, sizeof text - (size_t)len, " by node %.256s", entry->node);
    if (entry->fence)
        len += snprintf(text + len, sizeof text - (size_t)len, " under fence %lld", (long long)entry->fence);
    if (entry->due > 0) {
        double later = entry->due > entry->at ? entry->due - entry->at : 0;
        long long tenths = (long long)(later * 10 + 0.5);
        len += snprintf(text + len, sizeof text - (size_t)len, ", due %lld.%lld s later", tenths / 10, tenths % 10);
    }
    if (entry->payloads)
        len += snprintf(text + len, sizeof text - (size_t)len, ", payloads: %lld", (long long)entry->payloads);
    return srt_arena_copy(arena, text, (size_t)len);
}

/* What the number and the text of an event are, by its kind. */
static int event_take(seriatim_history_entry *entry, srt_arena *arena, double number, const char *text, size_t len,
                      int holds)
{
    entry->due = holds & EVENT_IS_DUE ? number / 1e6 : 0;
    entry->fence = holds & EVENT_IS_FENCE ? (int64_t)number : 0;
    entry->payloads = holds & EVENT_IS_COUNT ? (int64_t)number : 0;
    if (holds & EVENT_HAS_ERROR) {
        entry->error = text;
        entry->error_len = len;
    }
    if (holds & EVENT_HAS_NODE)
        entry->node = srt_arena_copy(arena, text, len);
    return entry->node ? SERIATIM_OK : SERIATIM_NOMEM;
}

int srt_event_read(seriatim_history_entry *entry, srt_arena *arena, const char *data, size_t len)
{
    static const seriatim_history_entry blank = {
        .text = "an event that this version cannot read", .event = "unknown", .node = "", .error = ""};
    unsigned kind = len ? (unsigned char)data[0] : 0;
    double at, number;
    *entry = blank;
    if (len < SRT_EVENT_HEAD)
        return SERIATIM_OK;
    at = srt_little_double(data + 1);
    number = srt_little_double(data + 9);
    if (!(at >= 0 && at <= EVENT_LARGEST && number >= 0 && number <= EVENT_LARGEST))
        return SERIATIM_OK;
    entry->at = at / 1e6;
    if (kind >= sizeof event_kinds / sizeof *event_kinds || !event_kinds[kind].name)
        return SERIATIM_OK;
    entry->event = event_kinds[kind].name;
    if (event_take(entry, arena, number, data + SRT_EVENT_HEAD, len - SRT_EVENT_HEAD, event_kinds[kind].holds) !=
        SERIATIM_OK)
        return SERIATIM_NOMEM;
    entry->text = event_text(entry, event_kinds[kind].words, arena);
    return entry->text ? SERIATIM_OK : SERIATIM_NOMEM;
}
