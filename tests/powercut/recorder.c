/* What a process does to the files under one directory, below Python: preloaded (LD_PRELOAD), it writes down each call
 * that changes something, in the order in which the kernel took it, and lets it through.
 *
 *   PYLOG_RECORD_ROOT    the directory, absolute and without links
 *   PYLOG_RECORD_TRACE   the file that gets the events; must not lie under the root
 *
 *   event   u8 kind | u64 inode | u64 number | u64 length | u64 length | bytes | bytes            little-endian
 *           W write (position; the bytes)   T truncate (size)   A reserve (up to)   F sync of a file, D of a directory
 *           C file made (path)   M directory made (path)   R renamed (from, to)   U unlinked   X directory removed
 *           N note (what the process says about itself, by `pylog_note`)
 *
 * A sync is written down before it is made and not kept from running beside writes: what another thread writes
 * meanwhile is not taken for durable. Everything else is made and written down under one lock.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define DESCRIPTORS 65536

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_size;
static int trace = -1;
static unsigned char watched[DESCRIPTORS];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("PYLOG_RECORD_TRACE");
    root = getenv("PYLOG_RECORD_ROOT");
    if (root == NULL || path == NULL)
        return;
    root_size = strlen(root);
    trace = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put(const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        long written = syscall(SYS_write, trace, at, size);
        if (written <= 0)
            abort();
        at += written;
        size -= (size_t)written;
    }
}

static void event(char kind, uint64_t inode, uint64_t number, const void *a, size_t a_size, const void *b, size_t b_size)
{
    unsigned char head[33];
    uint64_t numbers[4] = {inode, number, a_size, b_size};
    if (trace < 0)
        return;
    head[0] = (unsigned char)kind;
    memcpy(head + 1, numbers, sizeof numbers);
    put(head, sizeof head);
    put(a, a_size);
    put(b, b_size);
}

static int is_ours(int descriptor)
{
    return trace >= 0 && descriptor >= 0 && descriptor < DESCRIPTORS && watched[descriptor];
}

static uint64_t inode_of(int descriptor)
{
    struct stat found;
    if (fstat(descriptor, &found) != 0)
        abort();
    return found.st_ino;
}

/* The whole path where it lies under the root, NULL elsewhere. */
static const char *whole(int directory, const char *path, char *room)
{
    if (trace < 0 || path == NULL)
        return NULL;
    if (path[0] != '/') {
        char link[64];
        ssize_t size;
        snprintf(link, sizeof link, directory == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", directory);
        size = readlink(link, room, PATH_MAX - 1);
        if (size < 0)
            return NULL;
        snprintf(room + size, PATH_MAX - (size_t)size, "/%s", path);
        path = room;
    }
    if (strncmp(path, root, root_size) != 0 || (path[root_size] != '/' && path[root_size] != '\0'))
        return NULL;
    return path;
}

void pylog_note(const char *text, size_t size)
{
    pthread_mutex_lock(&lock);
    event('N', 0, 0, text, size, NULL, 0);
    pthread_mutex_unlock(&lock);
}

static int opened(int directory, const char *path, int flags, mode_t mode)
{
    char room[PATH_MAX];
    const char *at = whole(directory, path, room);
    struct stat found;
    int is_new, descriptor;
    if (at == NULL)
        return (int)REAL(openat)(directory, path, flags, mode);
    pthread_mutex_lock(&lock);
    is_new = (flags & O_CREAT) && stat(at, &found) != 0;
    descriptor = REAL(openat)(directory, path, flags, mode);
    if (descriptor >= 0 && descriptor < DESCRIPTORS) {
        watched[descriptor] = 1;
        if (is_new)
            event('C', inode_of(descriptor), 0, at, strlen(at), NULL, 0);
        else if (flags & O_TRUNC)
            event('T', inode_of(descriptor), 0, NULL, 0, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
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

#define WRITTEN(call, position, data) \
    ssize_t written; \
    if (!is_ours(descriptor)) \
        return call; \
    pthread_mutex_lock(&lock); \
    uint64_t at = (uint64_t)(position); \
    written = call; \
    if (written > 0) \
        event('W', inode_of(descriptor), at, data, (size_t)written, NULL, 0); \
    pthread_mutex_unlock(&lock); \
    return written;

ssize_t write(int descriptor, const void *data, size_t size)
{
    WRITTEN(REAL(write)(descriptor, data, size), lseek(descriptor, 0, SEEK_CUR), data)
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t position)
{
    WRITTEN(REAL(pwrite)(descriptor, data, size, position), position, data)
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t position)
{
    WRITTEN(REAL(pwrite64)(descriptor, data, size, position), position, data)
}

static ssize_t written_from(int descriptor, const struct iovec *parts, int count, off_t position)
{
    ssize_t written, left;
    size_t size = 0;
    char *joined, *at;
    if (!is_ours(descriptor))
        return REAL(pwritev)(descriptor, parts, count, position);
    for (int i = 0; i < count; i++)
        size += parts[i].iov_len;
    joined = at = malloc(size + 1);
    for (int i = 0; i < count; at += parts[i].iov_len, i++)
        memcpy(at, parts[i].iov_base, parts[i].iov_len);
    pthread_mutex_lock(&lock);
    written = REAL(pwritev)(descriptor, parts, count, position);
    left = written > 0 ? written : 0;
    if (left)
        event('W', inode_of(descriptor), (uint64_t)position, joined, (size_t)left, NULL, 0);
    pthread_mutex_unlock(&lock);
    free(joined);
    return written;
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t position)
{
    return written_from(descriptor, parts, count, position);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t position)
{
    return written_from(descriptor, parts, count, position);
}

static int cut(int descriptor, off_t size)
{
    int failed;
    if (!is_ours(descriptor))
        return REAL(ftruncate)(descriptor, size);
    pthread_mutex_lock(&lock);
    failed = REAL(ftruncate)(descriptor, size);
    if (!failed)
        event('T', inode_of(descriptor), (uint64_t)size, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int ftruncate(int descriptor, off_t size) { return cut(descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return cut(descriptor, size); }

static int reserved(int descriptor, off_t position, off_t size)
{
    int failed;
    if (!is_ours(descriptor))
        return REAL(posix_fallocate)(descriptor, position, size);
    pthread_mutex_lock(&lock);
    failed = REAL(posix_fallocate)(descriptor, position, size);
    if (!failed)
        event('A', inode_of(descriptor), (uint64_t)(position + size), NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int posix_fallocate(int descriptor, off_t position, off_t size) { return reserved(descriptor, position, size); }
int posix_fallocate64(int descriptor, off64_t position, off64_t size) { return reserved(descriptor, position, size); }

static void synced(int descriptor)
{
    struct stat found;
    if (!is_ours(descriptor) || fstat(descriptor, &found) != 0)
        return;
    pthread_mutex_lock(&lock);
    event(S_ISDIR(found.st_mode) ? 'D' : 'F', found.st_ino, 0, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
}

int fsync(int descriptor) { synced(descriptor); return REAL(fsync)(descriptor); }
int fdatasync(int descriptor) { synced(descriptor); return REAL(fdatasync)(descriptor); }

static int made(int at, const char *path, mode_t mode)
{
    char room[PATH_MAX];
    const char *name = whole(at, path, room);
    struct stat found;
    int failed;
    if (name == NULL)
        return REAL(mkdirat)(at, path, mode);
    pthread_mutex_lock(&lock);
    failed = REAL(mkdirat)(at, path, mode);
    if (!failed && stat(name, &found) == 0)
        event('M', found.st_ino, 0, name, strlen(name), NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int at, const char *path, mode_t mode) { return made(at, path, mode); }

static int renamed(int from_at, const char *from, int to_at, const char *to)
{
    char from_room[PATH_MAX], to_room[PATH_MAX];
    const char *old = whole(from_at, from, from_room), *new = whole(to_at, to, to_room);
    int failed;
    if (old == NULL || new == NULL)
        return REAL(renameat)(from_at, from, to_at, to);
    pthread_mutex_lock(&lock);
    failed = REAL(renameat)(from_at, from, to_at, to);
    if (!failed)
        event('R', 0, 0, old, strlen(old), new, strlen(new));
    pthread_mutex_unlock(&lock);
    return failed;
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int from_at, const char *from, int to_at, const char *to) { return renamed(from_at, from, to_at, to); }

static int removed(int at, const char *path, int flags)
{
    char room[PATH_MAX];
    const char *name = whole(at, path, room);
    int failed;
    if (name == NULL)
        return REAL(unlinkat)(at, path, flags);
    pthread_mutex_lock(&lock);
    failed = REAL(unlinkat)(at, path, flags);
    if (!failed)
        event(flags & AT_REMOVEDIR ? 'X' : 'U', 0, 0, name, strlen(name), NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int at, const char *path, int flags) { return removed(at, path, flags); }
