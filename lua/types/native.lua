---@meta seriatim.native
-- The C glue: convert, call, convert. Everything public lies above it. Misuse raises; failures return nil, kind, message, where kind
-- is the name of a core's status ("IO", "TIMEOUT", "FULL", ...). Misuse is the status INVALID, too, but where a connection, runner or
-- URL is made: those give it as nil, "INVALID", message. Places (of jobs, ids, payloads, shards) count from 1; the numbers of queues,
-- workers and groups, and shards within a queue, are the core's and count from 0: without groups of its own a runner has group 0.
-- Functions that have nothing to give return true. After a fork nothing that was inherited is touched: nil, "CLOSED", message.

---What the core says of a setting. low, high: the range, of a text that of its bytes; words: of the kind "word". nil where it is optional.
---@class seriatim.WorkerSetting
---@field name string
---@field kind "text"|"word"|"integer"|"seconds"|"flag"
---@field optional boolean
---@field default any
---@field low number
---@field high number
---@field words string[]?

---@alias seriatim.JobRow table  a list: {id, payload, score or false, when (0 now, 1 at, 2 delay), time, retry_count, on_waiting or false, context or false}

---@class seriatim.native
---@field version string
---@field max_payload integer  bytes
---@field null lightuserdata  JSON's null; NULL, as cjson.null is
---@field array_mt table  the metatable of lists, also of empty ones
local native = {}

---Canonical JSON. root: what the path in an error begins with. Raises where the value has no JSON form.
---@return string
function native.dump(value, root) end
---What the JSON text says; nil, "UNDECODABLE", message where it is none.
---@param bytes string
function native.load(bytes) end
---Rows of jobs as they usually are; nil: something about them is unusual, or wrong. raw: payloads are bytes, not JSON.
---@param jobs seriatim.Job[]
---@param raw boolean
---@return seriatim.JobRow[]?
function native.rows(jobs, raw) end
---LuaJIT alone: how an int64_t cdata is made of a decimal text, and the text of a value if it is such a cdata (else nil).
---@param from_text fun(text: string): any
---@param to_text fun(value: any): string?
function native.set_int64(from_text, to_text) end

---Those that the users of a worker may write.
---@return seriatim.WorkerSetting[]
function native.worker_settings() end
---@param count integer
---@return number seconds
function native.back_off(count) end
---The same by the table of delayedQueue.
---@param count integer
---@return number seconds
function native.back_off_of_events(count) end
---As a terminal and a log of lines may show it: control characters are escaped, and bytes that are no UTF-8.
---@param text string
---@return string
function native.printable(text) end
---What the command says of itself: "help", "help VERB", "completion bash", "completion zsh", "completion fish", "man", "verbs", "options",
---"option OPTION".
---@return string?
function native.command_text(topic) end
---node: from 0.
---@return integer[][] groups of the places of this node's shards
function native.split(shards, nodes, node, threads) end
---@return integer from 0
function native.shard_of(id, shards_count) end
---Milliseconds of a monotonic clock.
---@return integer
function native.now_ms() end
---Seconds since 1970 with fractions (wall clock): for the log.
---@return number
function native.time() end
---@param seconds number
function native.sleep(seconds) end
---@param bytes integer
---@return string hex of that number of random bytes
function native.random_hex(bytes) end
---All routes of the dashboard beside the page and its files; role: the least that it asks for.
---@return {method: string, pattern: string, role: integer, mutates: boolean}[]
function native.web_routes() end
---The longest body of a request, in bytes.
---@type integer
native.web_max_body = nil
---@return integer
function native.getpid() end
---@return string
function native.hostname() end
---Opens /dev/null, not for writing, as each of the descriptors 0 to 2 that is closed.
function native.fill_standard_descriptors() end
---scheme ("redis", "rediss", "unix", "redis+sentinel", "redis+cluster"), host, port, path, user, password, database, redacted; of a
---cluster also tls and hosts, a list of {host, port}
---@return table|nil url, string? kind, string? message
function native.parse_url(url) end
---What the error of a connection that could not be made says. url: without its password; url_from: the setting or variable
---that holds it, if it is known.
---@return string
function native.connect_error(url, reason, url_from) end

