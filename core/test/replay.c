/* replay.c - the main of a fuzz target where there is no libFuzzer: runs the files that it is given, or stdin. */
#include "fuzz.h"

#include <stdio.h>

static int replay(FILE *file)
{
    size_t size = 0, cap = 1 << 20;
    uint8_t *data = malloc(cap), *exact;
    if (!file || !data)
        return 1;
    size = fread(data, 1, cap, file);
    exact = malloc(size ? size : 1);
    if (!exact)
        return 1;
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(data);
    return 0;
}

int main(int argc, char **argv)
{
    int i, failed = 0;
    if (argc == 1)
        return replay(stdin);
    for (i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        failed |= replay(file);
        if (file)
            fclose(file);
    }
    return failed;
}
