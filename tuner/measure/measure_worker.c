#include "measure_worker.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the child sends: this head, then size bytes of result. */
typedef struct worker_head {
    spt_error error;
    size_t size;
} worker_head;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool send_all(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The child's whole life; it leaves without running the parent's handlers. */
static void child(spt_work work, void *user, int fd)
{
    spt_buf result = {0};
    worker_head head;
    memset(&head, 0, sizeof head);
    head.error.status = work(user, &result, &head.error);
    if (result.failed && head.error.status == SPT_OK)
        spt_fail(&head.error, SPT_E_MEMORY, "worker: out of memory");
    head.size = result.size;
    bool sent = send_all(fd, &head, sizeof head) &&
                send_all(fd, result.data, result.size);
    _exit(sent ? 0 : 1);
}

/* Reads until the end of the pipe; false when the time is over. */
static bool collect(int fd, double timeout_s, spt_buf *bytes)
{
    char part[65536];
    double end = now() + timeout_s;
    for (;;) {
        double left = end - now();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (left <= 0)
            return false;
        int ready = poll(&wait, 1, (int)(left * 1e3) + 1);
        if (ready < 0 && errno != EINTR)
            return false;
        if (ready <= 0)
            continue;
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0)
            return true;
        if (n > 0)
            spt_buf_add(bytes, part, (size_t)n);
        else if (errno != EINTR)
            return false;
    }
}

static spt_status unpack(const spt_buf *bytes, int wait_status, spt_buf *result,
                         spt_error *err)
{
    worker_head head;
    if (bytes->failed)
        return spt_fail(err, SPT_E_MEMORY, "worker: out of memory");
    if (bytes->size >= sizeof head)
        memcpy(&head, bytes->data, sizeof head);
    if (bytes->size < sizeof head || bytes->size - sizeof head != head.size) {
        if (WIFSIGNALED(wait_status))
            return spt_fail(err, SPT_E_DEVICE, "worker: died of signal %d (%s)",
                            WTERMSIG(wait_status),
                            strsignal(WTERMSIG(wait_status)));
        return spt_fail(err, SPT_E_DEVICE, "worker: ended without a result");
    }
    if (head.error.status != SPT_OK)
        return spt_fail(err, head.error.status, "%s", head.error.text);
    spt_buf_add(result, bytes->data + sizeof head, head.size);
    return SPT_OK;
}

spt_status spt_worker_run(spt_work work, void *user, double timeout_s,
                          spt_buf *result, spt_error *err)
{
    int ends[2], wait_status = 0;
    if (pipe(ends) != 0)
        return spt_fail(err, SPT_E_IO, "worker: no pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return spt_fail(err, SPT_E_IO, "worker: no process: %s",
                        strerror(errno));
    }
    if (pid == 0) {
        close(ends[0]);
        child(work, user, ends[1]);
    }
    close(ends[1]);
    spt_buf bytes = {0};
    bool in_time = collect(ends[0], timeout_s, &bytes);
    close(ends[0]);
    if (!in_time)
        kill(pid, SIGKILL);
    while (waitpid(pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    spt_status status =
        in_time ? unpack(&bytes, wait_status, result, err)
                : spt_fail(err, SPT_E_TIMEOUT,
                           "worker: took longer than %.0f s", timeout_s);
    spt_buf_free(&bytes);
    return status;
}
