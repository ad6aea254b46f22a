#include "analyzer/message.h"
#include "analyzer/progress.h"
#include <stdarg.h>
#include <stdio.h>

int message_quiet;

static void say(const char *format, va_list arguments)
{
    char text[4096];

    progress_clear();
    vsnprintf(text, sizeof text, format, arguments);
    /* Names and paths come from outside: they must not move the cursor or start a second line. */
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) *p = '?';
    }
    fprintf(stderr, "mppanalyze: %s\n", text);
}

void message(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void note(const char *format, ...)
{
    va_list arguments;

    if (message_quiet) return;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}
