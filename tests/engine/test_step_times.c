/*
 * Times of the engine's own steps: how a cell follows, what fills the gaps,
 * which file is believed, and that the chosen draft length goes by them.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tiny_engine.h"

enum { PROMPT = 24, ROUNDS = 30 };

static spt_error err;
static spt_step_times table, other;
static const spt_step_key key = {.evidence = "measured",
                                 .chip = "sm_90a",
                                 .board = "a board",
                                 .device = "a device",
                                 .driver = "13000",
                                 .model = "a model",
                                 .layout = "fp16",
                                 .kernels = "kernels",
                                 .drafter = "n-gram"};

static double modelled(void *user, int batch, int context, int draft_length)
{
    const double *step = user;
    return batch * 100 + context * 0.01 + *step * draft_length;
}

static void clear(spt_step_times *t)
{
    memset(t, 0, sizeof *t);
}

static void note_often(spt_step_times *t, int context, int rows, double us)
{
    for (int i = 0; i < 10; i++)
        spt_step_times_note(t, 1, context, rows, us);
}

static double cell(const spt_step_times *t, int rows)
{
    return t->cell[0][0][rows - 1].us;
}

static void test_cells(void)
{
    clear(&table);
    for (int i = 0; i < 8; i++)
        spt_step_times_note(&table, 1, 100, 1, i == 5 ? 40 : 50 + i);
    CHECK_NEAR(cell(&table, 1), 40, 0, "the lowest of the first times");
    spt_step_times_note(&table, 1, 100, 1, 1e6);
    CHECK(cell(&table, 1) < 40 * 1.02, "a stalled step hardly moves it");
    for (int i = 0; i < 200; i++)
        spt_step_times_note(&table, 1, 100, 1, 60);
    CHECK_NEAR(cell(&table, 1), 60, 0.1, "what stays slower is followed");
    for (int i = 0; i < 200; i++)
        spt_step_times_note(&table, 1, 100, 1, 30);
    CHECK_NEAR(cell(&table, 1), 30, 0.1, "and what becomes faster");
    spt_step_times_note(&table, 1, 100, 33, 1);
    spt_step_times_note(&table, 1, 100, 2, 0);
    spt_step_times_note(&table, 1, 100, 2, NAN);
    spt_step_times_note(&table, 1, 100, 2, INFINITY);
    CHECK_INT(table.cell[0][0][1].steps, 0, "what is no time is not taken");
    spt_step_times_note(&table, 3, 5000, 9, 7);
    CHECK_INT(table.cell[2][5][2].steps, 1, "rows are those of a sequence");
}

static void test_gaps(void)
{
    double step = 10, t[5];
    spt_step_model none = {NULL, NULL, 1}, m = {modelled, &step, 1};
    clear(&table);
    CHECK(!spt_step_times_get(&table, &none, 1, 100, 4, t),
          "neither times nor model");
    CHECK(spt_step_times_get(&table, &m, 1, 100, 4, t) && t[4] == 141,
          "the model alone");
    note_often(&table, 100, 1, 202);
    spt_step_times_get(&table, &m, 1, 100, 4, t);
    CHECK_NEAR(t[0], 202, 0, "what was timed is taken");
    CHECK_NEAR(t[4], 282, 1e-9, "the model is scaled by it");
    note_often(&table, 100, 5, 150);
    spt_step_times_get(&table, &m, 1, 100, 4, t);
    CHECK_NEAR(t[4], 150, 0, "until that is timed as well");
    CHECK_NEAR(t[1], 222, 1e-9, "the nearest time scales");
    spt_step_times_get(&table, &none, 1, 100, 4, t);
    CHECK(t[0] == 202 && t[1] == 202 && t[3] == 150,
          "without a model the nearest time itself");
    spt_step_times_get(&table, &m, 1, 5000, 4, t);
    CHECK_NEAR(t[0], 150 * 202 / 102.56, 1e-9, "another context is scaled too");
    m.branches = 2;
    spt_step_times_get(&table, &m, 1, 100, 4, t);
    CHECK_NEAR(t[2], 150, 0, "a tree of depth 2 has five rows");
    spt_step_times_get(&table, &m, 2, 100, 4, t);
    CHECK_NEAR(t[0], 201 * 202 / 102.56, 1e-9, "so is another batch");
    clear(&table);
    spt_step_times_note(&table, 1, 100, 1, 500);
    spt_step_times_get(&table, &m, 1, 100, 4, t);
    CHECK_NEAR(t[0], 101, 0, "one time alone is not believed");
}

static void temporary(char *path)
{
    strcpy(path, "/tmp/spectune-steps-XXXXXX");
    int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
}

/* The file is kept elsewhere, and path leads there. */
static void test_link(const char *path)
{
    char target[64];
    struct stat info;
    temporary(target);
    CHECK(symlink(target, path) == 0, "a link");
    CHECK_OK(spt_step_times_save(path, &key, &table, &err), &err, "written");
    CHECK(lstat(path, &info) == 0 && S_ISLNK(info.st_mode), "stays one");
    CHECK_OK(spt_step_times_read(target, &key, &other, &err), &err,
             "and what it leads to has the times");
    unlink(path);
    unlink(target);
}

