/* Preloaded into a process. Shifts its wall clock by the seconds in the file $SHIFTED_CLOCK, a 64-bit integer that is
   mapped, so that changes apply immediately. With $SHIFTED_MONOTONIC it shifts the monotonic clock as well. */

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift;
static int shifts_monotonic;

__attribute__((constructor)) static void map_shift(void) {
    int file = open(getenv("SHIFTED_CLOCK"), O_RDONLY);
    void *memory = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    shift = memory;
    shifts_monotonic = getenv("SHIFTED_MONOTONIC") != NULL;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (shift != NULL && (clock == CLOCK_REALTIME || shifts_monotonic)) {
        now->tv_sec += *shift;
    }
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL) {
        *now = precise.tv_sec;
    }
    return precise.tv_sec;
}
