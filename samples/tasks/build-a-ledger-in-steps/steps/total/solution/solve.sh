#!/bin/bash
awk -F , '{ sum += $3 } END { printf "%.2f\n", sum }' /app/ledger.csv > /app/total.txt
