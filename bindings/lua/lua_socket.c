/*
 * lua_socket.c - native.listen, .listener, .channel and .poll: what a small server of one's own needs of sockets. None
 * of them blocks.
 */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "seriatim_native.h" /* hides what is declared after it */

#define SOCKET "seriatim.Socket"
#define SOCKET_BACKLOG 128
#define SOCKET_READ 16384
#define SOCKET_PEEK 64

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

typedef struct slu_socket {
    int fd;   /* -1: closed */
    int lent; /* another Lua state closes it */
} slu_socket;

static slu_socket *socket_at(lua_State *L, int at)
{
    return luaL_checkudata(L, at, SOCKET);
}

static slu_socket *socket_push(lua_State *L)
{
    slu_socket *self = slu_new(L, SOCKET, sizeof *self);
    self->fd = -1;
    return self;
}

static void socket_prepare(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* ---- Listening ------------------------------------------------------------------------------- */

static int listen_at(int fd, const struct sockaddr *address, socklen_t len)
{
    int on = 1;
    if (fd < 0)
        return -1;
    socket_prepare(fd);
    if (address->sa_family != AF_UNIX)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(fd, address, len) == 0 && listen(fd, SOCKET_BACKLOG) == 0 ? 0 : -1;
}

/* A socket that nobody listens at any more is in the way of ours. */
static void unix_clear(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED)
        (void)unlink(address->sun_path);
    if (fd >= 0)
        close(fd);
}

/* native.listen_unix(path) */
static int socket_listen_unix(lua_State *L)
{
    const char *path = slu_cstr(L, 1, "path");
    struct sockaddr_un address;
    slu_socket *self = socket_push(L);
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address.sun_path)
        return slu_nil(L, "IO", strerror(ENAMETOOLONG));
    strcpy(address.sun_path, path);
    unix_clear(&address);
    self->fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (listen_at(self->fd, (const struct sockaddr *)&address, sizeof address) != 0 || chmod(path, 0600) != 0)
        return slu_nil(L, "IO", strerror(errno));
    return 1;
}

static int listen_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

/* native.listen(address, port): the socket, and its port where 0 chose one. The address is in figures. */
static int socket_listen(lua_State *L)
{
    const char *host = slu_cstr(L, 1, "address");
    struct addrinfo hints, *found = NULL;
    slu_socket *self;
    char port[24];
    int code, bound;
    snprintf(port, sizeof port, "%d", slu_int(L, 2, "port"));
    self = socket_push(L);
    memset(&hints, 0, sizeof hints);
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
    code = getaddrinfo(host, port, &hints, &found);
    if (code != 0)
        return slu_nil(L, "IO", gai_strerror(code));
    self->fd = socket(found->ai_family, SOCK_STREAM, 0);
    bound = listen_at(self->fd, found->ai_addr, found->ai_addrlen);
    code = errno;
    freeaddrinfo(found);
    if (bound != 0)
        return slu_nil(L, "IO", strerror(code));
    lua_pushinteger(L, listen_port(self->fd));
    return 2;
}

/* native.listener(fd): another Lua state's, which must outlive this one's use */
static int socket_listener(lua_State *L)
{
    int fd = slu_int(L, 1, "fd");
    slu_socket *self = socket_push(L);
    self->fd = fd;
    self->lent = 1;
    return 1;
}

/* native.channel(): both ends of a channel by which one Lua state hands sockets over to another one of its process */
static int socket_channel(lua_State *L)
{
    int ends[2];
    slu_socket *first = socket_push(L), *second = socket_push(L);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0)
        return slu_nil(L, "IO", strerror(errno));
    socket_prepare(first->fd = ends[0]);
    socket_prepare(second->fd = ends[1]);
    return 2;
}

/* ---- One connection -------------------------------------------------------------------------- */

