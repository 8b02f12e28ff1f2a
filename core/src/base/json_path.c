/* json_path.c - where in a value the writer stands, for errors: payload.items[3].at. */
#include "base/json.h"
#include "base/json_number.h"

#include <string.h>

typedef struct json_path {
    char *text;
    size_t len, size;
    int full;
} json_path;

/* Whole or cut between characters; once cut, nothing follows. */
static void json_path_add(json_path *path, const char *text, size_t len)
{
    size_t room = path->size - 1 - path->len;
    if (path->full)
        return;
    if (len > room) {
        path->full = 1;
        for (len = room; len > 0 && ((unsigned char)text[len] & 0xC0) == 0x80;)
            len--;
    }
    memcpy(path->text + path->len, text, len);
    path->len += len;
}

static int json_is_name(const char *key, size_t len)
{
    size_t i;
    for (i = 0; i < len; i++) {
        char c = key[i], lower = (char)(c | 0x20);
        if (!(lower >= 'a' && lower <= 'z') && c != '_' && (i == 0 || c < '0' || c > '9'))
            return 0;
    }
    return len > 0;
}

/* The length of a written key from behind its opening quote to before its closing one. */
static size_t json_key_length(const char *key)
{
    size_t len = 0;
    while (key[len] != '"')
        len += key[len] == '\\' ? 2 : 1;
    return len;
}

static void json_path_add_key(json_path *path, const char *key)
{
    size_t len = json_key_length(key);
    if (json_is_name(key, len)) {
        json_path_add(path, ".", 1);
        json_path_add(path, key, len);
    } else {
        json_path_add(path, "[\"", 2);
        json_path_add(path, key, len);
        json_path_add(path, "\"]", 2);
    }
}

static void json_path_add_index(json_path *path, size_t index)
{
    char text[24];
    size_t len = 1;
    text[0] = '[';
    len += srt_json_put_uint(text + 1, index);
    text[len++] = ']';
    json_path_add(path, text, len);
}

size_t srt_json_writer_path(const srt_json_writer *w, char *text, size_t size)
{
    json_path path = {text, 0, size, 0};
    size_t i;
    if (size == 0)
        return 0;
    json_path_add(&path, w->root, strlen(w->root));
    for (i = 1; i <= w->depth; i++) {
        const srt_json_level *level = &w->levels[i];
        if (level->kind == '[')
            json_path_add_index(&path, level->count);
        else if (level->keyed)
            json_path_add_key(&path, w->out->data + level->key + 1);
    }
    text[path.len] = '\0';
    return path.len;
}
