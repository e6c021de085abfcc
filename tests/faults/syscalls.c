/* Counts, fails or cuts short the system calls by which a process changes files under one folder.

   A seccomp filter of the process traps these calls; the handler of SIGSYS carries them out, records them
   with their data, and at the call that `faults_arm` names returns an error or kills the process. So calls
   of every library are caught, those of SQLite and of C's own streams too. Loaded with LD_PRELOAD it also
   shifts the clock: see the end. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

long raw_call(long nr, long a, long b, long c, long d, long e, long f);
extern const char raw_call_end[];

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define ARG(u, n) ((u)->uc_mcontext.gregs[registers[n]])
#define RESULT(u) ((u)->uc_mcontext.gregs[REG_RAX])
static const int registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
__asm__(".text\n.globl raw_call\n.type raw_call,@function\nraw_call:\n"
        "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\n"
        "mov 8(%rsp),%r9\nsyscall\n.globl raw_call_end\nraw_call_end:\nret\n");
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define ARG(u, n) ((u)->uc_mcontext.regs[n])
#define RESULT(u) ((u)->uc_mcontext.regs[0])
__asm__(".text\n.globl raw_call\n.type raw_call,%function\nraw_call:\n"
        "mov x8,x0\nmov x0,x1\nmov x1,x2\nmov x2,x3\nmov x3,x4\nmov x4,x5\nmov x5,x6\n"
        "svc #0\n.globl raw_call_end\nraw_call_end:\nret\n");
#else
#error "no registers are known for this processor"
#endif

#define CALL(nr, a, b, c, d, e, f) \
  raw_call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

enum { WRITE = 1, OPEN, MKDIR, RENAME, LINK, SYMLINK, UNLINK, RMDIR, TRUNCATE, SYNC, LOCK };
static const char *const names[] = {"", "write", "open", "mkdir", "rename", "link", "symlink",
                                    "unlink", "rmdir", "truncate", "sync", "lock"};
enum { NOTHING, FAIL_ONCE, FAIL_ON, KILL };
enum { CREATED = 1, EMPTIED = 2, INJECTED = 4, FOLDER = 8, SWAPPED = 16 };
#define LENGTH 4200

struct record {
  uint32_t size, kind;
  int64_t result, offset, length;
  uint64_t inode;
  uint32_t flags, error;
  uint32_t path, other, site, data; /* lengths of what follows */
};

struct call {
  struct record record;
  int fd;
  const struct iovec *parts;
  int n_parts;
  char path[LENGTH], other[LENGTH], site[2 * LENGTH];
};

static char root[LENGTH], wanted[2 * LENGTH];
static int log_fd = -1, action, failure, keep_data, skip_sync, tripped;
static long wanted_at, seen;
static volatile int lock_owner;

static long text_length(const char *text) {
  long n = 0;
  while (text[n]) n++;
  return n;
}

static void put_text(char *out, long *at, const char *text, long n) {
  for (long i = 0; i < n && *at < LENGTH - 1; i++) out[(*at)++] = text[i];
  out[*at] = 0;
}

static void path_of_fd(int fd, char *out) {
  char link[40] = "/proc/self/fd/";
  long at = 14;
  char digits[12];
  int n = 0;
  unsigned left = (unsigned)fd;
  do digits[n++] = (char)('0' + left % 10);
  while (left /= 10);
  while (n) link[at++] = digits[--n];
  link[at] = 0;
  long got = CALL(SYS_readlinkat, AT_FDCWD, fd == AT_FDCWD ? "/proc/self/cwd" : link, out, LENGTH - 1, 0, 0);
  out[got < 0 ? 0 : got] = 0;
}

static void path_at(int folder, const char *path, char *out) {
  long at = 0;
  out[0] = 0;
  if (path[0] != '/') {
    path_of_fd(folder, out);
    at = text_length(out);
    put_text(out, &at, "/", 1);
  }
  put_text(out, &at, path, text_length(path));
}

