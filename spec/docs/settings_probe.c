/* What the settings are in C, as JSON: those of a queue with kind, range, default and words; and
 * the default of retry_in by count. */
#include <stdio.h>
#include <string.h>

#include "seriatim.h"

#define COUNTS 25 /* retries of the default max_retry_count */

static void print_words(const char *words)
{
    const char *at;
    for (at = words; at && *at; at += strlen(at) + 1)
        printf("%s\"%s\"", at == words ? "" : ", ", at);
}

static void print_word(const char *value)
{
    printf("\"%s\"", value);
}

static void print_number(double value)
{
    printf("%.15g", value);
}

#define print_WORD(value) print_word(value)
#define print_COUNT(value) print_number((double)(value))
#define print_SECONDS(value) print_number(value)
#define print_FLAG(value) print_number(value)

int main(void)
{
    seriatim_queue_settings settings;
    int count;
    seriatim_queue_settings_init(&settings);
    printf("{\"shards_count\": %lld, \"batch_size\": %lld, \"priority\": %lld, \"queue\": {",
           (long long)settings.shards_count, (long long)settings.batch_size, (long long)settings.priority);
#define X(kind, name, low, least, high, initial, words, use)                                                           \
    printf("\"%s\": {\"kind\": \"%s\", \"low\": %lld, \"high\": %lld, \"words\": [", #name, #kind, (long long)(low),   \
           (long long)(high));                                                                                         \
    print_words(words);                                                                                                \
    printf("], \"default\": ");                                                                                        \
    print_##kind(settings.name);                                                                                       \
    printf("}, ");
    SERIATIM_QUEUE_SETTINGS(X)
#undef X
    printf("\"\": {}}, \"back_off\": [");
    for (count = 0; count < COUNTS; count++)
        printf("%s[%.15g, %.15g]", count ? ", " : "", seriatim_back_off(count, 0), seriatim_back_off(count, 0.999999));
    printf("]}\n");
    return 0;
}
