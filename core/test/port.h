/* port.h - TCP ports of the loopback, for tests that start servers or are one. */
#ifndef SRT_TEST_PORT_H
#define SRT_TEST_PORT_H

/*
 * A port that nobody listens on. It is below those that the system gives to outgoing connections, so that none of these
 * takes it before its server does.
 */
int free_port(void);

/* A socket bound to some port, listening unless `backlog` is negative. The caller closes it. */
int listen_on_loopback(int backlog, int *port);

#endif
