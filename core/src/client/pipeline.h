/* pipeline.h - what tests ask of a pipeline. */
#ifndef SRT_PIPELINE_H
#define SRT_PIPELINE_H

#include "client/client.h"

size_t srt_pipeline_flying(const seriatim_client *c); /* bytes of chunks of all its queues that wait for an answer */

#endif
