/* nodes.c - the living nodes. */
#include "client/operator.h"

#include <math.h>
#include <string.h>

typedef struct nodes_state {
    srt_arena memory;
    seriatim_living_node *nodes;
    size_t count;
} nodes_state;

srt_request *srt_nodes_request(seriatim_client *c, int script)
{
    srt_request *r = srt_session_begin(srt_cluster_pool(&c->cluster), script, NULL, 0);
    static const char *const kinds[] = {"alive", "info"};
    srt_bytes key;
    size_t i;
    int failed = !r;
    srt_bytes_init(&key, c->mem);
    for (i = 0; r && i < 2; i++) {
        srt_bytes_clear(&key);
        srt_key_global(&key, c->registry.ns.data, "nodes", kinds[i]);
        failed |= key.failed;
        srt_request_arg(r, key.data, key.len);
    }
    srt_bytes_free(&key);
    if (failed) {
        if (r)
            srt_cluster_done(&c->cluster, r);
        srt_operator_nomem(c);
        return NULL;
    }
    r->keys = 2;
    return r;
}

int srt_nodes_ask(seriatim_client *c, int kind)
{
    srt_request *r = srt_nodes_request(c, srt_script_nodes);
    if (!r)
        return SERIATIM_NOMEM;
    r->kind = kind;
    return srt_client_send(c, r);
}

static int nodes_send(seriatim_client *c, srt_queue *queue)
{
    (void)queue;
    return srt_nodes_ask(c, 0);
}

/* A node describes itself by a letter and the checksums of its queues, in front of the first ';' or '|' (node.c). */
int srt_node_serves(const srt_token *description, const srt_bytes *name)
{
    uint32_t crc = srt_crc32(name->data, name->len);
    char text[10] = " ";
    size_t i, end = 0;
    for (i = 0; i < 8; i++)
        text[i + 1] = "0123456789abcdef"[(crc >> (28 - 4 * i)) & 15];
    while (end < description->len && description->data[end] != ';' && description->data[end] != '|')
        end++;
    for (i = 1; i + 9 <= end; i += 9)
        if (memcmp(description->data + i, text, 9) == 0)
            return 1;
    return 0;
}

/* The first letter of what a node says of itself. */
static const char *node_state(char letter)
{
    return letter == 's' ? "stopping" : letter == 'q' ? "quiet" : "working";
}

/* What the node tells of its process behind `;key=`, in front of the bar. data NULL: it does not. */
static seriatim_text node_field(const char *description, const char *key)
{
    const char *bar = strchr(description, '|'), *at = strstr(description, key);
    seriatim_text value = {NULL, 0};
    if (!at || !bar || at > bar)
        return value;
    value.data = at + strlen(key);
    value.len = strcspn(value.data, ";|");
    return value;
}

static int64_t node_field_int(seriatim_text value)
{
    srt_token number = {SRT_STRING, 0, NULL, 0};
    number.data = value.data;
    number.len = value.len;
    return srt_token_int(&number);
}

/* A copy; empty where there is no text. NULL: out of memory. */
static const char *nodes_text(srt_arena *memory, seriatim_text value)
{
    return value.data ? srt_arena_copy(memory, value.data, value.len) : "";
}

#define READ_INTEGER(memory, value) ((value).data ? node_field_int(value) : -1)
#define READ_SECONDS(memory, value) ((value).data ? (double)node_field_int(value) / 1e3 : NAN)
#define READ_TEXT(memory, value) nodes_text(memory, value)
#define FAILED_INTEGER(field) 0
#define FAILED_SECONDS(field) 0
#define FAILED_TEXT(field) !(field)

/* What its host says of it: behind what nodes tell each other and the bar. */
static const char *node_description(const char *told)
{
    const char *bar = strchr(told, '|');
    return bar ? bar + 1 : told;
}

/* OK or NOMEM. */
static int node_read(srt_arena *memory, const srt_token *at, seriatim_living_node *node)
{
    const seriatim_text name = {at[0].data, at[0].len}, record = {at[2].data, at[2].len};
    const char *told = nodes_text(memory, record);
    seriatim_text value;
    int failed;
    node->name = nodes_text(memory, name);
    failed = !node->name || !told;
    if (failed)
        return SERIATIM_NOMEM;
    node->state = node_state(*told);
    node->description = node_description(told);
#define X(kind, field, key)                                                                                            \
    value = node_field(told, ";" key "=");                                                                             \
    node->field = READ_##kind(memory, value);                                                                          \
    failed |= FAILED_##kind(node->field);
    SERIATIM_NODE_FIELDS(X)
#undef X
    return failed ? SERIATIM_NOMEM : SERIATIM_OK;
}

static int nodes_on_reply(seriatim_client *c, srt_request *r, const srt_reply *reply)
{
    nodes_state *n = c->state;
    const srt_token *at = reply->tokens;
    int64_t now;
    size_t i;
    (void)r;
    if (!srt_reply_is_list(reply, 1) || (reply->count - 2) % 3 != 0)
        return srt_operator_protocol(c, "nodes");
    now = srt_token_int(&at[1]);
    n->nodes = srt_arena_alloc(&n->memory, reply->count * sizeof *n->nodes);
    if (!n->nodes)
        return srt_operator_nomem(c);
    for (i = 2; i < reply->count; i += 3) {
        seriatim_living_node *node = &n->nodes[n->count];
        int64_t left = srt_token_int(&at[i + 1]) - now;
        if (left <= 0)
            continue;
        node->expires_in = (double)left / 1e3;
        if (node_read(&n->memory, &at[i], node) != SERIATIM_OK)
            return srt_operator_nomem(c);
        n->count++;
    }
    return SERIATIM_OK;
}

static void nodes_release(seriatim_client *c)
{
    nodes_state *n = c->state;
    srt_arena_free(&n->memory);
    srt_free(c->mem, n, sizeof *n);
}

int seriatim_nodes_begin(seriatim_client *c)
{
    static const srt_operation operation = {.send = nodes_send, .on_reply = nodes_on_reply, .release = nodes_release};
    nodes_state *n;
    int status = srt_operator_begin(c, sizeof *n);
    if (status != SERIATIM_OK)
        return status;
    n = c->state;
    srt_arena_init(&n->memory, c->mem);
    return srt_client_start_alone(c, &operation);
}

const seriatim_living_node *seriatim_nodes_result(const seriatim_client *c, size_t *count)
{
    const nodes_state *n =
        c->operation && c->operation->send == nodes_send && c->status == SERIATIM_OK ? c->state : NULL;
    *count = n ? n->count : 0;
    return n ? n->nodes : NULL;
}
