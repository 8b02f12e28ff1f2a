/* warning.c - tells of settings that the code sets otherwise than Redis. */
#include "client/client.h"

static void list_differences(srt_bytes *text, const srt_queue *queue)
{
    static const char between[] = ", in the code ";
    srt_settings_differences(text, &queue->now, between, &queue->code);
    if (queue->shards_count == queue->own.shards_count)
        return;
    srt_bytes_adds(text, text->len > 0 ? "; shards_count: " : "shards_count: ");
    srt_bytes_add_int(text, queue->shards_count);
    srt_bytes_adds(text, between);
    srt_bytes_add_int(text, queue->own.shards_count);
}

/* Warns once for each setting of the code that differs from the one in Redis. */
void srt_client_warn(seriatim_client *c, srt_queue *queue)
{
    srt_bytes text;
    uint32_t difference;
    if (queue->own.assumed)
        return;
    srt_bytes_init(&text, c->mem);
    list_differences(&text, queue);
    if (text.len == 0 || text.failed) {
        srt_bytes_free(&text);
        return;
    }
    difference = srt_crc32(text.data, text.len);
    if (difference != queue->warned) {
        queue->warned = difference;
        c->warning.len -= c->warning.len > 0; /* behind that of another queue of a pipeline */
        srt_bytes_adds(&c->warning, c->warning.len > 0 ? "; queue \"" : "queue \"");
        srt_bytes_add(&c->warning, queue->name.data, queue->name.len);
        srt_bytes_adds(&c->warning,
                       "\" has other settings in Redis than in the code; the settings in Redis are used: ");
        srt_bytes_add(&c->warning, text.data, text.len);
        srt_bytes_addc(&c->warning, '\0');
    }
    srt_bytes_free(&text);
}

const char *seriatim_client_warning(seriatim_client *c)
{
    const char *text = c->warning.len && !c->warning.failed ? c->warning.data : NULL;
    c->warning.len = 0;
    return text;
}
