/* Bytes as a line of a terminal can show them: see show.h. */
#include "cli/show.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

void show_text(struct buf *out, const char *s, size_t n)
{
    static const char letters[] = "\n\r\t\\", names[] = "nrt\\";
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int k = utf8_decode(s + i, n - i, &cp);
        const char *named = k == 1 && cp ? strchr(letters, (int)cp) : NULL;
        if (named)
            buf_printf(out, "\\%c", names[named - letters]);
        else if (!k || utf8_is_control(cp))
            for (int j = 0; j < (k ? k : 1); j++)
                buf_printf(out, "\\x%02x", (unsigned char)s[i + (size_t)j]);
        else
            buf_add(out, s + i, (size_t)k);
        i += k ? (size_t)k : 1;
    }
}
