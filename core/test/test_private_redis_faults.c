/*
 * test_private_redis_faults.c - the private Redis with long paths, without a redis-server, in unfit folders and
 * without memory.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "seriatim/binding/private_redis.h"
#include "base/system.h"
#include "private_fixture.h"

/* ---- Paths and failures -------------------------------------------------------------------- */

static void check_long_path(const char *runtime, const char *expected)
{
    char folder[64], deep[300], link[400], target[200];
    srt_private_redis *p;
    ssize_t len;
    if (runtime)
        setenv("XDG_RUNTIME_DIR", runtime, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    snprintf(deep, sizeof deep, "%s/%0120d", make_private_folder(folder), 7);
    p = start_private(deep);
    assert_answer(p, "SET kept value\r\n", "+OK");
    snprintf(link, sizeof link, "%s/s.sock", deep);
    len = readlink(link, target, sizeof target - 1);
    assert_true(len > 0);
    target[len] = '\0';
    assert_int_equal(strncmp(target, expected, strlen(expected)), 0);
    setenv("XDG_RUNTIME_DIR", "/nonsense", 1); /* whoever comes later follows the link */
    {
        other joins = fork_other(deep);
        assert_int_equal(letter_of(&joins), 'J');
        end_other(&joins, 0);
    }
    srt_private_redis_release(p);
    await_gone(target, 0);
    *strrchr(target, '/') = '\0';
    assert_int_equal(rmdir(target), 0);
    p = start_private(deep); /* the short folder was swept away: it is made again */
    assert_answer(p, "STRLEN kept\r\n", ":5");
    srt_private_redis_release(p);
    remove_private_folder(target);
    remove_private_folder(folder);
}

static void test_a_socket_with_a_long_path_lies_in_a_shorter_folder(void **state)
{
    char runtime[64];
    (void)state;
    check_long_path(make_private_folder(runtime), runtime);
    check_long_path(NULL, "/tmp/seriatim-");
    check_long_path("/no/such/place", "/tmp/seriatim-");
    remove_private_folder(runtime);
    unsetenv("XDG_RUNTIME_DIR");
}

static int try_start(const char *folder, seriatim_error *error)
{
    srt_private_redis *p = NULL;
    int status = srt_private_redis_start(seriatim_default_allocator(), folder, error, &p);
    if (status != SERIATIM_OK)
        assert_null(p);
    srt_private_redis_release(p);
    return status;
}

static void test_a_missing_redis_server_is_an_error(void **state)
{
    char folder[64], kept[4096];
    seriatim_error error;
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    setenv("PATH", make_private_folder(folder), 1);
    assert_int_equal(try_start(folder, &error), SERIATIM_UNSUPPORTED);
    setenv("PATH", kept, 1);
    assert_non_null(strstr(error.message, "install"));
    assert_non_null(strstr(error.message, "redis-server"));
    assert_non_null(strstr(error.message, "valkey-server"));
    remove_private_folder(folder);
}

/* Makes `name` in the folder a program of one shell line, which is then first in PATH. */
static void make_program(const char *folder, const char *name, const char *line, const char *path)
{
    char file[200];
    FILE *out;
    snprintf(file, sizeof file, "%s/%s", folder, name);
    out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "#!%s\n%s\n", "/bin/sh", line);
    fclose(out);
    chmod(file, 0755);
    setenv("PATH", path, 1);
}

static void test_valkey_server_is_found_too(void **state)
{
    char folder[64], bin[64], kept[4096];
    srt_private_redis *p;
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    make_private_folder(bin);
    make_program(bin, "valkey-server", "exec /usr/bin/redis-server \"$@\"", bin);
    p = start_private(make_private_folder(folder));
    setenv("PATH", kept, 1);
    assert_answer(p, "PING\r\n", "+PONG");
    srt_private_redis_release(p);
    remove_private_folder(folder);
    remove_private_folder(bin);
}