---Operations of Link and Client. Each begins something; when it has ended, result() gives what stands behind "Result".
---@class seriatim.Operations
local operations = {}
---@return integer number
function operations:queue(settings) end
function operations:push(queue, rows, replicas, wait_timeout, push_timeout) end -- Result: added, folded, {places of refused jobs}, what was said of too few replicas or nil, what is to be warned of or nil
---Each push: {queue, rows, replicas, wait_timeout, push_timeout, handles}.
function operations:pipeline(pushes) end -- Result: for each push {added, folded, {places of refused jobs}, kind or false, message or false, scheduled, stale, {handles}, one letter a job or nil where all were written}, then kind and message of what they end with or false, and what is to be warned of or nil
---Raises what a push of the rows would before it is sent; begins nothing.
function operations:check_jobs(queue, rows) end
function operations:layout(queue) end -- Result: shards_count as Redis has it, 0 when there is no such queue
---kind and name: as core/definitions/operations.json has them; min, max, limit, ids, texts: or nil
---@param kind seriatim.QueryName
function operations:query(queue, kind, reverse, min, max, limit, shard, ids) end -- Result: a list of tables with all fields of each record; shard -1: all
---@param name seriatim.ActionName
function operations:action(queue, name, texts) end -- Result: what the action returns
function operations:metrics(queue) end -- Result: a table; its shards' at .shards
function operations:explain(queue, id) end -- Result: a table
function operations:check(queue, repair) end -- Result: how many records it looked at, findings
function operations:nodes() end -- Result: seriatim.NodeInfo[]
---@param command seriatim.OrderName
function operations:node_command(node, command) end -- Result: such a node is alive
---A call on a two-phase commit set: its name, the set, the token, max_size, backwash, members, their scores or nil.
---@class seriatim.IckCall: any[]
---@class seriatim.IckRow
---@field added integer
---@field lowered integer
---@field ended integer
---@field deleted integer
---@field token integer
---@field pairs seriatim.IckPair[]
---@field stats seriatim.IckStats?
---@param consumer string
---@param reserve_time number
---@param calls seriatim.IckCall[]
function operations:ick(consumer, reserve_time, calls) end -- Result: seriatim.IckRow[]
function operations:queues() end -- Result: names
---@param queues integer[]  numbers
---@param weights integer[]?  one for each queue
function operations:pop(queues, weights, wait, ttr, max) end -- Result: false, or a table: queue, id, fence, deliveries, token or nil, payloads {{bytes, score, stamp, context or nil}, ...}
---seconds, text and payloads (as pop gave them, or a part of them): nil where the kind has no use for them.
---@param kind "ack"|"fail"|"release"|"extend"|"snooze"|"checkpoint"|"reject"
function operations:popped(token, kind, seconds, text, payloads) end -- Result: true
function operations:health() end -- Result: maxmemory_policy or nil, appendonly or nil, number of replicas or nil
---One request of the dashboard. settings: title, read_only, consume, hosts, token, stalled, workers (a list name, queue, name, queue, ...); request: method, prefix, path, query, host, origin,
---sec_fetch_site, content_type, authorization, accept, body, secure, role (0 nobody, 1 viewer, 2 operator, 3 admin, 4 consumer), host_waits, waited_ms, as in seriatim.h. redact: a function of queue, id
---and text, or nil; load_error: a function of a stored error, or nil; what they raise, result() raises. However the operation ends there is an
---answer, and result() gives it.
function operations:web(settings, request, redact, load_error) end -- Result: status, {[name] = value} of the header fields, body, seriatim.WebChange with its `line` for a log or nil, milliseconds after which a pop is asked again or 0; or 0 alone: web_go_on
---Goes on with the request whose result was 0. Result: as of web.
function operations:web_go_on() end
function operations:result() end