/* The file is another's. */
static void test_foreign(const char *path)
{
    spt_step_key foreign = key;
    strcpy(foreign.chip, "sm_80");
    note_often(&other, 300, 7, 9);
    CHECK_INT(spt_step_times_read(path, &foreign, &other, &err), SPT_E_FORMAT,
              "another chip");
    CHECK(strstr(err.text, "times of steps for chip sm_90a, not sm_80"),
          "is said: %s", err.text);
    CHECK(other.cell[0][1][6].steps == 10, "and the table stays");
    foreign = key;
    strcpy(foreign.evidence, "simulated");
    CHECK_INT(spt_step_times_read(path, &foreign, &other, &err), SPT_E_USAGE,
              "simulated times do not go where measured ones are");
    CHECK_INT(spt_step_times_save(path, &foreign, &other, &err), SPT_E_USAGE,
              "nor are they written there");
    CHECK(strstr(err.text, "has measured times of steps, expected another"),
          "which is said: %s", err.text);
}

/* In table and other, as a file has them. */
static bool same_cells(void)
{
    const spt_step_cell *a = &table.cell[0][0][0], *b = &other.cell[0][0][0];
    size_t count = sizeof table.cell / sizeof *a;
    for (size_t i = 0; i < count; i++)
        if (a[i].steps != b[i].steps || memcmp(&a[i].us, &b[i].us, 8) != 0)
            return false;
    return true;
}

static void test_file(void)
{
    char path[64];
    temporary(path);
    clear(&table);
    clear(&other);
    note_often(&table, 300, 2, 123.456);
    note_often(&table, 1 << 24, 32, 1e6);
    CHECK_OK(spt_step_times_save(path, &key, &table, &err), &err, "written");
    CHECK_OK(spt_step_times_read(path, &key, &other, &err), &err, "read");
    CHECK(same_cells(), "the same");
    test_foreign(path);
    FILE *f = fopen(path, "r+");
    fseek(f, 200, SEEK_SET);
    fputc('~', f);
    fclose(f);
    CHECK_INT(spt_step_times_read(path, &key, &other, &err), SPT_E_FORMAT,
              "a changed byte");
    CHECK(strstr(err.text, "is damaged"), "is said: %s", err.text);
    unlink(path);
    CHECK_INT(spt_step_times_read(path, &key, &other, &err), SPT_E_IO,
              "no file");
    CHECK(mkfifo(path, 0600) == 0 &&
              spt_step_times_read(path, &key, &other, &err) == SPT_E_USAGE,
          "a pipe is refused, not waited for");
    unlink(path);
    CHECK_INT(spt_step_times_read("/tmp", &key, &other, &err), SPT_E_USAGE,
              "so is a folder");
    test_link(path);
}

