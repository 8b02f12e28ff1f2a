/* sets.c - the step ick: calls on two-phase commit sets. */
#include "conformance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static seriatim_text set_of(const value *call)
{
    static const seriatim_text usual = {"k", 1};
    const value *set = value_get(call, "set");
    return set ? value_bytes(set) : usual;
}

/* The token of the object that the step names, for this set; it begins as 0. */
static kept_token *token_of_set(scenario *s, const value *step, const value *call)
{
    static const seriatim_text none = {"", 0};
    const value *label = value_get(step, "object") ? value_get(step, "object") : value_get(step, "as");
    seriatim_text object = label ? label->text : none, set = set_of(call);
    kept_token *t;
    size_t i;
    for (i = 0; i < s->token_count; i++)
        if (text_equal(s->tokens[i].object, object) && text_equal(s->tokens[i].set, set))
            return &s->tokens[i];
    t = &s->tokens[s->token_count < KEPT_TOKENS ? s->token_count++ : KEPT_TOKENS - 1];
    t->object = object;
    t->set = set;
    t->token = 0;
    return t;
}

static seriatim_ick_member numbered_member(size_t number)
{
    seriatim_ick_member m;
    char *name = keep(24);
    m.len = (size_t)snprintf(name, 24, "%lu", (unsigned long)number);
    m.data = name;
    m.score = (double)number;
    return m;
}

/* "numbers": n, or what the list holds: members, or pairs of a score and a member. */
static seriatim_ick_member *members_of(const value *call, size_t *count)
{
    const value *numbers = value_get(call, "numbers"), *given = value_get(call, "pairs"), *item;
    seriatim_ick_member *list;
    size_t i;
    if (!given)
        given = value_get(call, "members");
    *count = numbers ? (size_t)numbers->integer : given ? given->count : 0;
    list = keep((*count + 1) * sizeof *list);
    for (i = 0; numbers && i < *count; i++)
        list[i] = numbered_member(i + 1);
    for (i = 0, item = numbers || !given ? NULL : given->first; item; item = item->next, i++) {
        int pair = item->kind == VALUE_LIST;
        seriatim_text name = value_bytes(pair ? value_at(item, 1) : item);
        list[i].data = name.data;
        list[i].len = name.len;
        list[i].score = pair ? value_number(value_at(item, 0), 0) : 0;
    }
    return list;
}

static int begin_call(scenario *s, const value *step, const value *call)
{
    seriatim_client *client = seriatim_link_client(s->link);
    const value *name = value_get(call, "call"), *as = value_get(step, "as");
    int64_t size = (int64_t)value_number(value_get(call, "size"), 0);
    int backwash = value_true(value_get(call, "backwash"));
    seriatim_ick ick;
    size_t count;
    seriatim_ick_member *members = members_of(call, &count);
    memset(&ick, 0, sizeof ick);
    ick.name = set_of(call);
    ick.consumer.data = as ? as->text.data : NULL;
    ick.consumer.len = as ? as->text.len : 0;
    ick.reserve_time = value_number(value_get(step, "reserve_time"), 0);
    ick.token = token_of_set(s, step, call)->token;
    if (value_says(name, "ickadd"))
        return seriatim_ick_add(client, &ick, members, count);
    if (value_says(name, "ickreserve"))
        return seriatim_ick_reserve(client, &ick, size, backwash);
    if (value_says(name, "ickcommit"))
        return seriatim_ick_commit(client, &ick, members, count);
    if (value_says(name, "ickexchange"))
        return seriatim_ick_exchange(client, &ick, size, backwash, members, count);
    if (value_says(name, "ickstats"))
        return seriatim_ick_stats(client, &ick);
    if (value_says(name, "import"))
        return seriatim_ick_import(client, &ick, value_get(call, "from")->text);
    return seriatim_ick_delete(client, &ick);
}

/* ---- Compared -------------------------------------------------------------------------------- */

