/* Pages of other origins: see browser.h. */
#include "server/browser.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

bool browser_may_ask(const char *origin, const char *host, const char *cors)
{
    if (!origin || (cors && (strcmp(cors, "*") == 0 || strcmp(cors, origin) == 0)))
        return true;
    const char *name = strstr(origin, "://");
    return name && host && strcasecmp(name + strlen("://"), host) == 0;
}

bool browser_host_is_local(const char *host)
{
    static const char local[] = ".localhost";
    if (!host || *host == '[') /* [::1]:8080 */
        return true;
    const size_t n = strcspn(host, ":"), m = strlen(local);
    if (!memchr(host, '.', n) || strspn(host, "0123456789.") == n)
        return n > 0;
    return n > m && strncasecmp(host + n - m, local, m) == 0;
}