static int inside(const char *path) {
  long n = text_length(root);
  return n && !strncmp(path, root, (size_t)n) && (path[n] == '/' || !path[n]);
}

static int is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
static int is_word(char c) { return is_hex(c) || (c >= 'g' && c <= 'z') || c == '_'; }

/* The path below the root with what differs from run to run replaced: digests, numbers and random names. */
static void put_pattern(char *out, long *at, const char *path) {
  const char *c = path + (inside(path) ? text_length(root) : 0);
  while (*c == '/') c++;
  for (int first = 1; *c; first = 0) {
    if (!strncmp(c, ".ragc-", 6)) {
      put_text(out, at, ".ragc-*", 7);
      while (*c && *c != '/') c++;
    } else if (*c == '.' && is_word(c[1]) && strspn(c + 1, "abcdefghijklmnopqrstuvwxyz0123456789_") == 8 &&
               !strncmp(c + 9, ".new", 4)) {
      put_text(out, at, ".*.new", 6);
      c += 13;
    } else if ((first || !is_word(c[-1])) && is_hex(*c) && strspn(c, "0123456789abcdef") >= 8) {
      put_text(out, at, "#", 1);
      c += strspn(c, "0123456789abcdef");
    } else if (*c >= '0' && *c <= '9') {
      put_text(out, at, "0", 1);
      c += strspn(c, "0123456789");
    } else {
      put_text(out, at, c++, 1);
    }
  }
}

static void set_site(struct call *call) {
  long at = 0;
  const char *name = names[call->record.kind];
  put_text(call->site, &at, name, text_length(name));
  put_text(call->site, &at, " ", 1);
  put_pattern(call->site, &at, call->path);
  if (call->other[0]) {
    put_text(call->site, &at, " > ", 3);
    put_pattern(call->site, &at, call->other);
  }
}

static void append(const struct call *call, const char *data, long n) {
  struct record record = call->record;
  record.path = (uint32_t)text_length(call->path);
  record.other = (uint32_t)text_length(call->other);
  record.site = (uint32_t)text_length(call->site);
  record.data = (uint32_t)n;
  record.size = (uint32_t)(sizeof record + record.path + record.other + record.site + record.data);
  struct iovec parts[] = {{&record, sizeof record},
                          {(void *)call->path, record.path},
                          {(void *)call->other, record.other},
                          {(void *)call->site, record.site},
                          {(void *)data, record.data}};
  CALL(SYS_writev, log_fd, parts, 5, 0, 0, 0);
}

