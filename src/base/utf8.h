/* UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at s (n > 0 bytes are there). Returns its length 1..4 and sets *cp; for
 * bytes that are no character returns 0 and leaves *cp. */
int utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes cp (a valid scalar value) to out, returns its length 1..4. */
int utf8_put(uint32_t cp, char out[4]);
/* The offset of the first byte that is not part of a valid character, or n. */
size_t utf8_valid_prefix(const char *s, size_t n);
/* How many bytes at the end of s[0..n) are the start of a character that more bytes could complete:
 * 0..3. */
size_t utf8_incomplete_tail(const char *s, size_t n);
/* Length 1..3 of the maximal subpart at s (Unicode 15, 3.9): what one U+FFFD replaces when s does
 * not start with a character. n > 0. */
size_t utf8_bad_length(const char *s, size_t n);
/* C0, DEL, C1: what may steer a terminal. */
bool utf8_is_control(uint32_t cp);
/* Turns every byte of the string s into ? that is part of no character or of a control character.
 * What is left moves no cursor and ends no line. */
void utf8_make_plain(char *s);

#endif
