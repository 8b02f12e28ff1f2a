/* fuzz_web.c - libFuzzer target: web requests of any bytes, answered with random replies; each gets a whole answer. */
#include "fuzz.h"
#include "web/web.h"

typedef struct visit {
    seriatim_client *c;
    unsigned sum;
} visit;

/* ---- The request --------------------------------------------------------------------------- */

typedef struct texts {
    char *held[16];
    size_t count;
} texts;

static seriatim_text any_text(texts *t, fuzz_input *in, size_t limit, int terminated)
{
    seriatim_text text = {NULL, 0};
    size_t len;
    if (fuzz_below(in, 8) == 0)
        return text;
    t->held[t->count] = fuzz_text(in, limit, terminated, &len);
    text.data = t->held[t->count++];
    text.len = len;
    return text;
}

/* A route with a queue's name in it, or any bytes. */
static seriatim_text any_path(texts *t, fuzz_input *in)
{
    size_t count, n = 0;
    const seriatim_web_route *routes = seriatim_web_routes(&count);
    const char *pattern = routes[fuzz_byte(in) % count].pattern;
    seriatim_text text;
    char *out;
    if (fuzz_below(in, 6) == 0)
        return any_text(t, in, 300, 0);
    out = malloc(strlen(pattern) + 1);
    FUZZ_CHECK(out);
    for (; *pattern; pattern++) {
        if (*pattern != ':') {
            out[n++] = *pattern;
            continue;
        }
        out[n++] = 'Q';
        while (pattern[1] && pattern[1] != '/')
            pattern++;
    }
    t->held[t->count++] = out;
    text.data = out;
    text.len = n;
    return text;
}

static seriatim_text likely(texts *t, fuzz_input *in, const char *word)
{
    seriatim_text text;
    if (fuzz_below(in, 8) == 0)
        return any_text(t, in, 64, 0);
    text.data = word;
    text.len = strlen(word);
    return text;
}

static seriatim_text any_query(texts *t, fuzz_input *in)
{
    static const char *const queries[] = {
        "min=-&max=%2B",
        "part=dead&by=time&limit=3",
        "part=retrying&by=time",
        "id=a",
        "q=a",
        "q=a&prefix=1&queue=Q",
        "by=retry_count&order=desc",
        "span=1h&queue=Q",
        "by=time&cursor=000000000000000061",
        "cursor=0.0.5",
        "part=dead&error=cbf29ce484222325&limit=1",
        "part=retrying&by=time&error=cbf29ce484222325&cursor=0.0.0.1.0.000000000000000061",
        "cursor=0.0.0.1.0.000000000000000061",
        "part=running",
        "part=parked&by=time&from=5"};
    return fuzz_below(in, 3) ? likely(t, in, queries[fuzz_below(in, sizeof queries / sizeof *queries)])
                             : any_text(t, in, 200, 0);
}

