/* The web page: files of src/server/page/, which the build puts into the program. They need no API
 * key; what the page then asks the server for does. */
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include "server/api.h"

/* The files, made by tools/embed.sh; a NULL name ends them. */
struct page_file {
    const char *name;
    const unsigned char *data;
    size_t bytes;
};
extern const struct page_file page_files[];

void page_index(struct server *s, struct exchange *x); /* GET / */
void page_part(struct server *s, struct exchange *x);  /* GET /page/NAME */

#endif