static void acquire(void) {
  int me = (int)CALL(SYS_getpid, 0, 0, 0, 0, 0, 0);
  for (;;) {
    int free = 0;
    if (__atomic_compare_exchange_n(&lock_owner, &free, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    if (free != me) { /* a fork left it held */
      __atomic_store_n(&lock_owner, 0, __ATOMIC_RELEASE);
      continue;
    }
    CALL(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
  }
}

static void release(void) { __atomic_store_n(&lock_owner, 0, __ATOMIC_RELEASE); }

static int exists(const char *path) {
  return CALL(SYS_faccessat, AT_FDCWD, path, F_OK, 0, 0, 0) == 0;
}

static int grows(const struct call *call) {
  int kind = (int)call->record.kind;
  if (failure == EROFS) return kind != SYNC && kind != LOCK;
  return kind == WRITE || kind == MKDIR || kind == SYMLINK || kind == LINK ||
         (kind == OPEN && (call->record.flags & CREATED));
}

static void die(void) {
  CALL(SYS_kill, CALL(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
  for (;;) CALL(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* Half of a write reaches the file, then the process is gone. */
static void die_halfway(struct call *call, long nr, const long *a) {
  call->record.flags |= INJECTED;
  append(call, "", 0);
  if (nr == SYS_write) CALL(nr, a[0], a[1], a[2] / 2, 0, 0, 0);
  if (nr == SYS_pwrite64) CALL(nr, a[0], a[1], a[2] / 2, a[3], 0, 0);
  die();
}

static void record_data(struct call *call, long nr, const long *a, long result) {
  static char copy[1 << 20];
  long n = 0;
  if (nr == SYS_pwrite64 || nr == SYS_pwritev)
    call->record.offset = a[3];
  else
    call->record.offset = CALL(SYS_lseek, call->fd, 0, SEEK_CUR, 0, 0, 0) - result;
  call->record.length = result;
  if (!keep_data) return append(call, "", 0);
  if (!call->parts) { /* copied inside the kernel: read it back */
    char path[LENGTH];
    path_of_fd(call->fd, path);
    long fd = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    n = CALL(SYS_pread64, fd, copy, result < (long)sizeof copy ? result : (long)sizeof copy,
             call->record.offset, 0, 0);
    CALL(SYS_close, fd, 0, 0, 0, 0, 0);
    return append(call, copy, n);
  }
  if (call->n_parts == 1) return append(call, call->parts[0].iov_base, result);
  for (int i = 0; i < call->n_parts && n < result; i++)
    for (size_t at = 0; at < call->parts[i].iov_len && n < result && n < (long)sizeof copy; at++)
      copy[n++] = ((char *)call->parts[i].iov_base)[at];
  append(call, copy, n);
}

/* The whole file at a sync, with what was written to it through memory. */
static void record_content(struct call *call) {
  static char copy[1 << 22];
  char path[LENGTH];
  path_of_fd(call->fd, path);
  long fd = CALL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0), n = 0, got;
  while (n < (long)sizeof copy &&
         (got = CALL(SYS_pread64, fd, copy + n, sizeof copy - (size_t)n, n, 0, 0)) > 0)
    n += got;
  CALL(SYS_close, fd, 0, 0, 0, 0, 0);
  append(call, copy, n);
}

static long perform(struct call *call, long nr, const long *a) {
  set_site(call);
  acquire();
  if (call->record.kind == OPEN && (a[nr == SYS_openat ? 2 : 1] & O_CREAT) && !exists(call->path))
    call->record.flags |= CREATED;
  int here = wanted[0] && !strcmp(call->site, wanted) && ++seen == wanted_at;
  if (here && action == KILL) die_halfway(call, nr, a);
  if (here && action == FAIL_ON) tripped = 1;
  if (call->record.kind == LOCK && !strcmp(wanted, "lock")) here = 1; /* every flock, of any file */
  int fails = (here && action == FAIL_ONCE) || (tripped && (here || grows(call)));
  if (fails) {
    call->record.flags |= INJECTED;
    call->record.result = -failure;
    append(call, "", 0);
    release();
    return -failure;
  }
  long result;
  if (call->record.kind == SYNC && skip_sync)
    result = 0;
  else
    result = CALL(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
  call->record.result = result;
  struct stat seen_file;
  int fd = call->record.kind == OPEN ? (int)result : call->fd;
  if (fd >= 0 && CALL(SYS_fstat, fd, &seen_file, 0, 0, 0, 0) == 0) {
    call->record.inode = seen_file.st_ino;
    if (S_ISDIR(seen_file.st_mode)) call->record.flags |= FOLDER;
  }
  if (call->record.kind == WRITE && result >= 0)
    record_data(call, nr, a, result);
  else if (call->record.kind == SYNC && keep_data && !(call->record.flags & FOLDER))
    record_content(call);
  else
    append(call, "", 0);
  release();
  return result;
}

static int prepare(struct call *call, long nr, const long *a, struct iovec *one) {
  struct record *record = &call->record;
  call->fd = -1;
  switch (nr) {
    case SYS_write: case SYS_pwrite64:
      record->kind = WRITE, call->fd = (int)a[0];
      one->iov_base = (void *)a[1], one->iov_len = (size_t)a[2];
      call->parts = one, call->n_parts = 1;
      break;
    case SYS_writev: case SYS_pwritev:
      record->kind = WRITE, call->fd = (int)a[0];
      call->parts = (const struct iovec *)a[1], call->n_parts = (int)a[2];
      break;
    case SYS_sendfile: record->kind = WRITE, call->fd = (int)a[0]; break;
    case SYS_copy_file_range: record->kind = WRITE, call->fd = (int)a[2]; break;
    case SYS_ftruncate: record->kind = TRUNCATE, call->fd = (int)a[0], record->length = a[1]; break;
    case SYS_fsync: case SYS_fdatasync: record->kind = SYNC, call->fd = (int)a[0]; break;
    case SYS_flock: record->kind = LOCK, call->fd = (int)a[0]; break;
    case SYS_openat:
      record->kind = OPEN, path_at((int)a[0], (const char *)a[1], call->path);
      if (a[2] & O_TRUNC) record->flags |= EMPTIED;
      break;
    case SYS_mkdirat: record->kind = MKDIR, path_at((int)a[0], (const char *)a[1], call->path); break;
    case SYS_unlinkat:
      record->kind = a[2] & AT_REMOVEDIR ? RMDIR : UNLINK;
      path_at((int)a[0], (const char *)a[1], call->path);
      break;
    case SYS_renameat: case SYS_renameat2:
      record->kind = RENAME;
      path_at((int)a[0], (const char *)a[1], call->path), path_at((int)a[2], (const char *)a[3], call->other);
      if (nr == SYS_renameat2 && (a[4] & 2)) record->flags |= SWAPPED;
      break;
    case SYS_linkat:
      record->kind = LINK;
      path_at((int)a[0], (const char *)a[1], call->path), path_at((int)a[2], (const char *)a[3], call->other);
      break;
    case SYS_symlinkat:
      record->kind = SYMLINK;
      put_text(call->other, &record->offset, (const char *)a[0], text_length((const char *)a[0]));
      record->offset = 0;
      path_at((int)a[1], (const char *)a[2], call->path);
      break;
#ifdef SYS_open
    case SYS_open:
      record->kind = OPEN, path_at(AT_FDCWD, (const char *)a[0], call->path);
      if (a[1] & O_TRUNC) record->flags |= EMPTIED;
      break;
    case SYS_mkdir: record->kind = MKDIR, path_at(AT_FDCWD, (const char *)a[0], call->path); break;
    case SYS_unlink: record->kind = UNLINK, path_at(AT_FDCWD, (const char *)a[0], call->path); break;
    case SYS_rmdir: record->kind = RMDIR, path_at(AT_FDCWD, (const char *)a[0], call->path); break;
    case SYS_rename: case SYS_link:
      record->kind = nr == SYS_rename ? RENAME : LINK;
      path_at(AT_FDCWD, (const char *)a[0], call->path), path_at(AT_FDCWD, (const char *)a[1], call->other);
      break;
    case SYS_symlink:
      record->kind = SYMLINK;
      put_text(call->other, &record->offset, (const char *)a[0], text_length((const char *)a[0]));
      record->offset = 0;
      path_at(AT_FDCWD, (const char *)a[1], call->path);
      break;
#endif
    default: return 0;
  }
  if (call->fd >= 0) path_of_fd(call->fd, call->path);
  return inside(call->path);
}

static void on_call(int signal, siginfo_t *info, void *context) {
  (void)signal;
  int before = errno;
  ucontext_t *state = context;
  long nr = info->si_syscall, a[6];
  for (int i = 0; i < 6; i++) a[i] = (long)ARG(state, i);
  struct call call;
  struct iovec one;
  memset(&call.record, 0, sizeof call.record);
  call.path[0] = call.other[0] = call.site[0] = 0;
  call.parts = 0, call.n_parts = 0;
  if (log_fd >= 0 && prepare(&call, nr, a, &one))
    RESULT(state) = perform(&call, nr, a);
  else
    RESULT(state) = CALL(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
  errno = before;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOAD_ARG(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * (n))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)
#define OPENING (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)

static const int trapped[] = {
    SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev, SYS_sendfile, SYS_copy_file_range, SYS_ftruncate,
    SYS_fsync, SYS_fdatasync, SYS_flock, SYS_mkdirat, SYS_unlinkat, SYS_renameat, SYS_renameat2, SYS_linkat,
    SYS_symlinkat,
#ifdef SYS_open
    SYS_mkdir, SYS_unlink, SYS_rmdir, SYS_rename, SYS_link, SYS_symlink,
#endif
};

static int install_filter(void) {
  struct sock_filter code[128];
  int n = 0;
  uint64_t own = (uint64_t)(uintptr_t)raw_call_end;
#define ADD(...) code[n++] = (struct sock_filter)__VA_ARGS__
  ADD(LOAD(arch));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
  ADD(RETURN(SECCOMP_RET_ALLOW));
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)own, 0, 3));
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(own >> 32), 0, 1));
  ADD(RETURN(SECCOMP_RET_ALLOW));
  ADD(LOAD(nr));
  for (size_t i = 0; i < sizeof trapped / sizeof *trapped; i++) {
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)trapped[i], 0, 1));
    ADD(RETURN(SECCOMP_RET_TRAP));
  }
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3));
  ADD(LOAD_ARG(2));
  ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, OPENING, 0, 1));
  ADD(RETURN(SECCOMP_RET_TRAP));
