/*
 * seriatim/binding.h - what the bindings of Seriatim for other languages use beside seriatim.h. It is for them alone:
 * it may change with every version, and the shared library does not export it. The conventions are those of seriatim.h.
 * No file of a binding includes anything of core/src; script/check holds them to it.
 */
#ifndef SERIATIM_BINDING_H
#define SERIATIM_BINDING_H

#include "seriatim.h"
#include "seriatim/binding/bytes.h"
#include "seriatim/binding/client.h"
#include "seriatim/binding/ending.h"
#include "seriatim/binding/fake.h"
#include "seriatim/binding/handle.h"
#include "seriatim/binding/ick.h"
#include "seriatim/binding/json.h"
#include "seriatim/binding/names.h"
#include "seriatim/binding/node.h"
#include "seriatim/binding/private_redis.h"
#include "seriatim/binding/settings.h"
#include "seriatim/binding/system.h"
#include "seriatim/binding/url.h"

#endif
