/* policy.c - computes which node should own which shard, and the back-off of retries and reconnects. */
#include "model/policy.h"

#include <math.h>

static uint64_t policy_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t srt_hash(const void *data, size_t len)
{
    const unsigned char *at = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    while (len--)
        hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
    return policy_mix(hash);
}

/* If the shards cannot be shared evenly, the nodes with the highest hash for this queue take one shard more. */
static unsigned share_limit(uint64_t queue, const uint64_t *nodes, size_t count, unsigned shards, size_t node)
{
    uint64_t mine = policy_mix(queue ^ nodes[node]);
    size_t i, better = 0;
    for (i = 0; i < count; i++)
        better += policy_mix(queue ^ nodes[i]) > mine;
    return shards / (unsigned)count + (better < shards % count);
}

/* Rendezvous hashing with a limit a node. */
void srt_share_shards(uint64_t queue, const uint64_t *nodes, size_t count, unsigned shards, unsigned *owners,
                      unsigned *load)
{
    unsigned shard;
    size_t i;
    for (i = 0; i < count; i++)
        load[i] = share_limit(queue, nodes, count, shards, i);
    for (shard = 0; shard < shards; shard++) {
        uint64_t seed = policy_mix(queue + shard + 1), best = 0;
        size_t choice = count;
        for (i = 0; i < count; i++) {
            uint64_t weight = policy_mix(seed ^ nodes[i]);
            if (load[i] > 0 && (choice == count || weight > best)) {
                choice = i;
                best = weight;
            }
        }
        owners[shard] = (unsigned)choice;
        load[choice]--;
    }
}

int64_t srt_reconnect_delay(unsigned attempt, uint64_t random)
{
    int64_t delay = attempt < 5 ? (int64_t)50 << attempt : 1000;
    return delay - (int64_t)(random % (uint64_t)(delay / 2));
}

double seriatim_back_off(int64_t retry_count, double random)
{
    double count = retry_count > 0 ? (double)retry_count : 0;
    double spread = random >= 0 && random < 1 ? floor(30 * random) : random >= 1 ? 29 : 0;
    double seconds = count * count * count * count + 15 + spread * (count + 1);
    return seconds < SRT_CENTURY_SECONDS ? seconds : SRT_CENTURY_SECONDS;
}

double seriatim_back_off_of_events(int64_t retry_count)
{
    return retry_count < 8 ? 10 : retry_count < 18 ? 60 : retry_count < 38 ? 300 : 1440;
}

size_t seriatim_split(size_t shards, size_t nodes, size_t node, size_t threads, size_t *groups)
{
    size_t i, own = 0;
    for (i = 0; i < shards; i++)
        groups[i] = threads > 0 && nodes > 0 && i % nodes == node ? own++ % threads : SERIATIM_ELSEWHERE;
    return own < threads ? own : threads;
}
