/*
 * conformance.c - runs spec/conformance/vectors and scenarios through the public C API. See spec/conformance/README.md.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include "conformance.h"
#include "redis_process.h"

#include <dirent.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPEC SERIATIM_SOURCE_DIR "/spec/conformance"
#define FILES 100

suite the_suite = {.lock = PTHREAD_MUTEX_INITIALIZER};

void lock(void)
{
    pthread_mutex_lock(&the_suite.lock);
}

void unlock(void)
{
    pthread_mutex_unlock(&the_suite.lock);
}

void conclude(const check *c, const char *where)
{
    the_suite.checks++;
    if (!c->len)
        return;
    the_suite.failed++;
    printf("FAILED %s: %s\n", where, c->wrong);
}

/* ---- Redis ----------------------------------------------------------------------------------- */

static redis_process server;

static int redis_start(void)
{
    static const char *const words[] = {"--maxmemory-policy", "noeviction", NULL};
    const char *elsewhere = getenv("CONFORMANCE_REDIS"), *url = getenv("CONFORMANCE_URL");
    if (elsewhere && url) {
        char socket[sizeof server.socket];
        snprintf(socket, sizeof socket, "%s/s", elsewhere);
        snprintf(the_suite.url, sizeof the_suite.url, "%s", url);
        the_suite.redis = redisConnectUnix(socket);
        return the_suite.redis && !the_suite.redis->err;
    }
    if (redis_make_folder(&server) != 0 || redis_run(&server, words) != 0 || redis_wait(&server) != 0)
        return 0;
    strcpy(the_suite.url, server.url);
    the_suite.redis = redisConnectUnix(server.socket);
    return the_suite.redis && !the_suite.redis->err;
}

static void redis_stop(void)
{
    redisFree(the_suite.redis);
    if (server.pid)
        redis_remove(&server);
}

redisReply *redis_command(const char *format, ...)
{
    redisReply *reply;
    va_list args;
    va_start(args, format);
    reply = redisvCommand(the_suite.redis, format, args);
    va_end(args);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "%s: %s\n", format, reply ? reply->str : the_suite.redis->errstr);
        abort();
    }
    return reply;
}

static int by_text(const void *a, const void *b)
{
    return text_compare(*(const seriatim_text *)a, *(const seriatim_text *)b);
}

/*
 * Whether a key comes and goes by time and not by the steps: nodes, remembered pushes, and the history that a running
 * server writes.
 */
static int is_timed_key(seriatim_text key)
{
    static const seriatim_text nodes = {":{/nodes}:", 10}, pushes = {":push:", 6}, history = {"}:history", 9};
    return text_has(key, nodes) || text_has(key, pushes) || text_has(key, history);
}

void compare_keys(check *c, const value *wanted)
{
    redisReply *reply = redis_command("KEYS *");
    seriatim_text *keys = keep((reply->elements + 1) * sizeof *keys);
    size_t count = 0, i;
    for (i = 0; i < reply->elements; i++) {
        keys[count] = keep_text(reply->element[i]->str, reply->element[i]->len);
        count += (size_t)!is_timed_key(keys[count]);
    }
    freeReplyObject(reply);
    qsort(keys, count, sizeof *keys, by_text);
    if (count != wanted->count)
        wrong(c, "%lu keys, not %lu", (unsigned long)count, (unsigned long)wanted->count);
    for (i = 0; i < count && i < wanted->count; i++)
        compare(c, value_at(wanted, i), found_text(keys[i]), "key");
}

/* ---- Vectors --------------------------------------------------------------------------------- */

static void vector_shard_of(const value *row, check *c)
{
    seriatim_text id = value_bytes(value_get(row, "id"));
    unsigned shard = seriatim_shard_of(id.data, id.len, (unsigned)value_get(row, "shards_count")->integer);
    compare(c, value_get(row, "shard"), found_number(shard), "it");
}

static void vector_keys(const value *row, check *c)
{
    static const seriatim_text label = {"keys", 4};
    seriatim_text id = value_bytes(value_get(row, "id"));
    seriatim_job job;
    seriatim_queue_settings settings;
    seriatim_client *client;
    scenario s;
    queue q;
    size_t number;
    int status;
    memset(&s, 0, sizeof s);
    freeReplyObject(redis_command("FLUSHALL"));
    queue_init(&q, label, NULL);
    q.name = value_bytes(value_get(row, "queue"));
    queue_core_settings(&q, &settings);
    settings.shards_count = value_get(row, "shards_count")->integer;
    scenario_connect(&s, value_bytes(value_get(row, "namespace")));
    client = seriatim_link_client(s.link);
    seriatim_job_init(&job);
    job.id = id.data;
    job.id_len = id.len;
    if ((status = seriatim_client_queue(client, &settings, &number)) != SERIATIM_OK ||
        (status = seriatim_push_begin(client, number)) != SERIATIM_OK ||
        (status = seriatim_push_job(client, &job)) != SERIATIM_OK ||
        (status = scenario_drive(&s, seriatim_push_send(client))) != SERIATIM_OK)
        wrong(c, "%s: %s", seriatim_status_name(status), seriatim_client_error(client)->message);
    compare_keys(c, value_get(row, "keys"));
    seriatim_link_free(s.link);
}

static value *double_of(const value *hex)
{
    value *v = keep(sizeof *v);
    uint64_t bits = strtoull(hex->text.data, NULL, 16);
    v->kind = VALUE_DOUBLE;
    memcpy(&v->number, &bits, sizeof bits);
    return v;
}

