#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool shown;

/* What fits before the line would wrap, and could no longer be taken away. */
static int columns(void)
{
    enum { USUAL = 80 };
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return USUAL - 1;
    return size.ws_col - 1;
}

static void show(const char *text)
{
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%.*s", columns(), text);
    fflush(stderr);
    shown = true;
}

void spt_progress(const char *what, size_t done, size_t count)
{
    char text[256];
    if (count)
        snprintf(text, sizeof text, "%s %zu/%zu", what, done, count);
    else
        snprintf(text, sizeof text, "%s", what);
    show(text);
}

void spt_progress_clear(void)
{
    if (shown)
        fputs("\r\033[K", stderr);
    shown = false;
}

void spt_progress_compiling(void *user, const char *kernel, size_t done,
                            size_t total)
{
    char text[256];
    (void)user;
    if (!kernel)
        return;
    if (done == total) {
        spt_progress_clear();
        return;
    }
    snprintf(text, sizeof text, "compiling %zu/%zu %s", done, total, kernel);
    show(text);
}
