/* Lets a call of the system on a file under one directory fail, below Python: preloaded (LD_PRELOAD), it counts the calls
 * that change or read such a file, and gives the one that is asked for another outcome.
 *
 *   PYLOG_FAIL_ROOT    the directory, absolute and without links
 *   PYLOG_FAIL_LIES    where it is set, writes and syncs that fail say that they have not: no log can stand that, and
 *                      the campaign is tested by it
 *
 *   pylog_fail(at, error, how)   count anew; the call number `at` (from 1; 0: none) fails
 *       how 0   once, with errno `error`
 *           1   and so do all after it
 *           2   a write takes half of its bytes, and the calls after it fail with `error`; other calls fail once
 *           3   it succeeds, and signal `error` comes once; 4: twice
 *   pylog_calls()                how many there were since
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 65536

static const char *root;
static size_t root_size;
static int lies;
static unsigned char watched[DESCRIPTORS];
static atomic_long calls, fail_at;
static int fail_error, fail_how;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    root = getenv("PYLOG_FAIL_ROOT");
    lies = getenv("PYLOG_FAIL_LIES") != NULL;
    root_size = root != NULL ? strlen(root) : 0;
}

void pylog_fail(long at, int error, int how)
{
    fail_error = error;
    fail_how = how;
    atomic_store(&calls, 0);
    atomic_store(&fail_at, at);
}

long pylog_calls(void) { return atomic_load(&calls); }

enum outcome { PASS, FAIL, HALF, SIGNAL };

static enum outcome next(int is_write)
{
    long number = atomic_fetch_add(&calls, 1) + 1, at = atomic_load(&fail_at);
    if (at == 0 || number < at)
        return PASS;
    if (number == at && fail_how >= 3)
        return SIGNAL;
    if (number == at && fail_how == 2 && is_write)
        return HALF;
    if (number == at || fail_how == 1 || (fail_how == 2 && number == at + 1)) {
        errno = fail_error;
        return FAIL;
    }
    return PASS;
}

static void strike(void)
{
    int before = errno;
    kill(getpid(), fail_error);
    if (fail_how == 4)
        kill(getpid(), fail_error);
    errno = before;
}

static int is_ours(int descriptor)
{
    return root != NULL && descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor];
}

static int is_inside(const char *path)
{
    return root != NULL && path != NULL && strncmp(path, root, root_size) == 0 && path[root_size] == '/';
}

#define COUNTED(ours, failed, call) \
    if (!(ours)) \
        return call; \
    enum outcome outcome = next(0); \
    if (outcome == FAIL) \
        return failed; \
    __typeof__(call) result = call; \
    if (outcome == SIGNAL) \
        strike(); \
    return result;

static int opened(int at, const char *path, int flags, mode_t mode)
{
    int descriptor;
    enum outcome outcome = PASS;
    if (is_inside(path) && (outcome = next(0)) == FAIL)
        return -1;
    descriptor = REAL(openat)(at, path, flags, mode);
    if (descriptor >= 0 && descriptor < DESCRIPTORS)
        watched[descriptor] = is_inside(path);
    if (outcome == SIGNAL)
        strike();
    return descriptor;
}

#define MODE(flags, mode) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return opened(AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, mode) return opened(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, mode) return opened(at, path, flags, mode); }

int close(int descriptor)
{
    if (descriptor >= 0 && descriptor < DESCRIPTORS)
        watched[descriptor] = 0;
    return REAL(close)(descriptor);
}

#define WRITTEN(size, whole, half) \
    if (!is_ours(descriptor)) \
        return whole; \
    enum outcome outcome = next(1); \
    if (outcome == FAIL) \
        return lies ? (ssize_t)(size) : -1; \
    ssize_t result = outcome == HALF ? half : whole; \
    if (outcome == SIGNAL) \
        strike(); \
    return result;

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position)
{
    WRITTEN(size, REAL(pwrite)(descriptor, data, size, position), REAL(pwrite)(descriptor, data, size / 2, position))
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t position)
{
    WRITTEN(size, REAL(pwrite64)(descriptor, data, size, position), REAL(pwrite64)(descriptor, data, size / 2, position))
}

static ssize_t half_of(int descriptor, const struct iovec *parts, off_t position)
{
    return REAL(pwrite)(descriptor, parts[0].iov_base, parts[0].iov_len / 2, position);
}

static size_t size_of(const struct iovec *parts, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    return size;
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t position)
{
    WRITTEN(size_of(parts, count), REAL(pwritev)(descriptor, parts, count, position), half_of(descriptor, parts, position))
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t position)
{
    WRITTEN(size_of(parts, count), REAL(pwritev64)(descriptor, parts, count, position), half_of(descriptor, parts, position))
}

ssize_t pread(int descriptor, void *data, size_t size, off_t position)
{
    COUNTED(is_ours(descriptor), -1, REAL(pread)(descriptor, data, size, position))
}

ssize_t pread64(int descriptor, void *data, size_t size, off64_t position)
{
    COUNTED(is_ours(descriptor), -1, REAL(pread64)(descriptor, data, size, position))
}

int ftruncate(int descriptor, off_t size) { COUNTED(is_ours(descriptor), -1, REAL(ftruncate)(descriptor, size)) }
int ftruncate64(int descriptor, off64_t size) { COUNTED(is_ours(descriptor), -1, REAL(ftruncate64)(descriptor, size)) }
int fsync(int descriptor) { COUNTED(is_ours(descriptor), -!lies, REAL(fsync)(descriptor)) }
int fdatasync(int descriptor) { COUNTED(is_ours(descriptor), -!lies, REAL(fdatasync)(descriptor)) }

/* It gives its error and does not set errno. */
int posix_fallocate(int descriptor, off_t position, off_t size)
{
    COUNTED(is_ours(descriptor), errno, REAL(posix_fallocate)(descriptor, position, size))
}

int posix_fallocate64(int descriptor, off64_t position, off64_t size)
{
    COUNTED(is_ours(descriptor), errno, REAL(posix_fallocate64)(descriptor, position, size))
}

int rename(const char *from, const char *to) { COUNTED(is_inside(from), -1, REAL(rename)(from, to)) }
int unlink(const char *path) { COUNTED(is_inside(path), -1, REAL(unlink)(path)) }
int rmdir(const char *path) { COUNTED(is_inside(path), -1, REAL(rmdir)(path)) }
int mkdir(const char *path, mode_t mode) { COUNTED(is_inside(path), -1, REAL(mkdir)(path, mode)) }
