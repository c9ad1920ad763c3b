/*
 * main for a fuzz entry point without libFuzzer: runs every file of the
 * folders given (and of their subfolders), and a few that it derives from each
 * (cut short, one byte changed), so that every test run walks the corpus.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int runs;

/* A copy of exactly that size, so that sanitizers see one byte too far. */
static void run(const char *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    runs++;
}

static void run_file(const char *path)
{
    spt_buf text = {0};
    spt_error err;
    if (spt_file_read(path, 16 << 20, &text, &err) != SPT_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    char *data = text.data;
    size_t size = text.size;
    run(data, size);
    for (size_t i = 0; i < 16 && size; i++) {
        size_t at = size * i / 16;
        run(data, at);
        char kept = data[at];
        data[at] = (char)(kept ^ (1 << (i % 8)));
        run(data, size);
        data[at] = kept;
    }
    spt_buf_free(&text);
}

static void run_path(const char *path)
{
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    if (count < 0) {
        run_file(path);
        return;
    }
    for (int i = 0; i < count; i++) {
        char *inner = spt_path_join(path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            run_path(inner);
        spt_free(inner);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("ok 1 - %d inputs without a crash\n1..1\n", runs);
    return 0;
}
