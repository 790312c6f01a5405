/* Which reader: see reader.h. */
#include "stream/reader.h"

int reader_open(enum engine_reads how, int depth, struct reader **out, struct err *e)
{
    struct err why = {0};
    if (how == ENGINE_READS_PREAD)
        return reader_pread_open(depth, out, e);
    int rc = reader_uring_open(depth, out, &why);
    if (rc == -E_UNSUPPORTED && how == ENGINE_READS_AUTO)
        return reader_pread_open(depth, out, e);
    return rc ? ERR(e, why.code, "%s", why.msg) : 0;
}
