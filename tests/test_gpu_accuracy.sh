#!/bin/sh
# Engine "gpu" against engine "reference", by what the next token may be; the cases are those of
# engine "cpu", on fewer tokens. Takes any device, software too.
# Runs in release alone.
set -u
exec "$CHERENKOV_BUILD/test_cpu" gpu 24 6
