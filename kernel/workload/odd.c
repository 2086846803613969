// SPDX-License-Identifier: Apache-2.0 OR MIT
// System calls that no section makes: with arguments that fit badly, and interrupted by signals while they wait.
//
// What a profile calls cold is mostly this: refusals, retries, waits that are cut short. `PLANISH_ODD=N` runs N children
// after the sections. Each draws its calls from a generator of its own number, so two runs make the same calls.

#define _GNU_SOURCE
#include "workload.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS_EACH 400
#define PAGE 4096u
#define PAGES 8u
// Milliseconds of the guest's clock that a child may take.
#define PATIENCE_MS 3000

// arm64 has only the newer one of two calls that do the same: in place of the others stands one that no kernel has.
#ifdef __aarch64__
#define SYS_open (-1)
#define SYS_stat (-1)
#define SYS_lstat (-1)
#define SYS_poll (-1)
#define SYS_select (-1)
#define SYS_access (-1)
#define SYS_alarm (-1)
#define SYS_rename (-1)
#define SYS_rmdir (-1)
#define SYS_creat (-1)
#define SYS_arch_prctl (-1)
// Made by the C library.
#define SYS_vfork (-2)
#endif

// Kinds of arguments: d descriptor, D directory, b bytes, s size, n path, i small number, x bits, t struct timespec or
// timeval, v struct iovec[], a address of a socket, l its length's address, m struct msghdr, e struct epoll_event,
// p struct pollfd[], o offset's address, u address of a word, 0 nothing.
static const struct call {
    long number;
    char kinds[7];
} CALLS[] = {
    {SYS_read, "dbs"}, {SYS_write, "dbs"}, {SYS_open, "nxi"}, {SYS_openat, "Dnxi"}, {SYS_close, "d"},
    {SYS_stat, "nb"}, {SYS_fstat, "db"}, {SYS_lstat, "nb"}, {SYS_newfstatat, "Dnbx"}, {SYS_statx, "Dnxxb"},
    {SYS_poll, "pii"}, {SYS_ppoll, "pitu0"}, {SYS_select, "iuuut"}, {SYS_pselect6, "iuuutu"},
    {SYS_lseek, "dsi"}, {SYS_mmap, "bsxxds"}, {SYS_mprotect, "bsi"}, {SYS_munmap, "bs"}, {SYS_brk, "b"},
    {SYS_mremap, "bssxb"}, {SYS_msync, "bsx"}, {SYS_mincore, "bsb"}, {SYS_madvise, "bsi"}, {SYS_mlock, "bs"},
    {SYS_rt_sigaction, "ibbi"}, {SYS_rt_sigpending, "bi"}, {SYS_rt_sigtimedwait, "ubti"}, {SYS_rt_sigsuspend, "ui"},
    {SYS_sigaltstack, "bb"}, {SYS_ioctl, "dxb"}, {SYS_fcntl, "diu"}, {SYS_flock, "di"},
    {SYS_pread64, "dbss"}, {SYS_pwrite64, "dbss"}, {SYS_readv, "dvi"}, {SYS_writev, "dvi"}, {SYS_preadv2, "dvis0x"},
    {SYS_pwritev2, "dvis0x"}, {SYS_access, "ni"}, {SYS_pipe2, "ux"}, {SYS_dup, "d"}, {SYS_dup3, "ddx"},
    {SYS_nanosleep, "tb"}, {SYS_clock_nanosleep, "iitb"}, {SYS_getitimer, "ib"}, {SYS_alarm, "i"},
    {SYS_sendfile, "ddos"}, {SYS_socket, "iix"}, {SYS_connect, "dai"}, {SYS_accept4, "dalx"}, {SYS_sendto, "dbsxai"},
    {SYS_recvfrom, "dbsxal"}, {SYS_sendmsg, "dmx"}, {SYS_recvmsg, "dmx"}, {SYS_sendmmsg, "dmix"},
    {SYS_recvmmsg, "dmixt"}, {SYS_shutdown, "di"}, {SYS_bind, "dai"}, {SYS_listen, "di"}, {SYS_getsockname, "dal"},
    {SYS_getpeername, "dal"}, {SYS_socketpair, "iiiu"}, {SYS_setsockopt, "diiui"}, {SYS_getsockopt, "diiul"},
    {SYS_wait4, "iuxb"}, {SYS_waitid, "iibxb"}, {SYS_uname, "b"}, {SYS_fsync, "d"}, {SYS_fdatasync, "d"},
    {SYS_truncate, "ns"}, {SYS_ftruncate, "ds"}, {SYS_getdents64, "dbs"}, {SYS_getcwd, "bs"}, {SYS_chdir, "n"},
    {SYS_fchdir, "d"}, {SYS_rename, "nn"}, {SYS_renameat2, "DnDnx"}, {SYS_mkdirat, "Dni"}, {SYS_rmdir, "n"},
    {SYS_creat, "ni"}, {SYS_linkat, "DnDnx"}, {SYS_unlinkat, "Dnx"}, {SYS_symlinkat, "nDn"}, {SYS_readlinkat, "Dnbs"},
    {SYS_fchmodat, "Dni"}, {SYS_fchownat, "Dniix"}, {SYS_utimensat, "Dntx"}, {SYS_mknodat, "Dnii"}, {SYS_umask, "i"},
    {SYS_getrlimit, "ib"}, {SYS_prlimit64, "0ib"}, {SYS_getrusage, "ib"}, {SYS_times, "b"}, {SYS_getgroups, "ib"},
    {SYS_setgroups, "ib"}, {SYS_setresuid, "iii"}, {SYS_setpgid, "ii"}, {SYS_setsid, ""}, {SYS_getpriority, "ii"},
    {SYS_setpriority, "iii"}, {SYS_sched_setparam, "iu"}, {SYS_sched_setscheduler, "iiu"}, {SYS_sched_yield, ""},
    {SYS_sched_setaffinity, "isb"}, {SYS_sched_getaffinity, "isb"}, {SYS_sched_rr_get_interval, "ib"},
    {SYS_statfs, "nb"}, {SYS_fstatfs, "db"}, {SYS_prctl, "xbbbb"}, {SYS_capget, "bb"}, {SYS_futex, "uiituu"},
    {SYS_epoll_create1, "x"}, {SYS_epoll_ctl, "dide"}, {SYS_epoll_pwait, "deiiui"}, {SYS_timer_create, "ibu"},
    {SYS_timer_settime, "ixbb"}, {SYS_timer_delete, "i"}, {SYS_clock_gettime, "ib"}, {SYS_clock_getres, "ib"},
    {SYS_readahead, "dss"}, {SYS_getxattr, "nnbs"}, {SYS_setxattr, "nnbsx"}, {SYS_gettid, ""},
    {SYS_io_setup, "iu"}, {SYS_io_submit, "uiu"}, {SYS_splice, "dodosx"}, {SYS_tee, "ddsx"}, {SYS_vmsplice, "dvix"},
    {SYS_sync_file_range, "dssx"}, {SYS_fallocate, "dxss"}, {SYS_copy_file_range, "dodosx"}, {SYS_eventfd2, "ix"},
    {SYS_timerfd_create, "ix"}, {SYS_timerfd_settime, "dxbb"}, {SYS_timerfd_gettime, "db"}, {SYS_signalfd4, "duix"},
    {SYS_inotify_init1, "x"}, {SYS_memfd_create, "nx"}, {SYS_getrandom, "bsx"}, {SYS_close_range, "ddx"},
    {SYS_membarrier, "ixi"}, {SYS_mlock2, "bsx"}, {SYS_pidfd_open, "ix"}, {SYS_set_robust_list, "bs"},
    {SYS_arch_prctl, "xb"}, {SYS_exit_group, "i"}, {SYS_execve, "nuu"}, {SYS_vfork, ""},
};

