#!/bin/bash
cat /app/incoming/*.txt | sort | tr ' ' ',' > /app/ledger.csv