/* Two that read the same file: what each adds, and what it finds. */
static void test_merge(void)
{
    static spt_step_times a, b, empty;
    clear(&a);
    note_often(&a, 100, 1, 100);
    memcpy(a.kept, a.cell, sizeof a.kept);
    b = a;
    note_often(&a, 100, 2, 150);
    note_often(&b, 100, 3, 200);
    note_often(&b, 100, 1, 110);
    spt_step_times_merge(&a, &b);
    CHECK(cell(&a, 2) == 150 && cell(&a, 3) == 200, "cells of both");
    CHECK(cell(&a, 1) == cell(&b, 1) && a.cell[0][0][0].steps == 20,
          "what one alone changed is his");
    memcpy(a.kept, a.cell, sizeof a.kept);
    b = a;
    note_often(&a, 100, 1, 120);
    note_often(&b, 100, 1, 90);
    double mine = cell(&a, 1);
    spt_step_times_merge(&a, &b);
    CHECK_NEAR(cell(&a, 1), (mine + cell(&b, 1)) / 2, 1e-9,
               "what both changed is the mean");
    CHECK_INT(a.cell[0][0][0].steps, 40, "and no step is lost");
    clear(&a);
    clear(&b);
    note_often(&b, 100, 1, 100);
    spt_step_times_note(&a, 1, 100, 1, 1e6);
    spt_step_times_merge(&a, &b);
    CHECK(cell(&a, 1) < 103 && cell(&a, 1) > 100,
          "another's cold start hardly moves it: %.1f", cell(&a, 1));
    clear(&a);
    clear(&b);
    for (int i = 0; i < 3; i++) {
        spt_step_times_note(&a, 1, 100, 1, 50 + i);
        spt_step_times_note(&b, 1, 100, 1, 40 + i);
    }
    spt_step_times_merge(&a, &b);
    CHECK(cell(&a, 1) == 40 && a.cell[0][0][0].steps == 6,
          "of first times the lowest");
    spt_step_times_merge(&a, &empty);
    CHECK(cell(&a, 1) == 40, "a file that is gone takes nothing away");
}

enum { WRITERS = 4, SAVES = 25 };

/* Adds one step to a cell of its own and to one of all, and saves. */
static int add_steps(const char *path, int writer)
{
    clear(&table);
    if (spt_step_times_read(path, &key, &table, &err) == SPT_E_USAGE)
        return 1;
    for (int i = 0; i < SAVES; i++) {
        spt_step_times_note(&table, 1, 100, 1, 100);
        spt_step_times_note(&table, 1, 100, 2 + writer, 200);
        if (spt_step_times_save(path, &key, &table, &err) != SPT_OK)
            return 1;
    }
    return 0;
}

static void test_writers(void)
{
    char path[64];
    int failed = 0, status;
    temporary(path);
    unlink(path);
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0)
            _exit(add_steps(path, i));
    while (wait(&status) > 0)
        failed += status != 0;
    CHECK_INT(failed, 0, "processes save at once");
    clear(&other);
    CHECK_OK(spt_step_times_read(path, &key, &other, &err), &err, "read");
    CHECK_INT(other.cell[0][0][0].steps, WRITERS * SAVES,
              "no step of theirs is lost");
    for (int i = 0; i < WRITERS; i++)
        CHECK_INT(other.cell[0][0][1 + i].steps, SAVES, "nor one of a cell");
    unlink(path);
}

/* A process that writes is killed at any moment: the file is whole. */
static void test_kill(void)
{
    char path[64], command[128];
    temporary(path);
    clear(&table);
    for (int rows = 1; rows <= 32; rows++)
        for (int context = 1; context < 1 << 20; context *= 2)
            note_often(&table, context, rows, rows);
    CHECK_OK(spt_step_times_save(path, &key, &table, &err), &err, "written");
    int good = 0;
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        while (child == 0) {
            spt_step_times_note(&table, 1, 1, 1, 1);
            spt_step_times_save(path, &key, &table, &err);
        }
        usleep((useconds_t)(1000 + i * 997));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        clear(&other);
        good += spt_step_times_read(path, &key, &other, &err) == SPT_OK &&
                cell(&other, 32) == 32;
    }
    CHECK_INT(good, ROUNDS, "killed while it writes: the file is whole");
    snprintf(command, sizeof command, "rm -f %s*", path);
    CHECK_INT(system(command), 0, "cleaned up");
}

