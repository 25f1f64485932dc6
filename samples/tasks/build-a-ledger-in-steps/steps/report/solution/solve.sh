#!/bin/bash
printf 'entries: %s\ntotal: %s\n' "$(wc -l < /app/ledger.csv)" "$(cat /app/total.txt)" > /app/report.txt