struct odd {
    uint64_t state;
    unsigned char *memory;
    int descriptors[40];
    size_t count;
};

static uint64_t draw(struct odd *odd, uint64_t below)
{
    // xorshift64* (Vigna, 2016).
    odd->state ^= odd->state >> 12;
    odd->state ^= odd->state << 25;
    odd->state ^= odd->state >> 27;
    return ((odd->state * UINT64_C(0x2545f4914f6cdd1d)) >> 33) % below;
}

static void keep(struct odd *odd, int descriptor)
{
    if (descriptor >= 0 && odd->count < sizeof(odd->descriptors) / sizeof(odd->descriptors[0]))
        odd->descriptors[odd->count++] = descriptor;
}

// A descriptor of each kind, most of which have nothing to read.
static void open_all(struct odd *odd)
{
    static const char *const paths[] = {"/proc/self/maps", "/proc/self/status", "/proc/stat", "/dev/zero",
                                        "/dev/null", "/dev/ptmx", "/dev/urandom", "/sys/kernel/notes", "."};
    int pair[2];
    uint16_t port = 0;
    if (pipe(pair) == 0)
        keep(odd, pair[0]), keep(odd, pair[1]);
    if (pipe2(pair, O_NONBLOCK) == 0)
        keep(odd, pair[0]), keep(odd, pair[1]);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0)
        keep(odd, pair[0]), keep(odd, pair[1]);
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0)
        keep(odd, pair[0]), keep(odd, pair[1]);
    keep(odd, loopback_socket(SOCK_STREAM, &port));
    keep(odd, loopback_connect(SOCK_STREAM, port));
    keep(odd, socket(AF_INET, SOCK_STREAM, 0));
    keep(odd, socket(AF_INET, SOCK_DGRAM, 0));
    keep(odd, socket(AF_UNIX, SOCK_STREAM, 0));
    keep(odd, loopback_socket(SOCK_DGRAM, &port));
    keep(odd, eventfd(0, 0));
    keep(odd, timerfd_create(CLOCK_MONOTONIC, 0));
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    keep(odd, signalfd(-1, &signals, 0));
    keep(odd, epoll_create1(0));
    keep(odd, memfd_create("odd", MFD_ALLOW_SEALING));
    for (size_t index = 0; index < sizeof(paths) / sizeof(paths[0]); index++) {
        int opened = open(paths[index], O_RDWR);
        keep(odd, opened >= 0 ? opened : open(paths[index], O_RDONLY));
    }
    int file = open("file", O_RDWR | O_CREAT, 0644);
    keep(odd, file);
    if (file >= 0 && !write_all(file, odd->memory, 3 * PAGE))
        return;
    keep(odd, open("file", O_WRONLY | O_APPEND));
}

