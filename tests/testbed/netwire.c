/* A wire between two TAP devices, for kernels that lack the netem queue discipline.
 *
 *   netwire DEVICE_A NAMESPACE_A DEVICE_B NAMESPACE_B CONTROL
 *
 * makes both devices, prints "ready", and carries frames both ways until it is killed. CONTROL is a file
 * with two lines, A to B and B to A, each "delay_us jitter_us loss_frac rate_Mbps"; a zero switches a
 * fault off. It is read again ten times a second. Frames keep their order and their offloads, so one frame
 * may stand for 64 KiB of TCP: loss is drawn per 1,448-byte segment, and loses the whole frame.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 1 << 17, SLOTS = 4096, SEGMENT = 1448, BURST = 64 };
static const int64_t SECOND = 1000000000, REREAD = 100000000;
static const int64_t QUEUE_LIMIT = 200000000; /* of a rate limit: what waits longer is dropped */

struct frame { int64_t due; int size; char *bytes; };
struct way {
    int from, to;
    double delay_us, jitter_us, loss_frac, rate_Mbps;
    int64_t link_free; /* when the rate-limited link has sent what it was given */
    struct frame queue[SLOTS];
    unsigned head, tail;
};
static struct way ways[2];

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* A TAP device born inside a network namespace; this process returns to its own. */
static int make_tap(const char *device, const char *namespace, int home) {
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int there = open(path, O_RDONLY);
    if (there < 0 || setns(there, CLONE_NEWNET)) fail(path);
    close(there);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (fd < 0) fail("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    if (ioctl(fd, TUNSETIFF, &request)) fail(device);
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)) fail("offloads");
    if (setns(home, CLONE_NEWNET)) fail("setns");
    return fd;
}

static void read_control(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) return;
    for (int i = 0; i < 2; i++) {
        double d, j, l, r;
        if (fscanf(file, "%lf %lf %lf %lf", &d, &j, &l, &r) != 4) break;
        ways[i].delay_us = d, ways[i].jitter_us = j, ways[i].loss_frac = l, ways[i].rate_Mbps = r;
    }
    fclose(file);
}

static void send_due(struct way *way, int64_t at) {
    for (; way->head != way->tail; way->head++) {
        struct frame *frame = &way->queue[way->head % SLOTS];
        if (frame->due > at) return;
        if (write(way->to, frame->bytes, frame->size) < 0) { /* a full device drops, as a switch does */ }
        free(frame->bytes);
    }
}

static int lost(const struct way *way, int size) {
    for (int at = 0; way->loss_frac > 0 && at < size; at += SEGMENT)
        if (drand48() < way->loss_frac) return 1;
    return 0;
}

static void accept_frame(struct way *way, const char *bytes, int size) {
    int64_t at = now(), due = at;
    int faulty = way->delay_us > 0 || way->jitter_us > 0 || way->rate_Mbps > 0;
    if (lost(way, size) || way->tail - way->head == SLOTS) return;
    if (!faulty && way->head == way->tail) {
        if (write(way->to, bytes, size) < 0) { /* dropped */ }
        return;
    }
    if (way->rate_Mbps > 0) {
        if (way->link_free < at) way->link_free = at;
        if (way->link_free - at > QUEUE_LIMIT) return;
        way->link_free += (int64_t)(size * 8000.0 / way->rate_Mbps);
        due = way->link_free;
    }
    due += (int64_t)(1000 * (way->delay_us + way->jitter_us * drand48()));
    if (way->head != way->tail && due < way->queue[(way->tail - 1) % SLOTS].due)
        due = way->queue[(way->tail - 1) % SLOTS].due;
    struct frame *frame = &way->queue[way->tail++ % SLOTS];
    *frame = (struct frame){due, size, malloc(size)};
    memcpy(frame->bytes, bytes, size);
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: netwire DEVICE_A NAMESPACE_A DEVICE_B NAMESPACE_B CONTROL\n");
        return 2;
    }
    int home = open("/proc/self/ns/net", O_RDONLY);
    int a = make_tap(words[1], words[2], home), b = make_tap(words[3], words[4], home);
    ways[0].from = ways[1].to = a;
    ways[0].to = ways[1].from = b;
    prctl(PR_SET_TIMERSLACK, 1000);
    srand48(getpid());
    puts("ready");
    fflush(stdout);
    static char bytes[FRAME];
    int64_t read_at = 0;
    for (;;) {
        int64_t at = now(), wake = at + REREAD;
        if (at - read_at > REREAD) read_control(words[5]), read_at = at;
        for (int i = 0; i < 2; i++) {
            send_due(&ways[i], at);
            if (ways[i].head != ways[i].tail && ways[i].queue[ways[i].head % SLOTS].due < wake)
                wake = ways[i].queue[ways[i].head % SLOTS].due;
        }
        int64_t rest = wake - now();
        struct timespec pause = {0, rest > 0 ? rest : 0};
        struct pollfd ready[2] = {{a, POLLIN, 0}, {b, POLLIN, 0}};
        ppoll(ready, 2, &pause, NULL);
        for (int i = 0; i < 2; i++)
            for (int n = 0; n < BURST; n++) {
                int size = read(ways[i].from, bytes, sizeof bytes);
                if (size <= 0) break;
                accept_frame(&ways[i], bytes, size);
            }
    }
}
