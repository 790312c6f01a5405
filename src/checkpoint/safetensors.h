/* One .safetensors file: its header, validated.
 *
 *   8 bytes   N, little-endian: length of the header
 *   N bytes   JSON object: name -> {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__"
 *   rest      the data; offsets count from here
 *
 * Refused: a header over 100 MiB or past the end of the file, duplicate names, names with control
 * characters, unknown dtypes and fields, spans whose size is not shape times dtype, that overlap,
 * leave holes or end outside the file. Data need not be aligned: a tensor may start at any byte. */
#ifndef CHECKPOINT_SAFETENSORS_H
#define CHECKPOINT_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/file.h"
#include "quant/tensor.h"

struct tensor {
    char *name; /* as in the file */
    enum dtype dtype;
    int n_dims;
    uint64_t shape[TENSOR_DIMS_MAX];
    uint64_t offset, nbytes; /* from byte 0 of the file */
    int file;                /* index into checkpoint.files; 0 from safetensors_parse */
};

struct safetensors {
    struct tensor *tensors; /* in order of offset */
    size_t n_tensors;
    char *metadata; /* the __metadata__ object, valid JSON as it stands in the file, or NULL */
};

/* Parses a header (the N bytes) of a file of file_bytes bytes. `path` opens the messages. */
int safetensors_parse(const char *header, size_t n, uint64_t file_bytes, const char *path,
                      struct safetensors *out, struct err *e);
int safetensors_read(const struct file *f, struct safetensors *out, struct err *e);
void safetensors_free(struct safetensors *s);

#endif
