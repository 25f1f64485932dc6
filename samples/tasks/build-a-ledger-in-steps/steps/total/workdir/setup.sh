#!/bin/bash
# Run before the agent starts with this step.
echo '2026-01-11,paper,13.00' >> /app/ledger.csv
