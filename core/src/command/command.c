/* command.c - the texts of the command: help, manual page, completion of shells. */
#include "seriatim.h"

#include <string.h>

typedef struct command_text {
    const char *topic, *text;
} command_text;

#include "command/command.inc"

const char *seriatim_command_text(const char *topic)
{
    size_t i;
    for (i = 0; topic && i < sizeof command_texts / sizeof *command_texts; i++)
        if (strcmp(command_texts[i].topic, topic) == 0)
            return command_texts[i].text;
    return NULL;
}
