/* read_layout.c - an operation that only reads the layout of a queue, or creates the queue. */
#include "client/client.h"

static int layout_send(seriatim_client *c, srt_queue *queue)
{
    (void)c;
    (void)queue;
    return SERIATIM_OK;
}

static int layout_on_reply(seriatim_client *c, srt_request *request, const srt_reply *reply)
{
    (void)c;
    (void)request;
    (void)reply;
    return SERIATIM_OK;
}

int seriatim_layout_begin(seriatim_client *c, size_t queue)
{
    static const srt_operation operation = {.fresh = 1, .creates = 1, .send = layout_send, .on_reply = layout_on_reply};
    int status = srt_client_begin(c);
    return status == SERIATIM_OK ? srt_client_start(c, &operation, queue) : status;
}
