#!/bin/sh
# Engine "gpu": the same bits, whatever the pool and the disk do; the cases are those of engine
# "cpu". Takes any device, software too.
# Runs in release alone.
set -u
exec "$CHERENKOV_BUILD/test_invariance_stream" gpu
