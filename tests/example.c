/* The whole of cherenkov.h in one small program: asks a model one question, prints the answer. */
#include <cherenkov.h>
#include <stdio.h>

static int fail(const char *what, const cherenkov *m)
{
    fprintf(stderr, "%s: %s\n", what, cherenkov_error(m));
    return 1;
}

static int ask(cherenkov *m, cherenkov_sequence *s, const char *question)
{
    const char *text;
    if (cherenkov_feed_chat(s, "user", question))
        return fail("feeding the question", m);
    do {
        if (cherenkov_next(s, &text))
            return fail("answering", m);
        fputs(text ? text : "\n", stdout);
        fflush(stdout);
    } while (text);
    return 0;
}

int main(int argc, char **argv)
{
    cherenkov *m;
    cherenkov_sequence *s;
    cherenkov_sampling greedy = {.size = sizeof greedy};
    if (argc != 3)
        return fprintf(stderr, "usage: %s STORE QUESTION\n", argv[0]), 2;
    if (cherenkov_open(argv[1], NULL, &m))
        return fail("opening the store", NULL);
    int rc = cherenkov_sequence_open(m, &greedy, &s);
    rc = rc ? fail("opening a sequence", m) : ask(m, s, argv[2]);
    cherenkov_sequence_close(s);
    cherenkov_close(m);
    return rc;
}
