#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "measure_worker.h"

static spt_error err;

static spt_status answer(void *user, spt_buf *result, spt_error *error)
{
    (void)error;
    /* More than a pipe holds. */
    for (int i = 0; i < 50000; i++)
        spt_buf_printf(result, "%d,", *(int *)user);
    return SPT_OK;
}

static spt_status fail(void *user, spt_buf *result, spt_error *error)
{
    (void)user;
    spt_buf_puts(result, "half");
    return spt_fail(error, SPT_E_PROOF, "row 7 differs");
}

static spt_status die(void *user, spt_buf *result, spt_error *error)
{
    (void)user, (void)result, (void)error;
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return SPT_OK;
}

static spt_status leave(void *user, spt_buf *result, spt_error *error)
{
    (void)user, (void)result, (void)error;
    _exit(0);
    return SPT_OK;
}

static spt_status hang(void *user, spt_buf *result, spt_error *error)
{
    (void)user, (void)result, (void)error;
    for (;;)
        sleep(1);
    return SPT_OK;
}

int main(void)
{
    int number = 123;
    spt_buf result = {0};
    CHECK_OK(spt_worker_run(answer, &number, 10, &result, &err), &err,
             "a worker answers");
    CHECK(result.size == 200000 && strncmp(result.data, "123,123", 7) == 0,
          "with its whole result");
    size_t size = result.size;
    CHECK(spt_worker_run(fail, NULL, 10, &result, &err) == SPT_E_PROOF,
          "its failure is the caller's");
    CHECK_TEXT(err.text, "row 7 differs", "with its text");
    CHECK(spt_worker_run(die, NULL, 10, &result, &err) == SPT_E_DEVICE,
          "a worker that dies");
    CHECK_HAS(err.text, "signal 11", "of which signal");
    CHECK(spt_worker_run(leave, NULL, 10, &result, &err) == SPT_E_DEVICE,
          "a worker that leaves early");
    CHECK(spt_worker_run(hang, NULL, 0.2, &result, &err) == SPT_E_TIMEOUT,
          "a worker that hangs");
    CHECK(result.size == size, "failures append nothing");
    spt_buf_free(&result);
    return check_done();
}
