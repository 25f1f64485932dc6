#!/bin/bash
mkdir -p /logs/verifier
if tar -tf /app/album.tar | grep -v '/$' | sort | cmp -s - /tests/files.txt; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
