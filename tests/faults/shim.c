// A library to be preloaded: makes the N-th call that changes or opens something below a folder fail, or end the process.
//
// Calls of all threads are counted, also those of Arrow and DuckDB. `shim_arm` says which call is meant, by its number
// from 1, and what becomes of it. With the number 0 calls are counted only, and `shim_kind` says what each was.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL = -1, TERM = -2, SHORT = -3 };  // else an errno
enum { MOST = 1 << 16 };

static char root[PATH_MAX];
static long meant;
static int fault;
static atomic_long calls;
static char kinds[MOST];

void shim_arm(const char *folder, long number, int what) {
    strncpy(root, folder, sizeof root - 1);
    meant = number;
    fault = what;
    atomic_store(&calls, 0);
}

long shim_calls(void) { return atomic_load(&calls); }
char shim_kind(long number) { return number < MOST ? kinds[number] : '?'; }

static int is_below(const char *path) {
    size_t length = strlen(root);
    return length && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int is_below_at(int folder, const char *path) {
    if (!root[0]) return 0;
    char full[2 * PATH_MAX], link[64];
    if (path[0] == '/') return is_below(path);
    if (folder == AT_FDCWD) {
        if (!getcwd(full, PATH_MAX)) return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, full, PATH_MAX - 1);
        if (length < 0) return 0;
        full[length] = 0;
    }
    if (path[0]) { strncat(full, "/", 2); strncat(full, path, PATH_MAX - 1); }
    return is_below(full);
}

static int is_open_below(int file) { return is_below_at(file, ""); }

// 0: the call goes on; 1: it fails with errno; 2: it takes a part only
static int strike(char kind) {
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (number < MOST) kinds[number] = kind;
    if (number != meant) return 0;
    if (fault == KILL) raise(SIGKILL);
    if (fault == TERM) { raise(SIGTERM); return 0; }
    if (fault == SHORT) return kind == 'w' ? 2 : 0;
    errno = fault;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name, ...) \
    if (strike((flags & (O_CREAT | O_WRONLY | O_RDWR)) ? 'c' : 'o') == 1) return -1;

#define DEFINE_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        if (is_below_at(AT_FDCWD, path)) { OPEN(name) } \
        return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name))(path, flags, mode); \
    }
#define DEFINE_OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        if (is_below_at(folder, path)) { OPEN(name) } \
        return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name))(folder, path, flags, mode); \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

ssize_t write(int file, const void *data, size_t size) {
    if (is_open_below(file)) {
        int struck = strike('w');
        if (struck == 1) return -1;
        if (struck == 2) size = (size + 1) / 2;
    }
    return REAL(write)(file, data, size);
}
#define DEFINE_PWRITE(name, type) \
    ssize_t name(int file, const void *data, size_t size, type offset) { \
        if (is_open_below(file)) { \
            int struck = strike('w'); \
            if (struck == 1) return -1; \
            if (struck == 2) size = (size + 1) / 2; \
        } \
        return ((ssize_t (*)(int, const void *, size_t, type))dlsym(RTLD_NEXT, #name))(file, data, size, offset); \
    }
DEFINE_PWRITE(pwrite, off_t)
DEFINE_PWRITE(pwrite64, off64_t)

#define DEFINE_ON_FILE(name, kind) \
    int name(int file) { \
        if (is_open_below(file) && strike(kind) == 1) return -1; \
        return REAL(name)(file); \
    }
DEFINE_ON_FILE(fsync, 's')
DEFINE_ON_FILE(fdatasync, 's')

int flock(int file, int operation) {
    if (is_open_below(file) && strike('l') == 1) return -1;
    return ((int (*)(int, int))dlsym(RTLD_NEXT, "flock"))(file, operation);
}
int mkdir(const char *path, mode_t mode) {
    if (is_below_at(AT_FDCWD, path) && strike('m') == 1) return -1;
    return REAL(mkdir)(path, mode);
}
int mkdirat(int folder, const char *path, mode_t mode) {
    if (is_below_at(folder, path) && strike('m') == 1) return -1;
    return REAL(mkdirat)(folder, path, mode);
}
int rename(const char *from, const char *to) {
    if (is_below_at(AT_FDCWD, to) && strike('r') == 1) return -1;
    return REAL(rename)(from, to);
}
int renameat(int from_folder, const char *from, int to_folder, const char *to) {
    if (is_below_at(to_folder, to) && strike('r') == 1) return -1;
    return REAL(renameat)(from_folder, from, to_folder, to);
}
int link(const char *from, const char *to) {
    if (is_below_at(AT_FDCWD, to) && strike('n') == 1) return -1;
    return REAL(link)(from, to);
}
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (is_below_at(to_folder, to) && strike('n') == 1) return -1;
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}
int unlink(const char *path) {
    if (is_below_at(AT_FDCWD, path) && strike('u') == 1) return -1;
    return REAL(unlink)(path);
}
int unlinkat(int folder, const char *path, int flags) {
    if (is_below_at(folder, path) && strike('u') == 1) return -1;
    return REAL(unlinkat)(folder, path, flags);
}
int rmdir(const char *path) {
    if (is_below_at(AT_FDCWD, path) && strike('u') == 1) return -1;
    return REAL(rmdir)(path);
}