/* Notes how far it was to draft, and drafts nothing. */
static spt_status listen(void *drafter, spt_draft_request *requests, int count,
                         spt_error *e)
{
    int *most = drafter;
    (void)e;
    for (int i = 0; i < count; i++)
        *most = requests[i].want > *most ? requests[i].want : *most;
    return SPT_OK;
}

static const spt_draft_class listener = {.name = "listener", .draft = listen};

static spt_engine_options engine_options(const char *path, double *step)
{
    return (spt_engine_options){.context = 200,
                                .draft_length = 4,
                                .step_us = step ? modelled : NULL,
                                .step_user = step,
                                .step_times = path,
                                .draft = {.method = SPT_DRAFT_NGRAM}};
}

/* The longest draft that an answer of six tokens asks for; -1: it failed. */
static int longest_draft(const spt_engine_options *o)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    spt_engine *e = tiny_open(&t, o);
    spt_session *s = NULL;
    const spt_session_options options = {.draft_length = 0};
    const spt_answer_options answer = {.max_tokens = 6, .ignore_end = true};
    int32_t prompt[PROMPT];
    int depth = 0;
    for (int i = 0; i < PROMPT; i++)
        prompt[i] = 65 + i;
    spt_draft_source own = e->drafter;
    e->drafter = (spt_draft_source){&listener, &depth};
    bool good = spt_session_open(e, &options, &s, &err) == SPT_OK &&
                spt_session_sync(s, prompt, PROMPT, NULL, &err) == SPT_OK &&
                spt_session_generate(s, &answer, NULL, &err) == SPT_OK;
    spt_session_close(s);
    e->drafter = own;
    spt_engine_close(e);
    return good ? depth : -1;
}

static spt_step_key key_of(const spt_engine_options *o)
{
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    spt_engine *e = tiny_open(&t, o);
    spt_step_key k = e->times_key;
    spt_engine_close(e);
    return k;
}

static char said[1024];

static void hear(void *user, const char *text)
{
    (void)user;
    snprintf(said, sizeof said, "%s", text);
}

/* Times that nobody took, for steps of 1 ... 5 rows. */
static void plant(const char *path, const spt_step_key *k, double first,
                  double step)
{
    clear(&table);
    unlink(path);
    for (int rows = 1; rows <= 5; rows++)
        note_often(&table, 10, rows, first + step * (rows - 1));
    CHECK_OK(spt_step_times_save(path, k, &table, &err), &err, "planted");
}

static void test_choice(void)
{
    char path[64];
    double dear = 1000, cheap = 0.1;
    temporary(path);
    spt_engine_options o = engine_options(NULL, &dear);
    spt_step_key k = key_of(&o);
    CHECK_INT(longest_draft(&o), 0, "where drafts cost much there are none");
    o = engine_options(NULL, &cheap);
    int most = longest_draft(&o);
    CHECK(most > 1, "where they cost nothing, up to %d", most);
    o = engine_options(path, &cheap);
    plant(path, &k, 100, 1000);
    CHECK_INT(longest_draft(&o), 0, "times that say otherwise: none");
    o = engine_options(path, &dear);
    plant(path, &k, 100, 0.1);
    CHECK_INT(longest_draft(&o), most, "and the other way round");
    o.step_us = NULL;
    plant(path, &k, 100, 1000);
    CHECK_INT(longest_draft(&o), 0, "without a model: the times alone");
    o = engine_options(path, &cheap);
    o.log.line = hear;
    strcpy(k.kernels, "other");
    plant(path, &k, 100, 1000);
    CHECK_INT(longest_draft(&o), most, "times for other kernels do nothing");
    CHECK(strstr(said, "times of steps for kernels other"), "and it is said");
    unlink(path);
}

/* How many files of step times a folder has; the last one's path. */
static int count_files(const char *folder, char *path, size_t size)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *item; d && (item = readdir(d)) != NULL;) {
        if (item->d_name[0] == '.')
            continue;
        snprintf(path, size, "%s/%s", folder, item->d_name);
        count++;
    }
    if (d)
        closedir(d);
    return count;
}

