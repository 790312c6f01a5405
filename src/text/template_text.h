/* Text as the template language sees it: characters are code points, classes and case follow
 * Python's str. Private to text/. Texts are valid UTF-8. */
#ifndef TEXT_TEMPLATE_TEXT_H
#define TEXT_TEMPLATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "text/template_value.h"

/* The character at p (p < end), its length in *n. */
uint32_t text_char(const char *p, const char *end, int *n);
size_t text_count(struct text t); /* characters */
/* The byte offset of character i, or t.len when there are fewer. */
size_t text_offset(struct text t, size_t i);
struct text text_sub(struct text t, size_t from, size_t to); /* bytes from..to */
/* The offset of the first (last) occurrence of part, or SIZE_MAX. */
size_t text_find(struct text t, struct text part);
size_t text_rfind(struct text t, struct text part);

bool char_is_space(uint32_t c);
bool char_is_linebreak(uint32_t c); /* where splitlines cuts */
bool char_is_alpha(uint32_t c);
bool char_is_alnum(uint32_t c);
bool char_is_decimal(uint32_t c);
bool char_is_digit(uint32_t c);
bool char_is_numeric(uint32_t c);
bool char_is_upper(uint32_t c);
bool char_is_lower(uint32_t c);
bool char_is_title(uint32_t c);
bool char_is_printable(uint32_t c);
bool char_is_id_start(uint32_t c); /* of a name */
bool char_is_id_part(uint32_t c);
int char_digit(uint32_t c); /* the value of a decimal digit of any script, or -1 */

enum strip_side { STRIP_LEFT = 1, STRIP_RIGHT = 2, STRIP_BOTH = 3 };
/* Without blanks at the ends, or without the characters of *chars. */
struct text text_strip(struct text t, const struct text *chars, enum strip_side side);

/* Append the whole text in another case. */
void text_upper(struct text t, struct buf *out);
void text_lower(struct text t, struct buf *out);
void text_title(struct text t, struct buf *out);
void text_capitalize(struct text t, struct buf *out);
void text_swapcase(struct text t, struct buf *out);
void text_casefold(struct text t, struct buf *out);
void text_escape_html(struct text t, struct buf *out);

#endif
