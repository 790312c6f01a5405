/* What an unfinished store holds: see journal.h. */
#include "pack/journal.h"

#include <string.h>

#include <xxhash.h>

#include "base/mem.h"

struct header {
    char magic[8];
    uint64_t fingerprint, n;
};
_Static_assert(sizeof(struct header) == 24, "as journal.h draws it");

struct slot {
    uint64_t sum, check;
};
_Static_assert(sizeof(struct slot) == 16, "as journal.h draws it");

static uint64_t check_of(uint64_t fingerprint, size_t piece, uint64_t sum)
{
    uint64_t in[3] = {fingerprint, piece, sum};
    return XXH3_64bits(in, sizeof in);
}

static uint64_t slot_offset(size_t piece)
{
    return sizeof(struct header) + piece * sizeof(struct slot);
}

static int start(const struct journal *j, size_t n, struct err *e)
{
    struct header h = {.magic = "CKVPACK", .fingerprint = j->fingerprint, .n = n};
    h.magic[7] = '1';
    int rc = file_set_size(&j->file, 0, e);
    if (!rc)
        rc = file_set_size(&j->file, slot_offset(n), e);
    return rc ? rc : file_write_at(&j->file, 0, &h, sizeof h, e);
}

static int read_slots(struct journal *j, struct err *e)
{
    struct slot *slot = mem_array(j->n + 1, sizeof *slot);
    int rc = slot ? file_read_at(&j->file, slot_offset(0), slot, j->n * sizeof *slot, e)
                  : ERR(e, E_NOMEM, "out of memory for a journal of %zu pieces", j->n);
    for (size_t i = 0; i < j->n && !rc; i++) {
        j->done[i] = slot[i].check == check_of(j->fingerprint, i, slot[i].sum);
        j->sum[i] = slot[i].sum;
    }
    mem_free(slot);
    return rc;
}

int journal_open(const char *dir, uint64_t fingerprint, size_t n, struct journal *out,
                 struct err *e)
{
    struct header h = {{0}, 0, 0};
    struct journal *j = out;
    char *path = file_join(dir, JOURNAL_FILE);
    *j = (struct journal){.file = FILE_CLOSED, .fingerprint = fingerprint, .n = n};
    j->done = mem_zalloc(n + 1, sizeof *j->done);
    j->sum = mem_zalloc(n + 1, sizeof *j->sum);
    int rc = path && j->done && j->sum
                 ? file_reopen(path, &j->file, e)
                 : ERR(e, E_NOMEM, "out of memory for a journal of %zu pieces", n);
    if (!rc && j->file.size == slot_offset(n))
        rc = file_read_at(&j->file, 0, &h, sizeof h, e);
    j->fresh = memcmp(h.magic, "CKVPACK1", sizeof h.magic) != 0 || h.fingerprint != fingerprint ||
               h.n != n;
    if (!rc)
        rc = j->fresh ? start(j, n, e) : read_slots(j, e);
    if (rc)
        journal_close(j);
    mem_free(path);
    return rc;
}

int journal_note(struct journal *j, size_t piece, uint64_t sum, struct err *e)
{
    struct slot s = {sum, check_of(j->fingerprint, piece, sum)};
    j->sum[piece] = sum;
    j->done[piece] = true;
    return file_write_at(&j->file, slot_offset(piece), &s, sizeof s, e);
}

void journal_close(struct journal *j)
{
    if (j->n)
        file_drop(&j->file);
    mem_free(j->done);
    mem_free(j->sum);
    *j = (struct journal){.file = FILE_CLOSED};
}

int journal_remove(const char *dir, struct err *e)
{
    char *path = file_join(dir, JOURNAL_FILE);
    int rc = path ? file_remove(path, e) : ERR(e, E_NOMEM, "out of memory in %s", dir);
    mem_free(path);
    return rc;
}
