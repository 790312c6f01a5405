/* Pages of other origins. A server without keys trusts whoever reaches it, and a browser on the
 * same machine reaches it for any page that it shows: with requests that need no permission (a POST
 * of plain text), and under a name of the page's own that was made to point here. */
#ifndef SERVER_BROWSER_H
#define SERVER_BROWSER_H

#include <stdbool.h>

/* Whether a page of `origin` (the header; NULL: no page, or its own server's) may ask the server
 * that was called `host` (the header, or NULL). cors: the origin that is let in, "*" or NULL. */
bool browser_may_ask(const char *origin, const char *host, const char *cors);
/* Whether host, with or without a port, is a number, or a name without a dot or below .localhost: a
 * page from elsewhere has none of these. NULL is. */
bool browser_host_is_local(const char *host);

#endif