static int begin(visit *v, fuzz_input *in)
{
    static const char *const methods[] = {"GET", "GET", "GET", "POST", "POST", "HEAD", "PUT", ""};
    static const char *const hosts[] = {"localhost", "a:1"};
    seriatim_web_settings settings;
    seriatim_web_request request;
    texts t;
    size_t i;
    unsigned what;
    int status;
    memset(&t, 0, sizeof t);
    memset(&settings, 0, sizeof settings);
    memset(&request, 0, sizeof request);
    request.method = methods[fuzz_below(in, 8)];
    request.path = any_path(&t, in);
    request.query = any_query(&t, in);
    request.prefix = fuzz_below(in, 8) ? request.prefix : any_text(&t, in, 700, 0);
    request.host = likely(&t, in, "localhost");
    request.origin = fuzz_below(in, 8) ? request.origin : any_text(&t, in, 64, 0);
    request.sec_fetch_site = likely(&t, in, "same-origin");
    request.content_type = likely(&t, in, "application/json");
    request.authorization = likely(&t, in, "Bearer t");
    what = fuzz_below(in, 5);
    request.body =
        what == 0 ? any_text(&t, in, 300, 0)
        : what == 3
            ? likely(&t, in, "{\"queue\":\"Q\",\"jobs\":[{\"id\":\"a\",\"payload\":{\"b\":[1.5]},\"delay\":1}]}")
        : what == 4 ? likely(&t, in, "{\"queues\":[\"Q\",\"R\"],\"wait\":1,\"max\":3,\"raw\":false}")
        : what == 1 ? likely(&t, in, "{\"ids\":[\"a\",{\"base64\":\"/w==\"}]}")
                    : likely(&t, in, "{\"id\":{\"base64\":\"/w==\"},\"key\":\"42f80000000000003ff0000000000000\"}");
    request.role = fuzz_below(in, 8) ? SERIATIM_WEB_ADMIN : (int)fuzz_int(in);
    settings.hosts = hosts;
    settings.host_count = fuzz_below(in, 3);
    settings.token = fuzz_below(in, 4) ? NULL : "t";
    settings.read_only = fuzz_below(in, 8) == 0;
    settings.consume = fuzz_below(in, 4) != 0;
    request.host_waits = (int)fuzz_below(in, 3);
    request.waited_ms = (int64_t)fuzz_below(in, 2000);
    settings.loads_errors = fuzz_below(in, 2) != 0;
    status = seriatim_web_begin(v->c, fuzz_below(in, 4) ? &settings : NULL, &request);
    for (i = 0; i < t.count; i++)
        free(t.held[i]); /* borrowed during begin only */
    return status;
}

/* ---- The network --------------------------------------------------------------------------- */

/* A list of plain values as most scripts answer, so that the steps behind are reached. */
static void some_list(srt_bytes *reply, fuzz_input *in)
{
    static const unsigned lengths[] = {1, 2, 4, 7, 13, 10, 3, 17, 6};
    unsigned n = lengths[fuzz_below(in, sizeof lengths / sizeof *lengths)] + fuzz_below(in, 2) * 3, i;
    srt_bytes part;
    srt_bytes_init(&part, seriatim_default_allocator());
    fuzz_number(reply, '*', (int64_t)n);
    for (i = 0; i < n; i++) {
        unsigned kind = fuzz_below(in, 5);
        srt_bytes_clear(&part);
        if (kind == 0)
            fuzz_record(&part, in);
        else if (kind < 3)
            srt_bytes_add_int(&part, fuzz_int(in));
        else if (kind == 3)
            srt_bytes_add(&part, "a\xff", fuzz_below(in, 3));
        else
            srt_bytes_addc(&part, '0');
        fuzz_bulk(reply, part.data ? part.data : "", part.len);
    }
    srt_bytes_free(&part);
}

/* [cursor, [a layout's key]] */
static void some_scan(srt_bytes *reply)
{
    fuzz_number(reply, '*', 2);
    fuzz_bulk(reply, "0", 1);
    fuzz_number(reply, '*', 1);
    fuzz_bulk(reply, "seriatim:{Q}:layout", 19);
}

static void answer(visit *v, fuzz_input *in)
{
    const srt_request *r = v->c->cluster.peers[0]->commands.first;
    seriatim_error error;
    srt_bytes reply;
    unsigned kind = fuzz_below(in, 8);
    srt_bytes_init(&reply, seriatim_default_allocator());
    if (kind == 0)
        fuzz_reply(&reply, in, 3);
    else if (r && r->script == srt_script_layout)
        fuzz_bulk(&reply, "1 2 3", 5);
    else if (r && r->script == srt_script_none && kind < 4)
        some_scan(&reply);
    else if (r && r->script == srt_script_none)
        fuzz_bulk(&reply, kind == 4 ? "\nrole:slave\nmaxmemory:5\n" : "1 2 3", kind == 4 ? 24 : 5);
    else
        some_list(&reply, in);
    if (srt_client_input(v->c, reply.data, reply.len, &error) != SERIATIM_OK) {
        srt_client_disconnected(v->c);
        srt_client_connected(v->c, NULL, NULL, 0);
    }
    srt_bytes_free(&reply);
}

