#!/bin/sh
# Reviews a change. It starts helpers, as real tools do; they are gone when the job is.
set -eu
change=$(cat)
sleep 3 &
sleep 2
printf '%s: looks good\n' "$change" > "$TENURE_RESULT"
