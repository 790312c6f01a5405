/* The terminal: see screen.h. */
#include "cli/screen.h"

#ifdef HAVE_NCURSES

#include <stdio.h>
#include <unistd.h>

#include "base/env.h"
#include "base/os.h"
#include "cli/dash.h"

#undef ERR /* curses means something else by it */
#include <curses.h>
#include <term.h>

#define FAIL(e, code, ...) err_failed((err_set)((e), (code), __VA_ARGS__))

enum { ESCAPE = 27, ESCAPE_WAIT_MS = 50, PAIR_CHART = 1, PAIR_WARN };

/* Whether TERM is a kind that is known, and on which text can be put at a place: newterm takes one
 * on which it cannot (dumb), and then all lines are written over each other. */
static bool can_place(void)
{
    int found;
    if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
        return false;
    const char *move = tigetstr("cup");
    const bool can = move && move != (const char *)-1;
    del_curterm(cur_term);
    return can;
}

/* newterm, because initscr would end the program at a terminal it does not know. */
int screen_open(struct err *e)
{
    if (!os_is_terminal(STDIN_FILENO) || !os_is_terminal(STDOUT_FILENO))
        return FAIL(e, E_ARG, "dash wants a terminal; `cherenkov status` prints the figures once");
    SCREEN *screen = can_place() ? newterm(NULL, stdout, stdin) : NULL;
    if (!screen)
        return FAIL(e, E_ARG,
                    "dash cannot draw on this terminal: set TERM to a kind that is in the "
                    "terminfo database and can move its cursor (vt100 nearly always works)");
    set_escdelay(ESCAPE_WAIT_MS);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    curs_set(0);
    if (has_colors() && !env_get(ENV_NO_COLOR)) {
        start_color();
        use_default_colors();
        init_pair(PAIR_CHART, COLOR_CYAN, -1);
        init_pair(PAIR_WARN, COLOR_RED, -1);
    }
    return 0;
}

void screen_close(void)
{
    if (!stdscr || isendwin())
        return;
    SCREEN *screen = set_term(NULL);
    set_term(screen);
    endwin();
    delscreen(screen);
}

void screen_size(int *w, int *h)
{
    getmaxyx(stdscr, *h, *w);
}

static attr_t look_of(enum canvas_style style)
{
    const bool colour = has_colors() && !env_get(ENV_NO_COLOR);
    switch (style) {
    case STYLE_BAR:
    case STYLE_SELECTED:
        return A_REVERSE;
    case STYLE_HEAD:
        return A_BOLD;
    case STYLE_FAINT:
        return A_DIM;
    case STYLE_CHART:
        return colour ? (attr_t)COLOR_PAIR(PAIR_CHART) : A_NORMAL;
    case STYLE_WARN:
        return A_REVERSE | (colour ? (attr_t)COLOR_PAIR(PAIR_WARN) : A_BOLD);
    default:
        return A_NORMAL;
    }
}

/* The last cell of all is left out: writing there would scroll some terminals. */
void screen_show(const struct canvas *c)
{
    erase();
    for (int i = 0; i + 1 < c->w * c->h; i++)
        mvaddch(i / c->w, i % c->w,
                (chtype)(unsigned char)c->cell[i] | look_of((enum canvas_style)c->style[i]));
    refresh();
}

int screen_key(int wait_ms)
{
    static const struct {
        int theirs, ours;
    } keys[] = {
        {KEY_UP, DASH_KEY_UP},       {KEY_DOWN, DASH_KEY_DOWN},     {KEY_HOME, DASH_KEY_HOME},
        {KEY_END, DASH_KEY_END},     {KEY_PPAGE, DASH_KEY_PAGE_UP}, {KEY_NPAGE, DASH_KEY_PAGE_DOWN},
        {KEY_ENTER, DASH_KEY_ENTER}, {'\r', DASH_KEY_ENTER},        {'\n', DASH_KEY_ENTER},
        {'\t', DASH_KEY_TAB},        {ESCAPE, DASH_KEY_ESCAPE},     {KEY_RESIZE, DASH_KEY_RESIZE},
    };
    timeout(wait_ms);
    const int key = getch();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i].theirs == key)
            return keys[i].ours;
    return key > ' ' && key <= '~' ? key : DASH_KEY_NONE;
}

#else

int screen_open(struct err *e)
{
    return ERR(e, E_UNSUPPORTED,
               "this program was built without ncurses, which dash needs; "
               "`cherenkov status` prints the figures once");
}

void screen_close(void)
{
}

void screen_size(int *w, int *h)
{
    *w = *h = 0;
}

void screen_show(const struct canvas *c)
{
    (void)c;
}

int screen_key(int wait_ms)
{
    (void)wait_ms;
    return 0;
}

#endif