static int socket_again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* socket:accept(): nil: nobody connects now */
static int socket_accept(lua_State *L)
{
    const slu_socket *listener = socket_at(L, 1);
    slu_socket *self = socket_push(L);
    int on = 1;
    self->fd = accept(listener->fd, NULL, NULL);
    if (self->fd < 0)
        return 0;
    socket_prepare(self->fd);
    (void)setsockopt(self->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return 1;
}

/* socket:receive(): bytes; nil: none now; false: there will be no more */
static int socket_receive(lua_State *L)
{
    const slu_socket *self = socket_at(L, 1);
    char data[SOCKET_READ];
    ssize_t got = recv(self->fd, data, sizeof data, 0);
    if (got > 0)
        lua_pushlstring(L, data, (size_t)got);
    else if (got < 0 && socket_again())
        lua_pushnil(L);
    else
        lua_pushboolean(L, 0);
    return 1;
}

/* socket:send(bytes, from): how many it took of those from that place on; false: it is closed */
static int socket_send(lua_State *L)
{
    const slu_socket *self = socket_at(L, 1);
    size_t len, from = slu_place(L, 3, "from");
    const char *data = slu_text(L, 2, "bytes", &len);
    ssize_t sent;
    luaL_argcheck(L, from <= len, 3, "beyond the end");
    sent = send(self->fd, data + from, len - from, MSG_NOSIGNAL);
    if (sent >= 0 || socket_again())
        lua_pushinteger(L, sent < 0 ? 0 : (lua_Integer)sent);
    else
        lua_pushboolean(L, 0);
    return 1;
}

/*
 * socket:peek(count): the next bytes, at most count, which the next receive gives again; nil: none now; false: there
 * will be no more
 */
static int socket_peek(lua_State *L)
{
    const slu_socket *self = socket_at(L, 1);
    size_t count = slu_size(L, 2, "count");
    char bytes[SOCKET_PEEK];
    ssize_t got;
    luaL_argcheck(L, count >= 1 && count <= sizeof bytes, 2, "not from 1 to 64");
    got = recv(self->fd, bytes, count, MSG_PEEK);
    if (got > 0)
        lua_pushlstring(L, bytes, (size_t)got);
    else if (got < 0 && socket_again())
        lua_pushnil(L);
    else
        lua_pushboolean(L, 0);
    return 1;
}

/*
 * socket:hand_over(channel): to whoever takes it at the channel's other end, and closed here; false: the channel is
 * full
 */
static int socket_hand_over(lua_State *L)
{
    slu_socket *self = socket_at(L, 1);
    const slu_socket *channel = socket_at(L, 2);
    int is_sent = send(channel->fd, &self->fd, sizeof self->fd, MSG_NOSIGNAL) == (ssize_t)sizeof self->fd;
    if (is_sent)
        self->fd = -1;
    lua_pushboolean(L, is_sent);
    return 1;
}

/* channel:take(): a socket that was handed over; nil: none now */
static int socket_take(lua_State *L)
{
    const slu_socket *channel = socket_at(L, 1);
    slu_socket *self = socket_push(L);
    int fd;
    if (recv(channel->fd, &fd, sizeof fd, 0) != (ssize_t)sizeof fd)
        return 0;
    self->fd = fd;
    return 1;
}

/* socket:finish(): nothing more is sent; what comes may still be received */
static int socket_finish(lua_State *L)
{
    (void)shutdown(socket_at(L, 1)->fd, SHUT_WR);
    return 0;
}

static int socket_fd(lua_State *L)
{
    lua_pushinteger(L, socket_at(L, 1)->fd);
    return 1;
}

/* Also __gc. */
static int socket_close(lua_State *L)
{
    slu_socket *self = socket_at(L, 1);
    if (self->fd >= 0 && !self->lent)
        close(self->fd);
    self->fd = -1;
    return 0;
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* native.poll(sockets, words, seconds): the places of those that are ready; word[i] "write": for writing. */
static int socket_poll(lua_State *L)
{
    struct pollfd *fds;
    size_t count, i;
    int found = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    count = slu_rawlen(L, 1);
    fds = lua_newuserdata(L, (count + 1) * sizeof *fds);
    for (i = 0; i < count; i++) {
        lua_rawgeti(L, 1, (int)(i + 1));
        lua_rawgeti(L, 2, (int)(i + 1));
        fds[i].fd = socket_at(L, -2)->fd;
        fds[i].events = lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "write") == 0 ? POLLOUT : POLLIN;
        fds[i].revents = 0;
        lua_pop(L, 2);
    }
    slu_poll(fds, (nfds_t)count, slu_deadline(L, 3), L);
    lua_newtable(L);
    for (i = 0; i < count; i++)
        if (fds[i].revents) {
            lua_pushinteger(L, (lua_Integer)i + 1);
            lua_rawseti(L, -2, ++found);
        }
    return 1;
}

void slu_open_socket(lua_State *L)
{
    static const luaL_Reg methods[] = {{"accept", socket_accept}, {"receive", socket_receive},
                                       {"send", socket_send},     {"finish", socket_finish},
                                       {"fd", socket_fd},         {"close", socket_close},
                                       {"peek", socket_peek},     {"hand_over", socket_hand_over},
                                       {"take", socket_take},     {NULL, NULL}};
    static const luaL_Reg functions[] = {{"listen", socket_listen},     {"listen_unix", socket_listen_unix},
                                         {"listener", socket_listener}, {"channel", socket_channel},
                                         {"poll", socket_poll},         {NULL, NULL}};
    slu_class(L, SOCKET, methods, socket_close);
    slu_functions(L, functions);
}
