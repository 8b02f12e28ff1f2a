/*
 * before.h - for a core that has no seriatim_runner_settle_and_take yet: bench/profile builds the worker against it,
 * too.
 */
#ifndef BEFORE_H
#define BEFORE_H

#include "seriatim.h"

static inline int seriatim_runner_settle_and_take(seriatim_runner *runner, seriatim_delivery *settled, size_t group,
                                                  seriatim_delivery **next)
{
    if (settled)
        seriatim_runner_settle(runner, settled);
    return seriatim_runner_take(runner, group, next);
}

#endif
