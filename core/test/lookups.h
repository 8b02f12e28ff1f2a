/* lookups.h - what a test program looks up by getaddrinfo, and links that say before whether they may. */
#ifndef SRT_TEST_LOOKUPS_H
#define SRT_TEST_LOOKUPS_H

#include "seriatim.h"

/*
 * Steps the link once, and returns its status. The step fails the test if it looks up a host, by name or address,
 * though srt_link_may_resolve said that it would not. *lookups counts what it looks up.
 */
int step_and_count_lookups(seriatim_link *link, int *lookups);
/* The same until the operation has ended. */
int drive_and_count_lookups(seriatim_link *link, int *lookups);

/* From now on a look-up of "late.test" takes so long, except for the first ones, whose number is `quick`. */
void make_lookups_late(int ms, int quick);

#define DROPPING_SOCKETS 4
/* From now on packets to this port of the first address of "two.test" are dropped, until end_dropping. */
void drop_packets_to_the_first_address(int *sockets, int port);
void end_dropping(const int *sockets);

#endif
