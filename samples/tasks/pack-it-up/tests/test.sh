#!/bin/bash
mkdir -p /logs/verifier
# The size and the name of each file: names alone would accept an archive of empty files.
if tar -tvf /app/album.tar | awk '!/\/$/ { print $3, $6 }' | sort -k 2 | cmp -s - /tests/files.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
