#!/bin/bash
mkdir -p /logs/verifier
if [ "$(cat /app/ledger.csv)" = $'2025-12-30,tea,2.25\n2026-01-05,coffee,3.50\n2026-01-09,books,42.00' ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
