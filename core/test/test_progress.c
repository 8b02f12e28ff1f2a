/*
 * test_progress.c - the line that says how far an operation is: its words, how often it is drawn, and how it is erased.
 */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* struct winsize */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "io/progress.h"

static void says(int64_t count, int64_t total, int64_t elapsed_ms, const char *wanted)
{
    char line[SRT_PROGRESS_LINE];
    srt_done done = {count, "records"};
    assert_int_equal(srt_progress_text(line, "check Orders", &done, total, elapsed_ms), strlen(wanted));
    assert_string_equal(line, wanted);
}

static void test_words(void **state)
{
    (void)state;
    says(1200, 5000, 3000, "check Orders: 1200 of 5000 records (24%), 400/s, 0:09 left");
    says(0, 5000, 3000, "check Orders: 0 of 5000 records (0%)");
    says(1200, 5000, 199, "check Orders: 1200 of 5000 records (24%)");
    says(5000, 5000, 1000, "check Orders: 5000 of 5000 records (100%), 5000/s, 0:00 left");
    says(1200, -1, 3000, "check Orders: 1200 records, 400/s");
    says(5001, 5000, 1000, "check Orders: 5001 records, 5001/s");
    says(1, 4000, 1000, "check Orders: 1 of 4000 records (0%), 1/s, 1:06:39 left");
}

static void test_longest_words(void **state)
{
    char line[SRT_PROGRESS_LINE], what[SRT_PROGRESS_WHAT];
    srt_done done = {INT64_MAX / 2, "twenty bytes of unit"};
    (void)state;
    memset(what, 'w', sizeof what - 1);
    what[sizeof what - 1] = '\0';
    assert_true(srt_progress_text(line, what, &done, INT64_MAX, 200) < sizeof line);
    done.count = 1;
    assert_true(srt_progress_text(line, what, &done, INT64_MAX, INT64_MAX / 2) < sizeof line);
}

/* Opens both ends of a pseudo-terminal with this number of columns. It passes bytes on unchanged. */
static void open_terminal(int *ours, int *theirs, unsigned short columns)
{
    struct winsize size = {24, 0, 0, 0};
    struct termios plain;
    *ours = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(*ours >= 0 && grantpt(*ours) == 0 && unlockpt(*ours) == 0);
    *theirs = open(ptsname(*ours), O_RDWR | O_NOCTTY);
    assert_true(*theirs >= 0 && tcgetattr(*theirs, &plain) == 0);
    plain.c_oflag &= (tcflag_t)~OPOST;
    assert_int_equal(tcsetattr(*theirs, TCSANOW, &plain), 0);
    size.ws_col = columns;
    assert_int_equal(ioctl(*theirs, TIOCSWINSZ, &size), 0);
    assert_int_equal(fcntl(*ours, F_SETFL, O_NONBLOCK), 0);
}

/* The kernel passes on later what is written to a terminal, so this waits until as much has come as is wanted. */
static void shown(int terminal, const char *wanted)
{
    char out[1000];
    size_t len = 0;
    struct pollfd readable = {terminal, POLLIN, 0};
    do {
        ssize_t got = read(terminal, out + len, sizeof out - 1 - len);
        len += got > 0 ? (size_t)got : 0;
    } while (len < strlen(wanted) && poll(&readable, 1, 10000) == 1);
    out[len] = '\0';
    assert_string_equal(out, wanted);
}

static void test_line_is_drawn_ten_times_a_second_and_erased(void **state)
{
    srt_progress p = {0};
    srt_done done = {0, "ids"};
    int ours, theirs;
    (void)state;
    open_terminal(&ours, &theirs, 80);
    assert_int_equal(srt_progress_begin(&p, theirs, "dead retry Q", 12, 1000), 1);
    srt_progress_show(&p, &done, 5000);
    shown(ours, "\rdead retry Q: 0 of 1000 ids (0%)");
    done.count = 10;
    srt_progress_show(&p, &done, 5099);
    shown(ours, "");
    srt_progress_show(&p, &done, 6000);
    shown(ours, "\rdead retry Q: 10 of 1000 ids (1%), 10/s, 1:39 left");
    done.unit = "keys"; /* another unit: the total is not of it */
    done.count = 3;
    srt_progress_show(&p, &done, 6100);
    shown(ours, "\rdead retry Q: 3 keys                              ");
    srt_progress_end(&p);
    shown(ours, "\r                    \r");
    srt_progress_end(&p);
    shown(ours, "");
    close(ours);
    close(theirs);
}

static void test_line_fits_into_the_terminal(void **state)
{
    srt_progress p = {0};
    srt_done done = {0, "ids"};
    int ours, theirs;
    (void)state;
    open_terminal(&ours, &theirs, 8);
    assert_int_equal(srt_progress_begin(&p, theirs, "\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 9, 10), 1);
    srt_progress_show(&p, &done, 1000);
    shown(ours, "\r\xe2\x82\xac\xe2\x82\xac");
    srt_progress_begin(&p, theirs, "a\x1b[2Jb", 6, 10);
    shown(ours, "\r      \r");
    srt_progress_show(&p, &done, 2000);
    shown(ours, "\ra\\u001b");
    srt_progress_end(&p);
    close(ours);
    close(theirs);
}

static void test_nothing_without_a_terminal(void **state)
{
    srt_progress p = {0};
    int fds[2];
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(srt_progress_begin(&p, fds[1], "check", 5, 1), 0);
    assert_int_equal(p.on, 0);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_longest_words),
        cmocka_unit_test(test_line_is_drawn_ten_times_a_second_and_erased),
        cmocka_unit_test(test_line_fits_into_the_terminal),
        cmocka_unit_test(test_nothing_without_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
