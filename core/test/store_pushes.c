/* store_pushes.c - pushes that claim for a sleeping owner, in the model of Redis; their messages come, or late, or
 * never. */
#include "store_parts.h"

#include <stdio.h>
#include <string.h>

static size_t runs_of(const store *s, const store_shard *sh)
{
    size_t runs = 0, i;
    for (i = 0; i < s->id_count; i++)
        runs += s->ids[i].shard == sh && s->ids[i].running;
    return runs;
}

/* A push with a score has options. */
static int may_hand_over(store *s, const store_id *id)
{
    const store_shard *sh = id->shard;
    return s->hands_over && !store_is_scored(s, id) && runs_of(s, sh) < sh->window && sh->wake > s->now_us &&
           !sh->paused && !store_is_unfinished(s, sh) && !store_first_in(s, sh, 3, 1) && !store_first_in(s, sh, 3, 2);
}

static void message_of(const store *s, const store_id *id, int64_t fence, int64_t previous, srt_bytes *text)
{
    srt_bytes_addc(text, '=');
    srt_bytes_adds(text, id->shard->prefix);
    store_pack_double(text, (double)fence);
    store_pack_double(text, (double)previous);
    store_pack_little(text, id->len, 2);
    srt_bytes_add(text, id->name, id->len);
    store_pack_record(text, &id->first, store_is_scored(s, id));
}

static void keep_late(store *s, const char *channel, const srt_bytes *text)
{
    store_late *late = &s->late[s->late_count++];
    late->at_us = s->now_us + 1000 + (int64_t)store_random(s, 60000);
    snprintf(late->channel, sizeof late->channel, "%s", channel);
    memcpy(late->text, text->data, text->len);
    late->len = text->len;
    s->late_messages++;
}

static int is_subscribed(const store *s, const char *channel)
{
    const store_conn *c;
    int i;
    for (c = s->conns; c; c = c->next)
        for (i = 0; i < c->channel_count; i++)
            if (strcmp(c->channels[i], channel) == 0)
                return 1;
    return 0;
}

/* Does Redis say that somebody is subscribed? Whether the message arrives is another matter. */
static int send_message(store *s, const char *channel, const srt_bytes *text)
{
    if (!is_subscribed(s, channel))
        return 0;
    if (store_chance(s, s->lost_ppm))
        s->lost_messages++;
    else if (s->late_count < STORE_LATE && text->len <= sizeof s->late[0].text && store_chance(s, s->late_ppm))
        keep_late(s, channel, text);
    else
        store_publish(s, channel, text->data, text->len);
    return 1;
}

void store_send_late(store *s)
{
    size_t i, left = 0;
    for (i = 0; i < s->late_count; i++) {
        store_late *late = &s->late[i];
        if (late->at_us <= s->now_us)
            store_publish(s, late->channel, late->text, late->len);
        else
            s->late[left++] = *late;
    }
    s->late_count = left;
}

int store_hand_over(store *s, store_id *id, int64_t stamp)
{
    store_shard *sh = id->shard;
    int64_t previous = sh->claimed, fence;
    char channel[160];
    srt_bytes text;
    int heard;
    if (!may_hand_over(s, id))
        return 0;
    store_add_payload(&id->first, id->pushed++, stamp);
    fence = store_advance(s, sh);
    store_wake_channel(sh, channel, sizeof channel);
    srt_bytes_init(&text, seriatim_default_allocator());
    message_of(s, id, fence, previous, &text);
    heard = send_message(s, channel, &text);
    srt_bytes_free(&text);
    if (!heard)
        s->unheard++;
    if (!heard && !s->claims_unheard) {
        store_wake_owner(s, sh, 0);
        return 1;
    }
    if (id->open)
        store_violated(s, "%s: claimed by a push while a run is open", id->name);
    sh->claimed = fence;
    id->running = id->whole = 1;
    id->spread = 0;
    id->handed_over = 1;
    id->digit = '0';
    id->mode = 'n';
    id->fence = id->open = fence;
    id->overrun = 0;
    s->handed_over++;
    return 1;
}
