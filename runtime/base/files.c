#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe whose other end nobody has opened does not keep us waiting: it is
   empty to read, and cannot be written (ENXIO). */
static int open_at_once(const char *path, int how)
{
    int fd = open(path, how | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static FILE *open_stream(const char *path, int how, const char *mode)
{
    int fd = open_at_once(path, how);
    FILE *file = fd < 0 ? NULL : fdopen(fd, mode);
    if (fd >= 0 && !file)
        close(fd);
    return file;
}

spt_status spt_file_read(const char *path, size_t max_bytes, spt_buf *buf,
                         spt_error *err)
{
    struct stat info;
    FILE *file = open_stream(path, O_RDONLY, "rb");
    if (!file)
        return spt_fail(err, SPT_E_IO, "%s: cannot read: %s", path,
                        strerror(errno));
    if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(file);
        return spt_fail(err, SPT_E_IO, "%s: is a folder, expected a file",
                        path);
    }
    char part[65536];
    size_t total = 0, n;
    while ((n = fread(part, 1, sizeof part, file)) > 0) {
        total += n;
        if (total > max_bytes)
            break;
        spt_buf_add(buf, part, n);
    }
    bool broken = ferror(file) != 0;
    fclose(file);
    if (broken)
        return spt_fail(err, SPT_E_IO, "%s: read error", path);
    if (total > max_bytes)
        return spt_fail(err, SPT_E_FORMAT, "%s: larger than %zu bytes", path,
                        max_bytes);
    spt_buf_add(buf, "", 0);
    if (buf->failed)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    return SPT_OK;
}

spt_status spt_file_map(const char *path, spt_mapping *mapping, spt_error *err)
{
    struct stat info = {0};
    int fd = open_at_once(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
        int reason = fd < 0 ? errno : EISDIR;
        if (fd >= 0)
            close(fd);
        return spt_fail(err, SPT_E_IO, "%s: cannot read: %s", path,
                        strerror(reason));
    }
    size_t size = info.st_size > 0 ? (size_t)info.st_size : 0;
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int reason = errno;
    close(fd);
    if (!size)
        return spt_fail(err, SPT_E_FORMAT, "%s: is empty", path);
    if (data == MAP_FAILED)
        return spt_fail(err, SPT_E_IO, "%s: cannot map: %s", path,
                        strerror(reason));
    *mapping = (spt_mapping){data, size};
    return SPT_OK;
}

void spt_file_unmap(spt_mapping *mapping)
{
    if (mapping->data)
        munmap(mapping->data, mapping->size);
    *mapping = (spt_mapping){0};
}

static spt_status write_all(int fd, const char *data, size_t size,
                            const char *path, spt_error *err)
{
    while (size) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                            strerror(errno));
        data += n;
        size -= (size_t)n;
    }
    if (fsync(fd) != 0)
        return spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                        strerror(errno));
    return SPT_OK;
}

/* A device or pipe (/dev/null) is written to, never replaced. */
static spt_status write_special(const char *path, const void *data, size_t size,
                                spt_error *err)
{
    FILE *file = open_stream(path, O_WRONLY, "wb");
    if (!file)
        return spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                        strerror(errno));
    bool good = fwrite(data, 1, size, file) == size;
    good = fclose(file) == 0 && good;
    return good ? SPT_OK
                : spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                           strerror(errno));
}

/* A new file beside it, then its name. */
static spt_status replace(const char *path, const void *data, size_t size,
                          spt_error *err)
{
    spt_buf temp = {0};
    spt_buf_printf(&temp, "%s.XXXXXX", path);
    if (temp.failed)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    int fd = mkstemp(temp.data);
    if (fd < 0) {
        spt_status status = spt_fail(err, SPT_E_IO, "%s: cannot write: %s",
                                     path, strerror(errno));
        spt_buf_free(&temp);
        return status;
    }
    spt_status status = write_all(fd, data, size, path, err);
    if (status == SPT_OK && fchmod(fd, 0644) != 0)
        status = spt_fail(err, SPT_E_IO, "%s: %s", path, strerror(errno));
    close(fd);
    if (status == SPT_OK && rename(temp.data, path) != 0)
        status = spt_fail(err, SPT_E_IO, "%s: cannot write: %s", path,
                          strerror(errno));
    if (status != SPT_OK)
        unlink(temp.data);
    spt_buf_free(&temp);
    return status;
}

spt_status spt_file_write(const char *path, const void *data, size_t size,
                          spt_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return write_special(path, data, size, err);
    /* A link stays: what it leads to is replaced. */
    char *real = realpath(path, NULL);
    spt_status status = replace(real ? real : path, data, size, err);
    free(real);
    return status;
}

int spt_file_lock(const char *path)
{
    enum { TRIES = 100, WAIT_US = 10000 };
    char *real = realpath(path, NULL), *copy = spt_strdup(real ? real : path);
    int fd =
        copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    bool had = false;
    for (int i = 0; fd >= 0 && i < TRIES && !had; i++) {
        had = flock(fd, LOCK_EX | LOCK_NB) == 0;
        if (!had && errno != EWOULDBLOCK && errno != EINTR)
            break;
        if (!had)
            usleep(WAIT_US);
    }
    if (fd >= 0 && !had)
        close(fd);
    free(real);
    spt_free(copy);
    return had ? fd : -1;
}

void spt_file_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}

spt_status spt_folder_make(const char *path, spt_error *err)
{
    char *copy = spt_strdup(path);
    if (!copy)
        return spt_fail(err, SPT_E_MEMORY, "%s: out of memory", path);
    int failed = 0;
    for (char *slash = copy + 1; !failed && *copy; slash++) {
        if (*slash != '/' && *slash)
            continue;
        char keep = *slash;
        *slash = 0;
        if (mkdir(copy, 0777) != 0 && errno != EEXIST)
            failed = errno;
        *slash = keep;
        if (!keep)
            break;
    }
    struct stat info;
    if (!failed && (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)))
        failed = ENOTDIR;
    spt_free(copy);
    if (failed)
        return spt_fail(err, SPT_E_IO, "%s: cannot make folder: %s", path,
                        strerror(failed));
    return SPT_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);
    return name[0] != '.' && length > end &&
           strcmp(name + length - end, suffix) == 0;
}

spt_status spt_folder_each(const char *folder, const char *suffix,
                           spt_status (*each)(void *user, const char *path,
                                              spt_error *err),
                           void *user, spt_error *err)
{
    struct dirent **names = NULL;
    spt_status status = SPT_OK;
    int count = scandir(folder, &names, NULL, by_name);
    if (count < 0)
        return spt_fail(err, SPT_E_IO, "%s: cannot be read", folder);
    for (int i = 0; i < count; i++) {
        if (status == SPT_OK && has_suffix(names[i]->d_name, suffix)) {
            char *path = spt_path_join(folder, names[i]->d_name);
            status = path ? each(user, path, err)
                          : spt_fail(err, SPT_E_MEMORY, "out of memory");
            spt_free(path);
        }
        free(names[i]);
    }
    free(names);
    return status;
}

bool spt_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

char *spt_path_join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = spt_calloc(size, 1);
    if (path)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

void spt_path_cut(char *path)
{
    char *slash = strrchr(path, '/');
    while (slash > path && slash[-1] == '/')
        slash--;
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = 0;
}
