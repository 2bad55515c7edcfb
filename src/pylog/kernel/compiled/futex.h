/* What threads sleep at without the interpreter's lock: a word that is 0 while nothing has happened.
 *
 * On Linux all who sleep are woken by one call of the system, and none of them waits for another one's mutex then;
 * elsewhere, and with PYLOG_NO_FUTEX, POSIX has the same in more steps.
 */

#include <stdint.h>
#include <time.h>

enum { WORD_SILENT, WORD_CALLED, WORD_DONE };

#if defined(__linux__) && !defined(PYLOG_NO_FUTEX)

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct { uint32_t word; } futex;

static void futex_make(futex *of) { of->word = WORD_SILENT; }
static void futex_end(futex *of) { (void)of; }

/* Until it is called, for whoever is the first to see it, or done, for all; or for so many nanoseconds below a second. */
static void futex_wait(futex *of, long ns) {
    struct timespec most = {0, ns};
    uint32_t called = WORD_CALLED;
    if (__atomic_load_n(&of->word, __ATOMIC_ACQUIRE) == WORD_SILENT)
        syscall(SYS_futex, &of->word, FUTEX_WAIT_PRIVATE, WORD_SILENT, &most, NULL, 0);
    __atomic_compare_exchange_n(&of->word, &called, WORD_SILENT, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Wake one of those who wait. */
static void futex_call(futex *of) {
    uint32_t silent = WORD_SILENT;
    if (__atomic_compare_exchange_n(&of->word, &silent, WORD_CALLED, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &of->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Wake all of them, and let nobody wait any more. */
static void futex_done(futex *of) {
    __atomic_store_n(&of->word, WORD_DONE, __ATOMIC_RELEASE);
    syscall(SYS_futex, &of->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

#include <pthread.h>

typedef struct { uint32_t word; pthread_mutex_t mutex; pthread_cond_t changed; } futex;

static void futex_make(futex *of) {
    of->word = WORD_SILENT;
    pthread_mutex_init(&of->mutex, NULL);
    pthread_cond_init(&of->changed, NULL);
}

static void futex_end(futex *of) {
    pthread_cond_destroy(&of->changed);
    pthread_mutex_destroy(&of->mutex);
}

static void futex_wait(futex *of, long ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec += 1;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&of->mutex);
    while (of->word == WORD_SILENT && pthread_cond_timedwait(&of->changed, &of->mutex, &until) == 0)
        ;
    if (of->word == WORD_CALLED) of->word = WORD_SILENT;
    pthread_mutex_unlock(&of->mutex);
}

static void futex_call(futex *of) {
    pthread_mutex_lock(&of->mutex);
    if (of->word == WORD_SILENT) of->word = WORD_CALLED;
    pthread_cond_signal(&of->changed);
    pthread_mutex_unlock(&of->mutex);
}

static void futex_done(futex *of) {
    pthread_mutex_lock(&of->mutex);
    of->word = WORD_DONE;
    pthread_cond_broadcast(&of->changed);
    pthread_mutex_unlock(&of->mutex);
}

#endif