---One connection that waits by poll(2): for plain Lua.
---@class seriatim.Link: seriatim.Operations
local link = {}
---@return seriatim.Link|nil, string?, string?
function native.link(url, namespace, name, max_payload, url_from) end
---Waits for the end of what was begun, for `seconds` at most (nil: as the core allows). Its result; or nil, kind, message.
function link:drive(seconds) end
function link:url() end
function link:reset() end
---The next action on a whole queue, or the next check, says on stderr how far it is. false: that is no terminal.
---@param what string  the words in front of the figures
---@param total integer?  how many ids or records there are
---@return boolean
function link:progress(what, total) end
function link:close() end

---The same without a socket: the host does the I/O.
---@class seriatim.Client: seriatim.Operations
local client = {}
---@return seriatim.Client|nil, string?, string?
function native.client(namespace, name, max_payload) end
---The client is one of the Redis Cluster that this address leads to, as others do. Before its first operation.
function client:seed(host, port) end
---Does what is due in a cluster; before the functions below. Milliseconds until it is to be called again; nil: when bytes have come.
---@return integer?
function client:tick() end
---Number, host, port of a master at a place from 1; whether a connection is wanted, which is to be closed if it is not; whether it has
---not answered all that was asked. Nil: there are no more. Without a `master`, the functions below mean the one Redis.
---@return integer?, string, integer, boolean, boolean
function client:master(place) end
---The host gives the connection to others. False: it must be closed.
---@return boolean
function client:left(master) end
---@return integer  how many answers operations have got
function client:answers() end
---Kind and message of why requests are sent again; nil: they are not.
function client:held_up() end
---user, password: or nil. fresh false: a kept-alive connection whose handshake was made before.
function client:connected(user, password, database, fresh, master) end
function client:disconnected(master) end
---Each connection is asked whether it leads to a master; a replica ends it as READONLY. node:expect_masters() does the same.
function client:expect_master() end
---@return string bytes to send now, maybe ""
function client:output(master) end
function client:sent(count, master) end
---true, or nil, kind, message: close this connection
function client:input(bytes, master) end
---"again" while something is under way, true when it ended well, or nil, kind, message
function client:status() end
---Seconds that the operation under way may take as a whole: of a push. nil: only the time without an answer is limited.
function client:limit() end
---Milliseconds that are left of them, before each input.
function client:tell_left(ms) end
---Milliseconds for which a pop that waits sleeps; nil: nothing sleeps. Meanwhile there is nothing to send, and no answer comes.
---@return integer?
function client:sleeps() end
---Does it sleep before it sends again what shards could not take yet? That may last for ever, so no limit begins again.
---@return boolean
function client:repeats() end
---Is it a push that keeps its connections while it sleeps, because replicas are counted on them?
---@return boolean
function client:keeps() end
---Ends the sleep: its time is over, or a message came on one of the channels.
function client:wake() end
---Milliseconds since the operation was begun, before each input and wake of a pop that waits.
function client:tell_spent(ms) end
---The names of the wake-up channels of the queues of a pop that sleeps.
---@return string[]
function client:channels() end
---Does the host listen to all channels of the queues of a pop? If it does not, the pop sleeps for short times.
function client:listens(is_so) end
---Ends what is under way (kind: "IO", "TIMEOUT", or what input said); a push may make it UNKNOWN_OUTCOME. Gives what status() does.
function client:give_up(kind, why) end
function client:close() end

---Where the master of a redis+sentinel:// URL is, for hosts with sockets of their own.
---@class seriatim.Sentinel
local sentinel = {}
function native.sentinel(url) end
---All of them may be asked again.
function sentinel:begin() end
---host, port, tls of the one to ask now; or nil, kind, message: all were asked.
function sentinel:next() end
---@return string bytes to send to it
function sentinel:output() end
---"again"; host, port, tls of the master; or nil: this one does not know.
function sentinel:input(bytes) end
---This one cannot be asked, and why.
function sentinel:failed(why) end
---The master that was named has answered a request: the next round begins with the same sentinel.
function sentinel:served() end