// An address: mostly one of bytes that may be written, else one that is refused, or runs into what is.
static uint64_t address(struct odd *odd)
{
    uint64_t memory = (uint64_t)odd->memory;
    switch (draw(odd, 12)) {
    case 0: return 0;
    case 1: return 8;
    case 2: return UINT64_C(0xffffffff81000000);
    case 3: return memory + PAGES * PAGE - draw(odd, 64);
    case 4: return memory + (PAGES + 1) * PAGE;
    case 5: return memory + draw(odd, PAGES * PAGE);
    default: return memory + draw(odd, PAGES) * PAGE;
    }
}

static int descriptor(struct odd *odd)
{
    if (odd->count == 0 || draw(odd, 16) == 0)
        return (int)draw(odd, 64) - 4;
    return odd->descriptors[draw(odd, odd->count)];
}

static uint64_t number(struct odd *odd)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 7, 8, 16, 64, 255, 4095, 4096, 4097, 65536, 1u << 20,
                                       0x7fffffff, 0xffffffff, UINT64_C(0x7fffffffffffffff), UINT64_MAX};
    return numbers[draw(odd, sizeof(numbers) / sizeof(numbers[0]))];
}

// What the memory holds is drawn anew now and then: it is a time, a vector, an address, whatever a call takes it for.
static uint64_t shaped(struct odd *odd, char kind)
{
    uint64_t at = address(odd);
    uint64_t words[8] = {0};
    size_t used = sizeof(words);
    if (at < (uint64_t)odd->memory || at + sizeof(words) > (uint64_t)odd->memory + PAGES * PAGE)
        return at;
    switch (kind) {
    case 't':
        words[1] = draw(odd, 8) ? 1000 + draw(odd, 2000000) : number(odd);
        break;
    case 'v':
    case 'm':
        for (size_t index = 0; index < 8; index += 2)
            words[index] = address(odd), words[index + 1] = draw(odd, 4) ? draw(odd, 9000) : number(odd);
        break;
    case 'e':
    case 'p':
        for (size_t index = 0; index < 8; index++)
            words[index] = (uint64_t)(unsigned)descriptor(odd) | draw(odd, 0x2020) << 32;
        break;
    case 'l':
    case 'u':
    case 'o':
        words[0] = draw(odd, 3) ? draw(odd, 200) : number(odd);
        used = sizeof(words[0]);
        break;
    case 'a': {
        static const sa_family_t families[] = {AF_INET, AF_INET, AF_UNIX, AF_UNIX, AF_UNSPEC, AF_INET6};
        struct sockaddr_in name = {.sin_family = families[draw(odd, 6)], .sin_port = (in_port_t)draw(odd, 65536)};
        name.sin_addr.s_addr = draw(odd, 4) ? htonl(INADDR_LOOPBACK) : (in_addr_t)draw(odd, UINT32_MAX);
        memcpy(words, &name, sizeof(name));
        break;
    }
    default:
        for (size_t index = 0; index < 8; index++)
            words[index] = draw(odd, 2) ? draw(odd, 64) : number(odd);
    }
    memcpy((void *)at, words, used);
    return at;
}

