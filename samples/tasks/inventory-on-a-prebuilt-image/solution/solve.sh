#!/bin/bash
awk -F '\t' '$2 == 0 { print $1 }' /srv/stock.tsv > /srv/missing.txt