static void talk(visit *v, fuzz_input *in)
{
    const char *data;
    size_t len;
    while (in->left > 0 && srt_client_status(v->c) == SERIATIM_AGAIN) {
        srt_client_output(v->c, &data, &len);
        v->sum += fuzz_sum(data, len);
        srt_client_sent(v->c, len);
        answer(v, in);
    }
    if (srt_client_status(v->c) == SERIATIM_AGAIN) {
        srt_client_give_up(v->c, SERIATIM_TIMEOUT, "too late");
        srt_client_connected(v->c, NULL, NULL, 0);
    }
}

static seriatim_text hide(void *context, seriatim_text queue, seriatim_text id, seriatim_text text)
{
    visit *v = context;
    v->sum += fuzz_sum(queue.data, queue.len) + fuzz_sum(id.data, id.len) + fuzz_sum(text.data, text.len);
    return text;
}

/* A whole answer: a status, headers without a line's end in them, and JSON where it says so. */
static void look(visit *v, const seriatim_web_response *response)
{
    size_t i;
    FUZZ_CHECK(response->status >= 200 && response->status < 600 && response->header_count >= 2);
    for (i = 0; i < response->header_count; i++)
        FUZZ_CHECK(!strpbrk(response->headers[i].name, "\r\n") && !strpbrk(response->headers[i].value, "\r\n"));
    v->sum += fuzz_sum(response->body.data, response->body.len);
    if (strcmp(response->headers[0].value, "application/json") == 0 && response->body.len) {
        srt_json_reader reader;
        srt_json_token token;
        srt_json_reader_init(&reader, seriatim_default_allocator(), response->body.data, response->body.len);
        do
            FUZZ_CHECK(srt_json_next(&reader, &token) == SERIATIM_OK);
        while (token.type != SRT_JSON_END);
        srt_json_reader_free(&reader);
    }
}

/* One line, whatever was asked. */
static void look_at_change(visit *v, const seriatim_web_change *change)
{
    size_t i;
    if (!change)
        return;
    FUZZ_CHECK(change->line.len > 0 && srt_utf8_valid(change->line.data, change->line.len));
    for (i = 0; i < change->line.len; i++)
        FUZZ_CHECK((unsigned char)change->line.data[i] >= 0x20 && change->line.data[i] != 0x7F);
    for (i = 0; i < change->id_count; i++)
        v->sum += fuzz_sum(change->ids[i].data, change->ids[i].len);
}

static seriatim_text load(void *context, seriatim_text stored)
{
    visit *v = context;
    v->sum += fuzz_sum(stored.data, stored.len);
    return stored;
}

/* Drives on while errors were loaded for a change. */
static const seriatim_web_response *answered(visit *v, fuzz_input *in, int status)
{
    const seriatim_web_hooks hooks = {fuzz_below(in, 2) ? hide : NULL, load, v};
    const seriatim_web_response *response;
    while (!(response = seriatim_web_answer(v->c, status, &hooks))) {
        talk(v, in);
        status = srt_client_status(v->c);
    }
    return response;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char identity[16] = "0123456789abcde";
    fuzz_input in = {data, size};
    visit v;
    int rounds, status;
    memset(&v, 0, sizeof v);
    FUZZ_CHECK(seriatim_client_new(NULL, &v.c, NULL) == SERIATIM_OK);
    srt_client_identify(v.c, identity);
    srt_client_connected(v.c, NULL, NULL, 0);
    for (rounds = 0; rounds < 3; rounds++) {
        status = begin(&v, &in);
        if (status == SERIATIM_OK)
            talk(&v, &in);
        if (status == SERIATIM_OK)
            status = srt_client_status(v.c);
        look(&v, answered(&v, &in, status));
        look_at_change(&v, seriatim_web_change_of(v.c));
    }
    seriatim_client_free(v.c);
    return 0;
}