static uint64_t argument(struct odd *odd, char kind)
{
    static const char *const paths[] = {"file", "missing", "directory", "link", "", "file/below", "directory/inner",
                                        "/proc/self/stat", "loop", "../odd/file", "user.name"};
    switch (kind) {
    case 'd': return (uint64_t)descriptor(odd);
    case 'D': return draw(odd, 4) ? (uint64_t)AT_FDCWD : (uint64_t)descriptor(odd);
    case 's': return draw(odd, 3) ? draw(odd, 3 * PAGE) : number(odd);
    case 'i': return draw(odd, 8) ? draw(odd, 24) : number(odd);
    case 'x': return draw(odd, 3) ? (UINT64_C(1) << draw(odd, 24)) | (UINT64_C(1) << draw(odd, 12)) : draw(odd, 4);
    case 'n': return draw(odd, 10) ? (uint64_t)paths[draw(odd, sizeof(paths) / sizeof(paths[0]))] : address(odd);
    case 'b': case 't': case 'v': case 'a': case 'l': case 'm': case 'e': case 'p': case 'o': case 'u':
        return shaped(odd, kind);
    default: return 0;
    }
}

static void interrupted(int signal)
{
    (void)signal;
}

static void limit(int what, rlim_t most)
{
    struct rlimit limit = {most, most};
    setrlimit(what, &limit);
}

static void __attribute__((noreturn)) child(uint64_t seed)
{
    struct odd odd = {.state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1};
    size_t size = (PAGES + 2) * PAGE;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    odd.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (odd.memory == MAP_FAILED || mprotect(odd.memory + PAGES * PAGE, 2 * PAGE, PROT_NONE) != 0)
        _exit(0);
    int nothing = open("/dev/null", O_RDWR);
    for (int standard = 0; standard <= 2; standard++)
        dup2(nothing, standard);
    mkdir("directory", 0755);
    if (symlink("file", "link") != 0 || symlink("loop", "loop") != 0)
        errno = 0;
    open_all(&odd);
    limit(RLIMIT_AS, 256u << 20);
    limit(RLIMIT_FSIZE, 1u << 20);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_NPROC, 64);
    // Without SA_RESTART: what waits gives up.
    struct sigaction action = {.sa_handler = interrupted};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    if (seed % 2 && setresuid(65534, 65534, 65534) != 0)
        _exit(0);
    const struct itimerval often = {{0, 3000}, {0, 3000}};
    for (int made = 0; made < CALLS_EACH; made++) {
        const struct call *call = &CALLS[draw(&odd, sizeof(CALLS) / sizeof(CALLS[0]))];
        uint64_t values[6] = {0};
        for (size_t index = 0; index < 6 && call->kinds[index]; index++)
            values[index] = argument(&odd, call->kinds[index]);
        // A child that ends early sees little. A child of vfork would share its stack.
        if (call->number == SYS_exit_group && made < CALLS_EACH * 3 / 4)
            continue;
        if (call->number == SYS_vfork) {
            if (vfork() == 0)
                _exit(0);
            continue;
        }
        setitimer(ITIMER_REAL, &often, NULL);
        long result = syscall(call->number, values[0], values[1], values[2], values[3], values[4], values[5]);
        // Successful calls that make descriptors make them for later calls; wrong guesses are refused.
        if (result > 2 && result < 1024)
            odd.descriptors[odd.count ? draw(&odd, odd.count) : 0] = (int)result;
    }
    _exit(0);
}

// Waits for the child, kills it when it takes too long; its own children come to the first process.
static void wait_or_kill(pid_t pid)
{
    const struct timespec pause = {0, 1000000};
    for (int waited = 0; waited < PATIENCE_MS; waited++) {
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return;
        nanosleep(&pause, NULL);
    }
    kill(pid, SIGKILL);
    // A stopped or waiting child dies too, unless the kernel is at fault.
    waitpid(pid, NULL, 0);
}

void odd_calls(void)
{
    const char *wanted = getenv("PLANISH_ODD");
    unsigned long children = wanted ? strtoul(wanted, NULL, 10) : 0;
    for (unsigned long seed = 1; seed <= children && seed < 1000000; seed++) {
        if (mkdir("odd", 0777) != 0 || chmod("odd", 0777) != 0 || chdir("odd") != 0)
            return;
        pid_t pid = fork();
        if (pid == 0)
            child(seed);
        if (pid > 0)
            wait_or_kill(pid);
        if (chdir("..") != 0)
            return;
        remove_tree("odd");
    }
    if (children)
        say("planish-odd %lu", children);
}
