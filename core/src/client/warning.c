/* warning.c - tells of settings that the code sets otherwise than Redis. */
#include "client/client.h"

/* Warns once for each setting of the code that differs from the one in Redis. */
void srt_client_warn(seriatim_client *c, srt_queue *queue)
{
    srt_bytes text;
    uint32_t difference;
    if (queue->own.assumed)
        return;
    srt_bytes_init(&text, c->mem);
    if (srt_settings_differences(&text, &queue->now, ", in the code ", &queue->code) == 0 || text.failed) {
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
