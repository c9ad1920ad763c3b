/*
 * The cache's size limit: what goes first, what is none of its business, and
 * processes that read, write and trim one folder at once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"
#include "check.h"
#include "files.h"
#include "mem.h"

static char folder[] = "/tmp/spectune-cache-XXXXXX";
static spt_error err;

enum { BODY = 3000 };

/* The entry of a number: its PTX repeats a letter. */
static void make(int number, spt_image *image)
{
    static char ptx[BODY + 1];
    *image = (spt_image){.ptx = ptx, .ptx_size = BODY, .cubin = ptx};
    memset(ptx, 'a' + number % 26, BODY);
    snprintf(image->key, sizeof image->key, "%064d", number);
    snprintf(image->compiler, sizeof image->compiler, "nvrtc 1.2.3");
}

static bool store(int number)
{
    spt_image image;
    make(number, &image);
    return spt_cache_store(folder, &image, &err) == SPT_OK;
}

/* 1: it is there and right; 0: it is not there; -1: anything else. */
static int load(int number)
{
    spt_image image, right;
    char reason[256];
    make(number, &right);
    image = (spt_image){0};
    memcpy(image.key, right.key, sizeof image.key);
    if (!spt_cache_load(folder, &image, reason, sizeof reason))
        return *reason ? -1 : 0;
    bool good = image.ptx_size == BODY && image.cubin_size == 0 &&
                memcmp(image.ptx, right.ptx, BODY) == 0;
    spt_image_free(&image);
    return good ? 1 : -1;
}

static char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* The entry was used so many seconds ago. */
static void age(const char *name, int seconds)
{
    struct timespec times[2];
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= seconds;
    times[1] = times[0];
    utimensat(AT_FDCWD, path_of(name), times, 0);
}

static void age_entry(int number, int seconds)
{
    char name[96];
    snprintf(name, sizeof name, "%064d.kernel", number);
    age(name, seconds);
}

static void test_order(void)
{
    static const char foreign[] = "notes.kernel";
    char abandoned[96], fresh[96];
    size_t count = 0;
    uint64_t bytes = 0, one;
    snprintf(abandoned, sizeof abandoned, "%064d.kernel.abcdef", 1);
    snprintf(fresh, sizeof fresh, "%064d.kernel.ghijkl", 1);
    CHECK(store(0), "an entry is stored");
    spt_cache_measure(folder, &count, &one);
    CHECK(count == 1 && one > BODY, "and measured");
    for (int i = 1; i < 5; i++)
        store(i);
    for (int i = 0; i < 5; i++)
        age_entry(i, 1000 - i);
    spt_file_write(path_of(foreign), "x", 1, &err);
    spt_file_write(path_of(abandoned), "x", 1, &err);
    spt_file_write(path_of(fresh), "x", 1, &err);
    age(foreign, 100000);
    age(abandoned, 4000);
    CHECK_INT(load(0), 1, "the oldest is used again");
    spt_cache_trim(folder, 0);
    spt_cache_trim(folder, 5 * one);
    spt_cache_measure(folder, &count, &bytes);
    CHECK(count == 5 && bytes == 5 * one, "what fits stays");
    spt_cache_trim(folder, 3 * one + 1);
    CHECK(load(0) == 1 && load(1) == 0 && load(2) == 0 && load(3) == 1 &&
              load(4) == 1,
          "those whose use is longest ago go");
    CHECK(spt_file_exists(path_of(foreign)), "files of others stay");
    CHECK(!spt_file_exists(path_of(abandoned)), "abandoned ones go");
    CHECK(spt_file_exists(path_of(fresh)), "one that is being written stays");
    unlink(path_of(foreign));
    unlink(path_of(fresh));
    spt_cache_trim(folder, 1);
    spt_cache_measure(folder, &count, &bytes);
    CHECK(count == 0 && bytes == 0, "all go where nothing fits");
}

/* What is read at every start is never the oldest. */
static void test_compiler(void)
{
    char identity[64] = "", hash[65] = "";
    size_t count = 0;
    uint64_t bytes = 0, one;
    spt_cache_keep_compiler(folder, "/proc/self/exe", "nvrtc 1.2.3");
    spt_cache_measure(folder, &count, &one);
    CHECK_INT((long long)count, 1, "a compiler's identity is an entry");
    DIR *open = opendir(folder);
    for (struct dirent *d; open && (d = readdir(open));)
        if (strstr(d->d_name, ".compiler")) {
            snprintf(hash, sizeof hash, "%.64s", d->d_name);
            age(d->d_name, 1000);
        }
    closedir(open);
    store(1);
    age_entry(1, 500);
    CHECK(strlen(hash) == 64 && spt_cache_compiler(folder, "/proc/self/exe",
                                                   identity, sizeof identity),
          "that is read");
    spt_cache_trim(folder, one + 1);
    spt_cache_measure(folder, &count, &bytes);
    CHECK(count == 1 && bytes == one && load(1) == 0,
          "and stays where a kernel goes");
    spt_cache_trim(folder, 1);
}

static void test_limit(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
        bool good;
    } cases[] = {
        {"0", 0, true},
        {"1000", 1000, true},
        {"500M", 500 << 20, true},
        {"3G", UINT64_C(3) << 30, true},
        {"2K", 2048, true},
        {"", 0, false},
        {"x", 0, false},
        {"1GB", 0, false},
        {"-1", 0, false},
        {"99999999999G", 0, false},
        {"18446744073709551616", 0, false},
    };
    uint64_t bytes = 0;
    unsetenv("SPECTUNE_CACHE_LIMIT");
    CHECK(spt_cache_limit(&bytes, &err) == SPT_OK && bytes == UINT64_C(2) << 30,
          "2 GiB when nothing is said");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("SPECTUNE_CACHE_LIMIT", cases[i].text, 1);
        bytes = 0;
        bool good = spt_cache_limit(&bytes, &err) == SPT_OK;
        CHECK(good == cases[i].good && bytes == cases[i].bytes,
              "a limit of '%s'", cases[i].text);
    }
    CHECK_HAS(err.text, "expected one like 500M or 2G", "and what is expected");
}

/* What one of several processes does; its exit status says what went wrong. */
static int work(unsigned seed, uint64_t limit)
{
    for (int i = 0; i < 400; i++) {
        int number = (int)(rand_r(&seed) % 40), seen = load(number);
        if (seen < 0)
            return 1;
        if (seen == 0 && !store(number))
            return 2;
        if (i % 7 == 0)
            spt_cache_trim(folder, limit);
    }
    return 0;
}

static void test_processes(void)
{
    enum { PROCESSES = 6 };
    pid_t children[PROCESSES];
    size_t count = 0;
    uint64_t bytes = 0, limit = 15 * BODY;
    int bad = 0, status;
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0)
            _exit(work((unsigned)i + 1, limit));
    }
    for (int i = 0; i < PROCESSES; i++) {
        waitpid(children[i], &status, 0);
        bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
    CHECK_INT(bad, 0, "processes at once read what is right or nothing");
    spt_cache_trim(folder, limit);
    spt_cache_measure(folder, &count, &bytes);
    CHECK(count > 0 && bytes <= limit, "and keep the limit");
    spt_cache_trim(folder, 1);
}

int main(void)
{
    if (CHECK(mkdtemp(folder) != NULL, "a folder")) {
        test_order();
        test_compiler();
        test_limit();
        test_processes();
        CHECK(rmdir(folder) == 0, "nothing is left");
    }
    return check_done();
}
