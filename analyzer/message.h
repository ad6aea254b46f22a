/* What mppanalyze says on stderr: one line each, `mppanalyze: ` before it, control characters made visible. stdout is for data only. */
#ifndef MPP_MESSAGE_H
#define MPP_MESSAGE_H

/* A failure or a warning. */
void message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A remark, left out under --quiet. */
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int message_quiet;

#endif
