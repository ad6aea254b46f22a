#include "analyzer/output.h"
#include "analyzer/message.h"
#include "analyzer/progress.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The temporary file, for the signal handler: only async-signal-safe calls may touch it. */
static char *volatile pending;

static void on_signal(int number)
{
    if (pending) unlink(pending);
    signal(number, SIG_DFL);
    raise(number);
}

static void watch_signals(void)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ, SIGXCPU};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction old, action = {.sa_handler = on_signal};
        sigemptyset(&action.sa_mask);
        /* What the parent has told us to ignore (nohup) stays ignored. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    }
}

static int fail(const struct output *o, int cause)
{
    if (o->path) {
        message("cannot write \"%s\": %s", o->path, strerror(cause));
    } else {
        message("cannot write to standard output: %s", strerror(cause));
    }
    return -1;
}

static int open_temporary(struct output *o, const struct stat *old)
{
    mode_t mask = umask(0);

    umask(mask);
    if (asprintf(&o->temporary, "%s.XXXXXX", o->target) < 0) {
        o->temporary = NULL;
        return ENOMEM;
    }
    int fd = mkstemp(o->temporary);
    if (fd < 0) {
        int cause = errno;
        free(o->temporary);
        o->temporary = NULL;
        return cause;
    }
    pending = o->temporary;
    watch_signals();
    /* mkstemp makes it private; a report has the mode that any new file has, or that of the one it replaces. */
    (void)fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask);
    o->file = fdopen(fd, "w");
    if (o->file) return 0;
    int cause = errno;
    close(fd);
    return cause;
}

int output_open(struct output *o, const char *path)
{
    struct stat st;
    int cause = 0;

    *o = (struct output){0};
    progress_clear(); /* what comes now may go to the same terminal */
    if (!path || strcmp(path, "-") == 0) {
        o->file = stdout;
        return 0;
    }
    o->path = path;
    int there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) return fail(o, EISDIR);
    if (there && !S_ISREG(st.st_mode)) {
        o->file = fopen(path, "w");
        return o->file ? 0 : fail(o, errno);
    }
    if (there && access(path, W_OK) != 0) return fail(o, errno);
    /* A link stays one: what it points to is replaced. */
    o->target = there ? realpath(path, NULL) : strdup(path);
    cause = o->target ? open_temporary(o, there ? &st : NULL) : errno;
    if (!cause) return 0;
    output_abort(o);
    return fail(o, cause);
}

int output_commit(struct output *o)
{
    int cause = 0;

    if (fflush(o->file) != 0 || ferror(o->file)) cause = errno ? errno : EIO;
    if (!cause && o->temporary && fsync(fileno(o->file)) != 0) cause = errno;
    if (o->file != stdout) {
        if (fclose(o->file) != 0 && !cause) cause = errno;
    }
    o->file = NULL;
    if (!cause && o->temporary && rename(o->temporary, o->target) != 0) cause = errno;
    if (!cause) {
        pending = NULL;
        free(o->temporary);
        o->temporary = NULL;
    }
    output_abort(o);
    return cause ? fail(o, cause) : 0;
}

void output_abort(struct output *o)
{
    if (o->file && o->file != stdout) fclose(o->file);
    o->file = NULL;
    if (o->temporary) unlink(o->temporary);
    pending = NULL;
    free(o->temporary);
    free(o->target);
    o->temporary = o->target = NULL;
}

int output_is_terminal(const struct output *o)
{
    return o->file && isatty(fileno(o->file));
}