/* [[member, score], ...], or {"numbers": n}: "1" to "n", each with its number as the score. */
static void compare_batch(check *c, const value *wanted, const seriatim_ick_result *r)
{
    const value *numbers = value_get(wanted, "numbers"), *pair = numbers ? NULL : wanted->first;
    size_t count = numbers ? (size_t)numbers->integer : wanted->count, i;
    if (r->count != count)
        wrong(c, "%lu members were reserved, not %lu", (unsigned long)r->count, (unsigned long)count);
    for (i = 0; r->count == count && i < count; i++, pair = pair ? pair->next : NULL) {
        seriatim_ick_member expected = numbers ? numbered_member(i + 1) : r->members[i];
        seriatim_text member = {r->members[i].data, r->members[i].len}, name = {expected.data, expected.len};
        name = numbers ? name : value_bytes(value_at(pair, 0));
        expected.score = numbers ? expected.score : value_number(value_at(pair, 1), 0);
        if (text_equal(name, member) && !(r->members[i].score < expected.score) &&
            !(r->members[i].score > expected.score))
            continue;
        wrong(c, "member %lu is %.*s with the score %.17g, not %.*s with %.17g", (unsigned long)i, (int)member.len,
              member.data, r->members[i].score, (int)name.len, name.data, expected.score);
        return;
    }
}

static found found_score(double score)
{
    return isnan(score) ? found_nothing() : found_number(score);
}

static void compare_stats(check *c, const value *wanted, const seriatim_ick_result *r)
{
    if (wanted->kind == VALUE_NULL || !r->exists) {
        if (r->exists || wanted->kind != VALUE_NULL)
            wrong(c, r->exists ? "the set exists" : "the set does not exist");
        return;
    }
    compare(c, value_get(wanted, "ver"), found_word(r->version), "ver");
    compare(c, value_get(wanted, "pset_key"), found_text(r->producer_key), "pset_key");
    compare(c, value_get(wanted, "cset_key"), found_text(r->consumer_key), "cset_key");
    compare(c, value_get(wanted, "pset_size"), found_number((double)r->producer.size), "pset_size");
    compare(c, value_get(wanted, "cset_size"), found_number((double)r->consumer.size), "cset_size");
    compare(c, value_get(wanted, "total_size"), found_number((double)r->total.size), "total_size");
    compare(c, value_get(wanted, "consumers"), found_number((double)r->consumers), "consumers");
    compare(c, value_get(wanted, "pset_min"), found_score(r->producer.lowest), "pset_min");
    compare(c, value_get(wanted, "pset_max"), found_score(r->producer.highest), "pset_max");
    compare(c, value_get(wanted, "cset_min"), found_score(r->consumer.lowest), "cset_min");
    compare(c, value_get(wanted, "cset_max"), found_score(r->consumer.highest), "cset_max");
}

static void compare_result(scenario *s, const value *step, const value *call, const seriatim_ick_result *r, check *c)
{
    const value *name = value_get(call, "call"), *wanted = value_get(call, "expect");
    if (r->token)
        token_of_set(s, step, call)->token = r->token;
    if (!wanted)
        return;
    if (value_says(name, "ickreserve") || value_says(name, "ickexchange"))
        compare_batch(c, wanted, r);
    else if (value_says(name, "ickstats"))
        compare_stats(c, wanted, r);
    else if (value_says(name, "ickcommit"))
        compare(c, wanted, found_number((double)r->ended), "ickcommit");
    else if (wanted->kind != VALUE_LIST)
        compare(c, wanted, found_number((double)r->deleted), "ickdel");
    else {
        compare(c, value_at(wanted, 0), found_number((double)r->added), "added");
        compare(c, value_at(wanted, 1), found_number((double)r->lowered), "lowered");
    }
}

int do_ick(scenario *s, queue *q, const value *step, check *c)
{
    seriatim_client *client = seriatim_link_client(s->link);
    const value *calls = value_get(step, "calls"), *call = calls ? calls->first : step;
    const seriatim_ick_result *results;
    size_t count, i;
    int status = seriatim_ick_begin(client);
    (void)q;
    for (; call && status == SERIATIM_OK; call = calls ? call->next : NULL)
        status = begin_call(s, step, call);
    if (status == SERIATIM_OK)
        status = scenario_drive(s, seriatim_ick_send(client));
    if (status != SERIATIM_OK)
        return status;
    results = seriatim_ick_results(client, &count);
    for (i = 0, call = calls ? calls->first : step; i < count; i++, call = calls ? call->next : NULL)
        compare_result(s, step, call, &results[i], c);
    return SERIATIM_OK;
}
