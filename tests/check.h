/*
 * Checks of the unit programs. Each prints one TAP line, "ok N - name" or
 * "not ok N - name" with the place and what was seen below it, and the program
 * goes on. End main with `return check_done();`.
 */
#ifndef SPT_CHECK_H
#define SPT_CHECK_H

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int check_count_, check_failed_;

__attribute__((format(printf, 4, 5), unused)) static bool
check_at_(const char *file, int line, bool good, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    printf("%s %d - ", good ? "ok" : "not ok", ++check_count_);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
    if (!good) {
        check_failed_++;
        printf("#   at %s:%d\n", file, line);
        fflush(stdout);
    }
    return good;
}

/* CHECK(condition, "name with %d", ...): true when it held. */
#define CHECK(good, ...) check_at_(__FILE__, __LINE__, (good), __VA_ARGS__)

__attribute__((unused)) static bool check_int_(const char *file, int line,
                                               long long seen,
                                               long long expected,
                                               const char *name)
{
    bool good = check_at_(file, line, seen == expected, "%s", name);
    if (!good)
        printf("#   is %lld, expected %lld\n", seen, expected);
    return good;
}

__attribute__((unused)) static bool check_text_(const char *file, int line,
                                                const char *seen,
                                                const char *expected,
                                                const char *name)
{
    bool good = seen && expected && strcmp(seen, expected) == 0;
    check_at_(file, line, good, "%s", name);
    if (!good)
        printf("#   is \"%s\"\n#   expected \"%s\"\n", seen ? seen : "(null)",
               expected ? expected : "(null)");
    return good;
}

__attribute__((unused)) static bool check_has_(const char *file, int line,
                                               const char *seen,
                                               const char *part,
                                               const char *name)
{
    bool good = seen && strstr(seen, part) != NULL;
    check_at_(file, line, good, "%s", name);
    if (!good)
        printf("#   is \"%s\"\n#   expected to hold \"%s\"\n",
               seen ? seen : "(null)", part);
    return good;
}

__attribute__((unused)) static bool check_near_(const char *file, int line,
                                                double seen, double expected,
                                                double bound, const char *name)
{
    bool good = fabs(seen - expected) <= bound;
    check_at_(file, line, good, "%s", name);
    if (!good)
        printf("#   is %.17g, expected %.17g within %g\n", seen, expected,
               bound);
    return good;
}

#define CHECK_INT(seen, expected, name) \
    check_int_(__FILE__, __LINE__, (seen), (expected), (name))
#define CHECK_TEXT(seen, expected, name) \
    check_text_(__FILE__, __LINE__, (seen), (expected), (name))
/* The text holds the part. */
#define CHECK_HAS(seen, part, name) \
    check_has_(__FILE__, __LINE__, (seen), (part), (name))
#define CHECK_NEAR(seen, expected, bound, name) \
    check_near_(__FILE__, __LINE__, (seen), (expected), (bound), (name))
/* The call returned SPT_OK; its error text is shown otherwise. */
#define CHECK_OK(call, err, name)                                            \
    ((call) == SPT_OK ? check_at_(__FILE__, __LINE__, true, "%s", (name))    \
                      : (check_at_(__FILE__, __LINE__, false, "%s", (name)), \
                         printf("#   error: %s\n", (err)->text), false))

/* Prints the plan; the exit status of the program. */
__attribute__((unused)) static int check_done(void)
{
    printf("1..%d\n", check_count_);
    return check_failed_ || !check_count_ ? 1 : 0;
}

#endif