---What a runner and a node share. @class seriatim.Deliveries
local deliveries = {}
---Its number. A runner or node that was started serves the queue from then on. text: for other states, which find it in change.
---@return integer
function deliveries:worker(settings, text) end
function deliveries:group(scheduler, pairs) end -- {{worker, shard}, ...}, shard from 0
---A Delivery; nil: none now (a runner waits for `seconds` first, where nil means as long as it takes; a node never waits); false:
---none will come any more. reusable: an earlier Delivery that nobody else holds: it is settled first, filled again and returned.
function deliveries:take(group, seconds, reusable) end
---As take(group, nil, delivery), once all ids of the delivery are done; and the payloads of what follows, as payloads_by_id() gives
---them, where that is a run of the same worker.
function deliveries:advance(group, delivery) end
function deliveries:take_from(group, worker, shard) end
---As take, but only dead ids and ids in doubt, which no scheduler chooses. If there are no such ids, a runner waits up to `seconds`
---until a take may give something, and the answer is nil.
function deliveries:take_unscheduled(group, seconds) end
function deliveries:candidates(group, cap) end -- {{worker, shard, lag, size}, ...}
function deliveries:event() end -- kind, number, text; nil: none
function deliveries:pulse() end
---Claims nothing more of the queue of this worker, and hands the shards over. False: it was withdrawn before.
function deliveries:withdraw(worker) end
---Number, worker and text of the first change of the workers after that number (0: of all); nothing if no change came after it.
---Text nil: the worker was withdrawn.
function deliveries:change(number) end
function deliveries:quiet() end
function deliveries:stop() end
function deliveries:abandon() end
function deliveries:asked() end -- "quiet", "stop" or nil: what the heartbeat brought and the host has not done
function deliveries:stopped() end
---What threads have in hand, in one line for the log: "3 ids: Orders 17, Orders 18 and 1 more".
---@return string
function deliveries:unfinished() end
function deliveries:stats() end
function deliveries:close() end

---@class seriatim.Runner
---settings: url, namespace, name, id, description, lease_ms, poll_ms, threads, scheduler
function native.runner(settings) end
-- runner:start(); runner:handle() -> a light userdata for one native.runner_of(handle) in another Lua state of this process, which it
-- holds the runner for. close() ends it for all states, and their waits.

---@class seriatim.Node  as a runner, without sockets and thread. Channels: 1 commands, 2 wakes; of a cluster 2 wakes of any master, and
---those of node:master
function native.node(settings) end
-- node:start(); node:connected(channel, user, password, database); node:disconnected(channel); node:output(channel) -> bytes
-- node:sent(channel, count); node:input(channel, bytes) -> true or nil, kind, message; node:tick() -> ms until the next tick is wanted
-- node:news(group): may a take give something since this was last asked? node:waits(channel): does Redis owe an answer there?
-- node:served(channel): has that connection answered more than its greeting?
-- (A runner takes a connection for dead when one is owed for 15 s.) After input, settle or an order, tick and send what output has.
-- node:seed(host, port): it is one of the cluster that this address leads to; before the start. node:master(place) -> channel, host,
-- port, wanted of the place from 1; nil: there are no more.

