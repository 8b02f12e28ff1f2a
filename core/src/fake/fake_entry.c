/* fake_entry.c - payloads of the queues in memory, and lists of them. */
#include "fake/fake.h"

#include <string.h>

static size_t fake_entry_size(size_t payload_len, size_t context_len)
{
    return sizeof(srt_fake_entry) + payload_len + context_len;
}

static void fake_put(char *at, seriatim_text text)
{
    if (text.len)
        memcpy(at, text.data, text.len);
}

srt_fake_entry *srt_fake_entry_new(const seriatim_allocator *mem, const srt_fake_entry *like, seriatim_text payload,
                                   seriatim_text context)
{
    srt_fake_entry *entry = srt_alloc(mem, fake_entry_size(payload.len, context.len));
    if (!entry)
        return NULL;
    *entry = *like;
    entry->payload = (char *)(entry + 1);
    entry->payload_len = payload.len;
    fake_put(entry->payload, payload);
    entry->context = entry->payload + payload.len;
    entry->context_len = context.len;
    fake_put(entry->context, context);
    return entry;
}

srt_fake_entry *srt_fake_entry_copy(const seriatim_allocator *mem, const srt_fake_entry *entry)
{
    seriatim_text payload = {entry->payload, entry->payload_len}, context = {entry->context, entry->context_len};
    return srt_fake_entry_new(mem, entry, payload, context);
}

void srt_fake_entry_free(const seriatim_allocator *mem, srt_fake_entry *entry)
{
    if (entry)
        srt_free(mem, entry, fake_entry_size(entry->payload_len, entry->context_len));
}

int srt_fake_entry_compare(const srt_fake_entry *a, const srt_fake_entry *b)
{
    if (a->score < b->score || a->score > b->score)
        return a->score < b->score ? -1 : 1;
    return (a->stamp > b->stamp) - (a->stamp < b->stamp);
}

int srt_fake_entry_equal(const srt_fake_entry *a, const srt_fake_entry *b)
{
    return a->payload_len == b->payload_len && memcmp(a->payload, b->payload, a->payload_len) == 0;
}

int srt_fake_entries_add(const seriatim_allocator *mem, srt_fake_entries *list, srt_fake_entry *entry)
{
    void *items = list->items;
    if (srt_grow(mem, &items, &list->cap, list->count + 1, sizeof *list->items) != SERIATIM_OK) {
        srt_fake_entry_free(mem, entry);
        return SERIATIM_NOMEM;
    }
    list->items = items;
    list->items[list->count++] = entry;
    return SERIATIM_OK;
}

srt_fake_entry *srt_fake_entries_take(srt_fake_entries *list, size_t at)
{
    srt_fake_entry *entry = list->items[at];
    list->count--;
    memmove(list->items + at, list->items + at + 1, (list->count - at) * sizeof *list->items);
    return entry;
}

void srt_fake_entries_drop(const seriatim_allocator *mem, srt_fake_entries *list, size_t at)
{
    srt_fake_entry_free(mem, srt_fake_entries_take(list, at));
}

void srt_fake_entries_free(const seriatim_allocator *mem, srt_fake_entries *list)
{
    size_t i;
    for (i = 0; i < list->count; i++)
        srt_fake_entry_free(mem, list->items[i]);
    srt_free(mem, list->items, list->cap * sizeof *list->items);
    memset(list, 0, sizeof *list);
}

/* By insertion: payloads mostly lie in their order already, that of their arrival. */
void srt_fake_entries_sort(srt_fake_entries *list)
{
    size_t i, at;
    for (i = 1; i < list->count; i++) {
        srt_fake_entry *entry = list->items[i];
        for (at = i; at > 0 && srt_fake_entry_compare(list->items[at - 1], entry) > 0; at--)
            list->items[at] = list->items[at - 1];
        list->items[at] = entry;
    }
}

size_t srt_fake_entries_find(const srt_fake_entries *list, double stamp)
{
    size_t i;
    for (i = 0; i < list->count; i++)
        if (!(list->items[i]->stamp < stamp || list->items[i]->stamp > stamp))
            return i;
    return list->count;
}
