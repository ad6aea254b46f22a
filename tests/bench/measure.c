/* measure OUT COMMAND [ARGUMENT...]: runs the command with stdout in OUT and tells what it cost, as one line of JSON. A program of its own, since a
 * process that forks from a big one is charged with the memory of its parent. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv)
{
    struct timespec began, ended;
    struct rusage usage;
    int status;

    if (argc < 3) return 2;
    clock_gettime(CLOCK_MONOTONIC, &began);
    pid_t pid = fork();
    if (pid < 0) return 1;
    if (!pid) {
        int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fd < 0 || dup2(fd, 1) < 0) _exit(127);
        execvp(argv[2], argv + 2);
        _exit(127);
    }
    if (wait4(pid, &status, 0, &usage) < 0) return 1;
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("{\"wall_s\": %.6f, \"cpu_s\": %.6f, \"max_rss_bytes\": %ld, \"exit\": %d}\n",
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) * 1e-9, seconds(usage.ru_utime) + seconds(usage.ru_stime),
           usage.ru_maxrss * 1024, WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    return 0;
}
