#!/bin/bash
mkdir -p /logs/verifier
cd /app/drafts || exit 1
is() { if printf "$2" | cmp -s - "$1"; then echo 1; else echo 0; fi; }
spaces=$(is spaces.txt 'one\ntwo\n three\n')
blank=$(is blank.txt 'one\n\ntwo\n\nthree\n')
case=$(is case.txt 'some letters here\n')
end=$(is end.txt 'no end\n')
total=$((spaces + blank + case + end))
reward=$(awk -v total="$total" 'BEGIN { print total / 4 }')
printf '{"reward": %s, "spaces": %s, "blank": %s, "case": %s, "end": %s}\n' \
  "$reward" "$spaces" "$blank" "$case" "$end" > /logs/verifier/reward.json
