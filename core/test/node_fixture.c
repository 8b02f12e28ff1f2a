/* node_fixture.c - see node_fixture.h. */
#include "node_fixture.h"

#include <string.h>

seriatim_node_settings node_of_one_thread(const char *id)
{
    seriatim_node_settings settings;
    memset(&settings, 0, sizeof settings);
    settings.id = id;
    settings.lease_ms = 10000;
    settings.poll_ms = 1000;
    settings.threads = 1;
    return settings;
}

seriatim_queue_settings queue_q(void)
{
    seriatim_queue_settings q;
    seriatim_queue_settings_init(&q);
    q.name = "Q";
    q.name_len = 1;
    return q;
}