#ifdef SYS_open
  ADD(LOAD(nr));
  ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 0, 3));
  ADD(LOAD_ARG(1));
  ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, OPENING, 0, 1));
  ADD(RETURN(SECCOMP_RET_TRAP));
#endif
  ADD(RETURN(SECCOMP_RET_ALLOW));
  struct sock_fprog program = {(unsigned short)n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return errno;
  return 0;
}

static int install_handler(void) {
  struct sigaction handler;
  memset(&handler, 0, sizeof handler);
  handler.sa_sigaction = on_call;
  handler.sa_flags = SA_SIGINFO;
  sigfillset(&handler.sa_mask);
  return sigaction(SIGSYS, &handler, 0) ? errno : 0;
}

/* Watches this process from now on; 0, or the number of the error. `log` is an open file that is appended
   to; `site` and `at` name the call to disturb, "" none and "lock" every flock. `then` is one of NOTHING, FAIL_ONCE, FAIL_ON (with
   "" for `site` from the start) and KILL; `error` is that of a failure. `data` keeps what is written,
   `no_sync` only records fsync. */
int faults_arm(const char *folder, int log, const char *site, long at, int then, int error, int data,
               int no_sync) {
  strncpy(root, folder, sizeof root - 1);
  strncpy(wanted, site, sizeof wanted - 1);
  wanted_at = at, action = then, failure = error, keep_data = data, skip_sync = no_sync, seen = 0;
  tripped = then == FAIL_ON && !site[0];
  log_fd = fcntl(log, F_DUPFD_CLOEXEC, 900);
  if (log_fd < 0) return errno;
  int failed = install_handler();
  return failed ? failed : install_filter();
}

/* A program that a watched process starts has its filter, and needs the handler to live under it. */
__attribute__((constructor)) static void begin(void) {
  if (getenv("FAULTS_INHERITED")) install_handler();
}

/* With LD_PRELOAD the clock of the day goes back by FAULTS_CLOCK_BACK seconds, once FAULTS_CLOCK_FROM
   seconds have passed since the first look; monotonic clocks go on. */
static int shift(struct timespec *now) {
  static volatile time_t first;
  const char *back = getenv("FAULTS_CLOCK_BACK"), *from = getenv("FAULTS_CLOCK_FROM");
  if (!back) return 0;
  if (!first) first = now->tv_sec;
  if (now->tv_sec - first >= (from ? atol(from) : 0)) now->tv_sec -= atol(back);
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, now);
  return status || clock != CLOCK_REALTIME ? status : shift(now);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec at;
  if (clock_gettime(CLOCK_REALTIME, &at)) return -1;
  now->tv_sec = at.tv_sec, now->tv_usec = at.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *out) {
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  if (out) *out = at.tv_sec;
  return at.tv_sec;
}
