/* Lines from a person or a pipe: see line.h. */
#include "cli/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/interrupt.h"
#include "base/mem.h"
#include "base/os.h"

enum { LINE_MAX_BYTES = 16 << 20, HISTORY_LINES = 1000 };

struct line {
    char *history_path;
    EditLine *edit; /* NULL: plain lines */
    History *history;
    bool cancelled;  /* Ctrl-C came while a line was edited */
    char read[4096]; /* plain lines: what was read, from at to end not yet given */
    size_t at, end;
};

/* read, which a stop asked for before it or during it ends with EINTR. */
static ssize_t read_input(char *to, size_t n)
{
    if (interrupt_wait_readable(STDIN_FILENO))
        return read(STDIN_FILENO, to, n);
    errno = EINTR;
    return -1;
}

/* One character for the editor: 1, or what read says. Bytes that are no character are left out. */
static int read_character(EditLine *edit, wchar_t *out)
{
    mbstate_t part = {0};
    char byte;
    (void)edit;
    for (;;) {
        ssize_t n = read_input(&byte, 1);
        if (n <= 0)
            return (int)n;
        size_t used = mbrtowc(out, &byte, 1, &part);
        if (used == (size_t)-1)
            memset(&part, 0, sizeof part);
        else if (used != (size_t)-2)
            return 1;
    }
}

static const char *prompt(EditLine *edit)
{
    (void)edit;
    return "> ";
}

/* Ctrl-C is a key here, not a signal: the line is given up, the program is not. */
static unsigned char cancel(EditLine *edit, int key)
{
    struct line *l = NULL;
    (void)key;
    el_get(edit, EL_CLIENTDATA, &l);
    l->cancelled = true;
    return CC_EOF;
}

static int open_editor(struct line *l, struct err *e)
{
    HistEvent event;
    setlocale(LC_CTYPE, ""); /* which bytes make a character on this terminal */
    if (MB_CUR_MAX == 1)
        setlocale(LC_CTYPE, "C.UTF-8"); /* the model speaks UTF-8 in any case */
    l->edit = el_init("cherenkov", stdin, stdout, stderr);
    l->history = history_init();
    if (!l->edit || !l->history)
        return ERR(e, E_NOMEM, "no memory to edit lines");
    el_set(l->edit, EL_CLIENTDATA, l);
    el_set(l->edit, EL_GETCFN, read_character);
    el_set(l->edit, EL_PROMPT, prompt);
    el_set(l->edit, EL_EDITOR, "emacs");
    el_set(l->edit, EL_SIGNAL, 0);
    el_set(l->edit, EL_HIST, history, l->history);
    el_set(l->edit, EL_ADDFN, "cherenkov-cancel", "give this line up", cancel);
    el_set(l->edit, EL_SETTY, "-d", "intr=", NULL);
    el_set(l->edit, EL_BIND, "^C", "cherenkov-cancel", NULL);
    history(l->history, &event, H_SETSIZE, HISTORY_LINES);
    history(l->history, &event, H_SETUNIQUE, 1);
    if (l->history_path)
        history(l->history, &event, H_LOAD, l->history_path);
    return 0;
}

int line_open(const char *history_path, struct line **out, struct err *e)
{
    struct line *l = mem_zalloc(1, sizeof *l);
    if (!l)
        return ERR(e, E_NOMEM, "no memory to read lines");
    if (history_path)
        l->history_path = mem_strdup(history_path);
    int rc = history_path && !l->history_path ? ERR(e, E_NOMEM, "no memory to read lines") : 0;
    if (!rc && os_is_terminal(0) && os_is_terminal(1))
        rc = open_editor(l, e);
    if (rc) {
        mem_free(l->history_path);
        l->history_path = NULL; /* a history that was not read must not be written */
        line_close(l);
        return rc;
    }
    *out = l;
    return 0;
}

void line_close(struct line *l)
{
    HistEvent event;
    if (!l)
        return;
    if (l->history && l->history_path)
        history(l->history, &event, H_SAVE, l->history_path); /* mode 0600 */
    if (l->history)
        history_end(l->history);
    if (l->edit)
        el_end(l->edit);
    mem_free(l->history_path);
    mem_free(l);
}

static int read_edited(struct line *l, struct buf *out, enum line_event *event, struct err *e)
{
    HistEvent ignored;
    int n = 0;
    l->cancelled = false;
    const char *s = el_gets(l->edit, &n);
    if (!interrupt_final() && (l->cancelled || (!s && interrupt_asked()))) {
        printf("^C\n");
        *event = LINE_CANCELLED;
        return 0;
    }
    if (!s && n < 0 && !interrupt_final())
        return err_sys(e, "reading from the terminal failed");
    if (!s || n <= 0) {
        *event = LINE_END;
        return 0;
    }
    *event = LINE_READ;
    history(l->history, &ignored, H_ENTER, s);
    buf_add(out, s, strcspn(s, "\r\n"));
    return buf_check(out, e);
}

/* The next byte, EOF, or -2 with errno. */
static int next_byte(struct line *l)
{
    if (l->at == l->end) {
        ssize_t n = read_input(l->read, sizeof l->read);
        if (n <= 0)
            return n == 0 ? EOF : -2;
        l->at = 0;
        l->end = (size_t)n;
    }
    return (unsigned char)l->read[l->at++];
}

static int read_plain(struct line *l, struct buf *out, enum line_event *event, struct err *e)
{
    int c;
    while ((c = next_byte(l)) >= 0 && c != '\n') {
        buf_putc(out, (char)c);
        if (out->len > LINE_MAX_BYTES)
            return ERR(e, E_LIMIT, "a line of standard input has more than %d bytes",
                       LINE_MAX_BYTES);
    }
    if (c == -2 && errno != EINTR)
        return err_sys(e, "reading standard input failed");
    *event = c < 0 && out->len == 0 ? LINE_END : LINE_READ;
    return buf_check(out, e);
}

int line_read(struct line *l, struct buf *out, enum line_event *event, struct err *e)
{
    buf_clear(out);
    return l->edit ? read_edited(l, out, event, e) : read_plain(l, out, event, e);
}
