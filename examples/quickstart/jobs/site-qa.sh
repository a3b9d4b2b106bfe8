#!/bin/sh
# Looks at a page: the address comes on stdin, the verdict goes to the file at TENURE_RESULT.
set -eu
url=$(cat)
echo "looking at $url" >&2
sleep 1.5
printf '%s: no broken links (attempt %s)\n' "$url" "$TENURE_ATTEMPT" > "$TENURE_RESULT"
