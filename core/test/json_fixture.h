/* json_fixture.h - a writer and a reader for the tests of JSON, and what they must say. */
#ifndef SRT_TEST_JSON_FIXTURE_H
#define SRT_TEST_JSON_FIXTURE_H

#include "base/json.h"

typedef struct json_fixture {
    srt_bytes out;
    srt_json_writer w;
    srt_json_reader r;
    srt_json_token token;
} json_fixture;

int json_setup(void **state);
int json_teardown(void **state);
void json_begin(json_fixture *f);
void assert_bytes(const srt_bytes *out, const char *expected);
void assert_written(json_fixture *f, const char *expected);
void assert_path(json_fixture *f, const char *expected);
/* The write just done was refused with a message that holds `rule`, and nothing is left of it. */
void assert_refused(json_fixture *f, const char *rule, const char *path);
/* Reads the text and writes it to f->out. Returns the first status that is not OK. */
int json_canonical(json_fixture *f, const char *text, size_t len);
void assert_canonical(json_fixture *f, const char *text, const char *expected);
/* The next of a sequence of random numbers, the same in each run. */
uint64_t next_random(uint64_t *seed);

#define TEST(name) cmocka_unit_test_setup_teardown(name, json_setup, json_teardown)

#endif
