/*
 * The spectune program: picks the command. Without one, the options are those
 * of the main command, which tunes.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "options.h"
#include "spectune.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} command;

/* The main command has the empty name. */
static const command commands[] = {
#define SPT_COMMAND(name, function, help) {name, function, help},
#include "commands.def"
#undef SPT_COMMAND
    {NULL, NULL, NULL},
};

static const command *find(const char *name)
{
    for (const command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

static void print_commands(void)
{
    printf("Commands (spectune COMMAND --help says more):\n");
    for (const command *c = commands; c->name; c++) {
        if (!*c->name)
            continue;
        printf("  %-10s  ", c->name);
        spt_print_wrapped(c->help, 14, 14);
    }
    printf("\nspectune --version prints the version.\n");
}

static int run(int argc, char **argv)
{
    const char *first = argc > 1 ? argv[1] : "--help";
    const command *tune = find("");
    if (strcmp(first, "--version") == 0) {
        printf("spectune %s\n", SPT_VERSION);
        return 0;
    }
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0) {
        char *help[] = {argv[0], (char *)"--help", NULL};
        if (tune) {
            tune->run(2, help);
            putchar('\n');
        }
        print_commands();
        return 0;
    }
    if (first[0] == '-')
        return tune ? tune->run(argc, argv)
                    : spt_exit_usage("spectune", "%s: unknown option", first);
    const command *c = *first ? find(first) : NULL;
    if (!c)
        return spt_exit_usage("spectune",
                              "'%.60s': unknown command, expected one that "
                              "spectune --help lists",
                              first);
    return c->run(argc - 1, argv + 1);
}

/* Files that the program opens must not take a closed stream's number. */
static void open_standard_streams(void)
{
    int fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDWR);
    if (fd > STDERR_FILENO)
        close(fd);
}

int main(int argc, char **argv)
{
    bool closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    open_standard_streams();
    int status = run(argc, argv);
    bool written = fflush(stdout) == 0 && !ferror(stdout) && !closed;
    if (written || status != 0)
        return status;
    fprintf(stderr, "spectune: standard output: cannot write\n");
    return 1;
}
