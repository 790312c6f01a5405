#!/bin/sh
# Engine "gpu": the same bits, whatever the way to them; the cases are those of engine "cpu". Takes
# any device, software too.
# Runs in release alone.
set -u
exec "$CHERENKOV_BUILD/test_invariance" gpu
