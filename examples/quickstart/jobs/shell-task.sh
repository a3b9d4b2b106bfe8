#!/bin/sh
# Runs a task by name. "flaky" fails once, "poison" fails whenever it is tried.
set -eu
task=$(cat)
sleep 0.5
case "$task" in
    flaky)
        if [ "$TENURE_ATTEMPT" -eq 1 ]; then
            echo "connection reset by peer" >&2
            exit 75
        fi
        ;;
    poison)
        echo "attempt $TENURE_ATTEMPT: the order has no lines" >&2
        exit 1
        ;;
esac
printf 'did %s as process %s\n' "$task" "$$" > "$TENURE_RESULT"
