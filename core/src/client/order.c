/* order.c - asks a living node to be quiet or to stop. */
#include "client/operator.h"
#include "seriatim/binding/names.h"

#include <string.h>

typedef struct order_state {
    srt_bytes node;
    int order, found;
} order_state;

static void order_release(seriatim_client *c)
{
    order_state *o = c->state;
    srt_bytes_free(&o->node);
    srt_free(c->mem, o, sizeof *o);
}

static int order_send(seriatim_client *c, srt_queue *queue)
{
    const order_state *o = c->state;
    const char *ns = c->registry.ns.data;
    srt_request *r = srt_nodes_request(c, srt_script_order);
    srt_bytes text;
    (void)queue;
    if (!r)
        return SERIATIM_NOMEM;
    srt_bytes_init(&text, c->mem);
    srt_key_order(&text, ns, o->node.data, o->node.len);
    srt_request_arg(r, text.data, text.len);
    r->keys++;
    srt_request_arg(r, o->node.data, o->node.len);
    srt_request_text(r, seriatim_order_name(o->order));
    r->tail.failed |= text.failed;
    srt_bytes_clear(&text);
    srt_key_wake(&text, ns, o->node.data, o->node.len);
    srt_request_arg(r, text.data, text.len);
    r->tail.failed |= text.failed;
    srt_bytes_free(&text);
    return srt_client_send(c, r);
}

static int order_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    order_state *o = c->state;
    (void)r;
    if (reply->tokens[0].type != SRT_INTEGER)
        return srt_operator_protocol(c, "order");
    o->found = srt_token_int(&reply->tokens[0]) == 1;
    return SERIATIM_OK;
}

int seriatim_order_begin(seriatim_client *c, const char *node, size_t len, int order)
{
    static const srt_operation operation = {.send = order_send, .on_reply = order_on_reply, .release = order_release};
    order_state *o;
    int status = srt_client_begin(c);
    if (status != SERIATIM_OK)
        return status;
    if (order <= SERIATIM_ORDER_NONE || order > SERIATIM_ORDERS_COUNT)
        return srt_fail(&c->error, SERIATIM_INVALID, "there is no node command with the number %d", order);
    if (len && !node)
        return srt_fail(&c->error, SERIATIM_INVALID, "the id of the node is missing");
    o = srt_operator_state(c, sizeof *o);
    if (!o)
        return SERIATIM_NOMEM;
    o->order = order;
    srt_bytes_init(&o->node, c->mem);
    srt_bytes_add(&o->node, node, len);
    c->state = o;
    if (o->node.failed) {
        order_release(c);
        c->state = NULL;
        return srt_fail_plain(&c->error, SERIATIM_NOMEM);
    }
    return srt_client_start_alone(c, &operation);
}

int seriatim_order_result(const seriatim_client *c)
{
    return c->operation && c->operation->send == order_send && ((const order_state *)c->state)->found;
}
