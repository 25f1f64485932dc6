#!/bin/bash
# Runs as root. What the candidate wrote runs as nobody, who can neither read /tests nor write /logs/verifier, and whose
# word counts for nothing: only what it prints is compared, here.
mkdir -p /logs/verifier
reward=0
said=$(mktemp -d) # of root alone

as_nobody() {
  setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --no-new-privs -- "$@" < /dev/null 2> /dev/null
}

total() {
  # Into a file: a process that it leaves behind would hold a pipe open, and nobody would ever read its end.
  (ulimit -f 64 && as_nobody timeout 10 perl -e 'require "/app/Sum.pm"; print Sum::total(@ARGV)' -- "$@")
  as_nobody bash -c 'kill -9 -1'
}

passes() {
  local case=0
  while read -r expected numbers; do
    case=$((case + 1))
    # shellcheck disable=SC2086 # the numbers are words of their own
    total $numbers > "$said/$case"
    [ "$(head -c 100 "$said/$case")" = "$expected" ] || return 1
  done < /tests/cases.txt
}

passes && reward=1
echo "$reward" > /logs/verifier/reward.txt