static void say(spt_engine *e)
{
    const spt_session_options options = {.draft_length = 0};
    const spt_answer_options answer = {.max_tokens = 6, .ignore_end = true};
    const int32_t prompt[] = {65, 66, 67};
    spt_session *s = NULL;
    CHECK(spt_session_open(e, &options, &s, &err) == SPT_OK &&
              spt_session_sync(s, prompt, 3, NULL, &err) == SPT_OK &&
              spt_session_generate(s, &answer, NULL, &err) == SPT_OK,
          "it writes");
    spt_session_close(s);
}

/* What an engine writes into the folder, on a machine that calls itself sim or
   not. */
static int keeps(const char *folder, spt_engine_options *o, bool is_sim)
{
    char path[512];
    tiny_model t = tiny_default("llama", SPT_WEIGHT_F16);
    o->step_times_folder = folder;
    o->checks = true;
    spt_engine *e = tiny_open(&t, o);
    bool was = e->machine.driver.is_sim;
    spt_engine_close_times(e);
    e->machine.driver.is_sim = is_sim;
    CHECK_OK(spt_engine_open_times(e, &err), &err, "times");
    say(e);
    spt_engine_close_times(e);
    e->machine.driver.is_sim = was;
    spt_engine_close(e);
    return count_files(folder, path, sizeof path);
}

/* Files of a folder are named by what they hold for. */
static void test_folder(void)
{
    char root[] = "/tmp/spectune-steps-XXXXXX", folder[64], path[512],
         text[160];
    spt_engine_options o = engine_options(NULL, NULL);
    CHECK(mkdtemp(root) != NULL, "a folder");
    snprintf(folder, sizeof folder, "%s/new", root);
    CHECK_INT(keeps(folder, &o, true), 0, "what is simulated is not kept");
    CHECK_INT(keeps(folder, &o, false), 1, "what is measured is");
    CHECK_INT(keeps(folder, &o, false), 1, "in the same file again");
    o.no_graphs = true;
    CHECK_INT(keeps(folder, &o, false), 2, "another layout has its own");
    o = engine_options(NULL, NULL);
    o.draft.method = SPT_DRAFT_NONE;
    o.draft_length = 0;
    CHECK_INT(keeps(folder, &o, false), 2, "without a drafter there is none");
    count_files(folder, path, sizeof path);
    const char *name = strrchr(path, '/') + 1;
    CHECK(strspn(name, "0123456789abcdef") == 64 &&
              strcmp(name + 64, ".steps") == 0,
          "named %s", name);
    snprintf(text, sizeof text, "for f in %s/*; do rm $f; mkdir $f; done",
             folder);
    CHECK_INT(system(text), 0, "folders in the files' places");
    o = engine_options(NULL, NULL);
    o.log.line = hear;
    CHECK_INT(keeps(folder, &o, false), 2, "stop nothing");
    CHECK(strstr(said, ".steps: is no file"), "and are told of: %s", said);
    snprintf(text, sizeof text, "rm -r %s", root);
    CHECK_INT(system(text), 0, "cleaned up");
}

static void test_simulated(void)
{
    char path[64];
    temporary(path);
    unlink(path);
    spt_engine_options o = engine_options(path, NULL);
    spt_step_key k = key_of(&o);
    CHECK_TEXT(k.evidence, "simulated", "what sim times is labelled so");
    CHECK(longest_draft(&o) > 0 && access(path, F_OK) != 0,
          "without counters sim has no clock: nothing is kept");
    o.checks = true;
    CHECK(longest_draft(&o) > 0, "with them");
    clear(&table);
    CHECK_OK(spt_step_times_read(path, &k, &table, &err), &err, "it is");
    int cells = 0;
    for (int rows = 1; rows <= 5; rows++)
        cells += table.cell[0][0][rows - 1].us > 0;
    CHECK(cells > 0, "steps of %d widths were timed", cells);
    unlink(path);
}

int main(void)
{
    test_cells();
    test_gaps();
    test_file();
    test_merge();
    test_writers();
    test_kill();
    test_choice();
    test_folder();
    test_simulated();
    return check_done();
}