static void vector_json(const value *row, check *c)
{
    static const char *const kinds[] = {"null", "boolean", "integer", "float", "text", "list", "map"};
    seriatim_text bytes = value_bytes(value_get(row, "text")), text = {NULL, 0};
    const value *bits = value_get(row, "double"), *v = bits ? double_of(bits) : value_read(bytes.data, bytes.len);
    if (v)
        text = value_canonical(v);
    if (value_true(value_get(row, "refused"))) {
        if (text.data)
            wrong(c, "it was not refused, but written as %s", text.data);
        return;
    }
    compare(c, value_get(row, "canonical"), text.data ? found_text(text) : found_nothing(), "it");
    if (v)
        compare(c, value_get(row, "type"), found_word(kinds[v->kind]), "its type");
}

static void vector_back_off(const value *row, check *c)
{
    double min = value_get(row, "min")->number, max = value_get(row, "max")->number,
           step = value_get(row, "step")->number;
    double next = min;
    int i;
    for (i = 0; i < 1000; i++) { /* a greater random number gives no smaller time */
        double seconds = seriatim_back_off(value_get(row, "retry_count")->integer, i / 1000.0);
        if (fabs(seconds - (next - step)) < 0.5)
            continue;
        if (fabs(seconds - next) > 0.5)
            wrong(c, "%g comes after %g", seconds, next - step);
        next += step;
    }
    if (fabs(next - step - max) > 0.5)
        wrong(c, "the greatest is %g", next - step);
}

static void vector_split(const value *row, check *c)
{
    const value *wanted = value_get(row, "groups"), *group, *shard;
    size_t shards = (size_t)value_get(row, "shards")->integer, *groups = keep(shards * sizeof *groups + 1), count,
           number = 0, i, seen = 0;
    count = seriatim_split(shards, (size_t)value_get(row, "nodes")->integer, (size_t)value_get(row, "node")->integer,
                           (size_t)value_get(row, "threads")->integer, groups);
    if (count != wanted->count)
        wrong(c, "%lu groups, not %lu", (unsigned long)count, (unsigned long)wanted->count);
    for (group = wanted->first; group; group = group->next, number++)
        for (shard = group->first; shard; shard = shard->next, seen++)
            if (groups[shard->integer] != number)
                wrong(c, "shard %ld is in group %ld", (long)shard->integer, (long)groups[shard->integer]);
    for (i = 0; i < shards; i++)
        seen -= groups[i] != SERIATIM_ELSEWHERE;
    if (seen)
        wrong(c, "other shards are in groups");
}

static const struct vector {
    const char *name;
    void (*row)(const value *row, check *c);
} vectors[] = {
    {"shard_of", vector_shard_of}, {"keys", vector_keys},   {"json", vector_json},
    {"back_off", vector_back_off}, {"split", vector_split},
};

static void vectors_run(const char *name, const value *rows)
{
    const value *row;
    size_t i, number = 1;
    the_suite.scenarios++;
    for (i = 0; strcmp(vectors[i].name, name) != 0; i++)
        if (i + 1 == sizeof vectors / sizeof *vectors)
            abort();
    for (row = rows->first; row; row = row->next, number++) {
        char where[64];
        check c;
        memset(&c, 0, sizeof c);
        snprintf(where, sizeof where, "%s, row %lu", name, (unsigned long)number);
        vectors[i].row(row, &c);
        conclude(&c, where);
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct wishes {
    char **words;
    int count;
} wishes;

static int wanted(wishes w, const char *file, const char *name)
{
    int i;
    for (i = 0; i < w.count; i++)
        if (strcmp(w.words[i], file) == 0 || (name && strstr(name, w.words[i])))
            return 1;
    return w.count == 0;
}

static const value *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    value *v;
    char *data;
    long size;
    if (!file || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0)
        abort();
    rewind(file);
    data = keep((size_t)size + 1);
    v = fread(data, 1, (size_t)size, file) == (size_t)size ? value_read(data, (size_t)size) : NULL;
    fclose(file);
    if (!v) {
        fprintf(stderr, "%s cannot be read as JSON\n", path);
        exit(1);
    }
    return v;
}

static void file_run(const char *kind, const char *name, wishes w)
{
    char path[512];
    const value *content, *item;
    snprintf(path, sizeof path, SPEC "/%s/%s.json", kind, name);
    content = read_file(path);
    if (strcmp(kind, "vectors") == 0) {
        if (wanted(w, name, NULL))
            vectors_run(name, value_get(content, "rows"));
    } else {
        for (item = value_get(content, "scenarios")->first; item; item = item->next)
            if (wanted(w, name, value_get(item, "name")->text.data)) {
                the_suite.scenarios++;
                scenario_run(name, item);
            }
    }
    keep_nothing();
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void folder_run(const char *kind, wishes w)
{
    char path[512], names[FILES][64];
    struct dirent *entry;
    size_t count = 0, i;
    DIR *dir;
    snprintf(path, sizeof path, SPEC "/%s", kind);
    dir = opendir(path);
    while (dir && (entry = readdir(dir)) && count < FILES) {
        size_t len = strlen(entry->d_name);
        if (len > 5 && len < 64 && strcmp(entry->d_name + len - 5, ".json") == 0)
            snprintf(names[count++], sizeof names[0], "%.*s", (int)(len - 5), entry->d_name);
    }
    if (dir)
        closedir(dir);
    qsort(names, count, sizeof names[0], by_name);
    for (i = 0; i < count; i++)
        file_run(kind, names[i], w);
}

int main(int argc, char **argv)
{
    wishes w;
    w.words = argv + 1;
    w.count = argc - 1;
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (!redis_start()) {
        fprintf(stderr, "redis-server does not start\n");
        return 1;
    }
    folder_run("vectors", w);
    folder_run("scenarios", w);
    redis_stop();
    printf("%ld scenarios, %ld checks, %ld failed\n", the_suite.scenarios, the_suite.checks, the_suite.failed);
    return the_suite.failed || !the_suite.checks ? 1 : 0;
}
