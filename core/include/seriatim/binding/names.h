/* seriatim/binding/names.h - actions, queries and orders, by name. */
#ifndef SERIATIM_BINDING_NAMES_H
#define SERIATIM_BINDING_NAMES_H

#include "seriatim.h"

/*
 * The number of an action ("park"), a query ("range_by_id") or an order ("stop"); -1 for an unknown name, which the
 * begin refuses.
 */
int seriatim_action_named(const char *name, size_t len);
int seriatim_query_named(const char *name, size_t len);
int seriatim_order_named(const char *name, size_t len);
/* The name of an action of SERIATIM_ACTIONS, NUL-terminated; "none" for any other number. Static. */
const char *seriatim_action_name(int action);
/* The name of an order, NUL-terminated; "none" for any other number. Static. */
const char *seriatim_order_name(int order);

#endif