---@class seriatim.Delivery
local delivery = {}
---"run", "died" or "exhausted"; and what worker() gives
function delivery:kind() end
function delivery:worker() end
function delivery:shard() end
function delivery:size() end
---id, fence, retry_count, perform_in, error or nil, {{bytes, score, context or nil}, ...}, payload_total
function delivery:job(place) end
---Seconds since it was taken.
function delivery:elapsed() end
---The ids, in order.
function delivery:ids() end
---{id = {what each payload's JSON says}}; nil when one of them cannot be read
function delivery:payloads_by_id() end
function delivery:done(place) end
function delivery:done_all() end
function delivery:fail(place, error, retry_in) end
function delivery:release(place) end
function delivery:reject(place, places, reason) end
function delivery:extend(place, seconds) end
---true, or nil, kind, message
function delivery:checkpoint(place, count) end
---Of a runner's: waits until Redis has confirmed all its checkpoints. Of a node's: false while it has not.
---@return boolean|nil, string? kind, string? message
function delivery:flush() end
function delivery:snooze(place, seconds, payload) end
---After fail or reject: the event as which it is to be logged. nil: it is counted, and an event tells how many.
---@return string?
function delivery:failure(place) end
function delivery:settle() end

---A stream of bytes that never blocks, or one that listens. Closed by the collector, too.
---@class seriatim.Socket
local socket = {}
---Listens; port 0 chooses one. address: in figures, as "127.0.0.1" or "::1".
---@return seriatim.Socket|nil, integer|string port, string? message
function native.listen(address, port) end
---Only this user may connect. One that nobody listens at any more is replaced.
---@return seriatim.Socket|nil, string? kind, string? message
function native.listen_unix(path) end
---A descriptor of socket:fd() in another Lua state of this process, which must keep it open.
---@return seriatim.Socket
function native.listener(fd) end
---Both ends of a channel by which one Lua state hands sockets over to another one of its process.
---@return seriatim.Socket|nil, seriatim.Socket|string, string? message
function native.channel() end
---The places of those that are ready, after `seconds` at most. words[i]: "write" waits for room, else for something to come.
---@param sockets seriatim.Socket[]
---@param words string[]
---@return integer[]
function native.poll(sockets, words, seconds) end
---nil: nobody connects now
---@return seriatim.Socket?
function socket:accept() end
---nil: nothing is there now; false: nothing more will come
---@return string|false|nil
function socket:receive() end
---How many of the bytes from that place on it took; false: it is closed.
---@return integer|false
function socket:send(bytes, from) end
---Nothing more is sent; what comes may still be received.
function socket:finish() end
---@param count integer  1 to 64
---@return string|false|nil bytes  the next ones, at most count, which receive gives again; nil: none now; false: there will be no more
function socket:peek(count) end
---To whoever takes it at the channel's other end; it is closed here. False: the channel is full for now.
---@param channel seriatim.Socket
---@return boolean
function socket:hand_over(channel) end
---@return seriatim.Socket?  one that was handed over; nil: none now
function socket:take() end
---@return integer
function socket:fd() end
function socket:close() end

---@class seriatim.Places  a count over the Lua states of a process
local places = {}
---@param shared lightuserdata?  what share() of another Lua state's places returned: both count together
---@return seriatim.Places
function native.places(shared) end
---@return lightuserdata
function places:share() end
---@return integer
function places:taken() end
---@param most integer
---@return seriatim.Place?  :leave() gives it back, as does the garbage collector; nil: `most` are taken
function places:take(most) end

---@class seriatim.PrivateRedis  native.private_redis(folder) -> it, or nil, kind, message; :url(), :started(), :release()

---Starts an OS thread with a Lua state of its own that runs this chunk with these arguments (strings, numbers, booleans, light userdata).
---@return seriatim.Thread  :alive(), :join(seconds) -> true when it ended, with the chunk's error as second value if it failed; :traceback(seconds) -> text
---("no answer: ..." where it is inside C code of others, a coroutine, or LuaJIT's compiled code). Asked for by SIGURG.
function native.thread(chunk, name, ...) end
---Signals as words: after this, native.signal(seconds) waits for the next one of them and gives its name ("TERM", "INT", "TSTP", "TTIN", "CHLD") or nil.
---exit_on_second: nil or true: the second TERM or INT ends the process at once with exit code 1 (a TERM within a second of the latest
---that counted does not count); "first": the first one does with exit code 0, as while the application is loaded; "mark": none does, but
---native.signal tells of the second one (a supervisor, which kills its children then); false: none does (the processes below one, for
---which it means nothing).
---@param names string[]
---@param exit_on_second boolean|"first"|"mark"|nil
function native.catch_signals(names, exit_on_second) end
---parent: a descriptor of native.spawn's (below); when it becomes readable, the word is "PARENT".
---@return string?
---@return boolean?  true, of "mark": it is a TERM or INT that is to end the process at once
function native.signal(seconds, parent) end
---Blocks TERM and INT in this thread; false: takes those that came meanwhile. catch_signals does so, too.
---@param hold boolean
function native.hold_signals(hold) end
---Ends the process at once, without unwinding.
function native.exit(code) end
---Starts a process (execvp) in a session of its own: argv, in which "%parent%" is replaced by the number of a descriptor that
---it inherits and that becomes readable when this process is gone. pid, or nil, kind, message.
function native.spawn(argv) end
---pid, "exit" or "signal", number of a child that ended; nil: none did
function native.reap() end
function native.kill(pid, name) end
return native