static void test_a_server_that_dies_at_its_start_is_an_error(void **state)
{
    char folder[64], bin[64], kept[4096];
    seriatim_error error;
    int64_t before = srt_clock_ms();
    (void)state;
    snprintf(kept, sizeof kept, "%s", getenv("PATH"));
    make_private_folder(bin);
    make_program(bin, "redis-server", "echo the disk is made of cheese; exit 3", bin);
    assert_int_equal(try_start(make_private_folder(folder), &error), SERIATIM_IO);
    assert_non_null(strstr(error.message, "the disk is made of cheese"));
    assert_true(srt_clock_ms() - before < 60000);
    make_program(bin, "redis-server", "", bin);
    {
        char file[200];
        snprintf(file, sizeof file, "%s/redis-server", bin);
        assert_int_equal(truncate(file, 0), 0);
        assert_int_equal(chmod(file, 0755), 0);
    }
    assert_int_equal(try_start(folder, &error), SERIATIM_IO); /* an empty file cannot be executed */
    assert_non_null(strstr(error.message, "cannot start"));
    setenv("PATH", kept, 1);
    assert_int_equal(try_start(folder, &error), SERIATIM_OK); /* nothing is left behind */
    remove_private_folder(folder);
    remove_private_folder(bin);
}

static void test_unfit_folders_are_refused(void **state)
{
    char folder[64], file[128];
    seriatim_error error;
    (void)state;
    make_private_folder(folder);
    snprintf(file, sizeof file, "%s/file", folder);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(try_start("", &error), SERIATIM_INVALID);
    assert_int_equal(try_start(file, &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "is not a folder"));
    snprintf(file, sizeof file, "%s/file/below", folder);
    assert_int_equal(try_start(file, &error), SERIATIM_INVALID);
    chmod(folder, 0777);
    assert_int_equal(try_start(folder, &error), SERIATIM_INVALID);
    assert_non_null(strstr(error.message, "writable by others"));
    chmod(folder, 0700);
    if (geteuid() == 0 && chown(folder, 12345, 12345) == 0) {
        assert_int_equal(try_start(folder, &error), SERIATIM_INVALID);
        assert_non_null(strstr(error.message, "another user"));
    }
    remove_private_folder(folder);
}

/* ---- Out of memory ------------------------------------------------------------------------- */

static void *failing_alloc(void *user, void *ptr, size_t old_size, size_t new_size)
{
    int *left = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        return NULL;
    }
    return (*left)-- > 0 ? realloc(ptr, new_size) : NULL;
}

static void test_every_allocation_beside_a_running_redis_may_fail(void **state)
{
    char folder[64];
    srt_private_redis *holder;
    int n, status = SERIATIM_NOMEM;
    (void)state;
    holder = start_private(make_private_folder(folder));
    for (n = 0; status != SERIATIM_OK; n++) {
        int left = n;
        seriatim_allocator mem = {failing_alloc, &left};
        seriatim_error error = {0, ""};
        srt_private_redis *p = NULL;
        assert_true(n < 100);
        status = srt_private_redis_start(&mem, folder, &error, &p);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        left = 100;
        srt_private_redis_release(p);
    }
    assert_true(n > 4);
    srt_private_redis_release(holder);
    await_gone(folder, 0);
    remove_private_folder(folder);
}

/* The same where this process has to start Redis itself. */
static void test_every_allocation_of_a_start_may_fail(void **state)
{
    char folder[64];
    int n, status = SERIATIM_NOMEM;
    (void)state;
    make_private_folder(folder);
    for (n = 0; status != SERIATIM_OK; n++) {
        int left = n;
        seriatim_allocator mem = {failing_alloc, &left};
        srt_private_redis *p = NULL;
        assert_true(n < 500);
        status = srt_private_redis_start(&mem, folder, NULL, &p);
        assert_true(status == SERIATIM_OK || status == SERIATIM_NOMEM);
        left = 1000;
        srt_private_redis_release(p);
        await_gone(folder, SOON_MS);
    }
    remove_private_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_socket_with_a_long_path_lies_in_a_shorter_folder),
        cmocka_unit_test(test_a_missing_redis_server_is_an_error),
        cmocka_unit_test(test_valkey_server_is_found_too),
        cmocka_unit_test(test_a_server_that_dies_at_its_start_is_an_error),
        cmocka_unit_test(test_unfit_folders_are_refused),
        cmocka_unit_test(test_every_allocation_beside_a_running_redis_may_fail),
        cmocka_unit_test(test_every_allocation_of_a_start_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
